//! [`Consensus`], what it starts from, what it takes and what it gives out.
//!
//! `consensus` composes the components ([`crate::replication`], [`crate::read_index`], the log view) around the
//! raft library. `input` and `propose` take input; `output` gives out what is to be done and takes completions. `guard`
//! checks a message before the library sees it.

mod consensus;
mod election_timeout;
mod guard;
mod input;
mod output;
mod propose;
mod ready;
mod snapshot_use;
mod start;
mod status;

pub use consensus::Consensus;
pub use guard::MAX_TERM;
pub use ready::Ready;
pub use snapshot_use::SnapshotUse;
pub use start::{Config, MAX_APPEND_BYTES, MAX_COMMITTED_BYTES, MAX_UNCOMMITTED_BYTES, Start};
pub use status::{Leadership, Role, Status};
