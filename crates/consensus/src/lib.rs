//! Consensus: the Raft log of one member, sans-IO.
//!
//! [`Consensus`] takes input (ticks, messages, proposals, completions) and gives out what is to be done ([`Ready`]):
//! entries to write, messages to send, entries to apply. It has no clock, no entropy, no threads, no files and no
//! sockets; the same input always gives the same output. Underneath is the `raft` library, which no other crate names.
//! Everything that goes in or out has a type of this crate, converted by moves.
//!
//! ```
//! use consensus::{Config, Consensus, Start};
//!
//! let config =
//!     Config { id: 1, election_tick: 10, heartbeat_tick: 1, pre_vote: true, check_quorum: true, seed: 7 };
//! let mut node = Consensus::new(&config, Start::bootstrap([1])).unwrap();
//! let (index, term) = node.propose("put a".into()).unwrap();
//! let mut applied = Vec::new();
//! while let Some(ready) = node.ready() {
//!     if let Some(write) = ready.write.filter(|write| write.must_sync) {
//!         // ... write it to the log and sync; then:
//!         node.synced(write.number);
//!     }
//!     applied.extend(ready.committed);
//! }
//! assert_eq!(applied.last().map(|entry| (entry.index, entry.term)), Some((index, term)));
//! ```
//!
//! # What to read
//!
//! | question | file |
//! |---|---|
//! | what goes in, what comes out | `node/input.rs`, `node/propose.rs`, `node/output.rs` |
//! | which message waits for the disk: the ordering rule | `replication/unsynced_writes.rs` |
//! | how a linearizable read is confirmed | `read_index/mod.rs` |
//! | how much a leader sends without a response | `replication/inflight.rs` |
//! | what a leader does about lost messages, lagging followers, its own stalled disk | `replication/{lost_appends,lagging,stalled_disk}.rs` |
//! | what of the log is in memory | `log_view/view.rs` |
//! | why no message can abort the raft library | `node/guard.rs` |
//! | the bytes of a message | `message/codec/`, docs/internals/peer-messages.md |
//!
//! A file imports only files of its own folder and of the folders before it: `entry`, `error`, `field_reader`;
//! `membership`; `message`; `log_view`; `replication`, `read_index`; `node`.

mod entry;
mod error;
mod field_reader;
mod log_view;
mod membership;
mod message;
mod node;
mod read_index;
mod replication;

pub use entry::{Entry, EntryKind, HardState, MAX_ENTRY_BYTES, entry_checksum};
pub use error::{ProposeError, Rejected, StartError};
pub use field_reader::WireError;
pub use log_view::{Fetch, MAX_FETCH_BYTES, MAX_RECENT_BYTES};
pub use membership::{Change, ConfChange, ConfState, MAX_MEMBERS, Transition};
pub use message::{Body, MESSAGE_VERSION, Message, MessageClass, SnapshotMeta};
pub use node::{
    Config, Consensus, Leadership, MAX_APPEND_BYTES, MAX_COMMITTED_BYTES, MAX_TERM, MAX_UNCOMMITTED_BYTES,
    Ready, Role, SnapshotUse, Start, Status,
};
pub use read_index::RoundWon;
pub use replication::{
    MAX_INFLIGHT_BYTES, MAX_INFLIGHT_MESSAGES, PeerState, PeerStatus, StalledWrite, Write,
};
