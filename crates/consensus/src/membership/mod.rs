//! Membership: configurations and conf changes, their bytes, their conversion to the raft library's types, and their
//! application.

mod apply;
mod conf;
mod convert;

pub(crate) use apply::check_applies;
pub use conf::{Change, ConfChange, ConfState, MAX_MEMBERS, Transition};
pub(crate) use convert::{
    conf_change_proposal, conf_change_to_raft, conf_state_from_raft, conf_state_to_raft,
};
