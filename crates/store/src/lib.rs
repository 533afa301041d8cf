//! The replicated state machine: what a committed batch of commands does to keys, revisions, leases and watchers.
mod types;
pub mod watch;

pub use types::{Compacted, Damaged, Event, EventKind, History, KeyRange, KvRef, Revision, ValueRef, Values};
