//! Messages between members: their types, their bytes, and their conversion to the raft library's types.

mod body;
mod codec;
mod convert;

pub use body::{Body, Message, MessageClass, SnapshotMeta};
pub use codec::MESSAGE_VERSION;
pub(crate) use convert::{
    entries_from_raft, entry_to_raft, hard_state_from_raft, hard_state_to_raft, message_from_raft,
    message_to_raft, snapshot_from_raft, snapshot_to_raft,
};
