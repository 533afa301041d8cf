//! Consensus: the Raft log of one member, sans-IO.
//!
//! [`Consensus`] takes input (ticks, messages, proposals, completions) and gives out what is to be done
//! ([`Ready`]): entries to write, messages to send, entries to apply. It has no clock, no entropy, no threads, no
//! files and no sockets; the same input gives the same output, always. Underneath is the `raft` library, which no
//! other crate names; everything it gives and takes is in types of our own, converted by moves.
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
//!         node.persisted(write.number);
//!     }
//!     applied.extend(ready.committed);
//! }
//! assert_eq!(applied.last().map(|entry| (entry.index, entry.term)), Some((index, term)));
//! ```
//!
//! What to read: `start`, `node`, `propose` and `reads` (input), `ready` (output and completions), `writes` (which
//! message waits for the disk), `guard` (what is checked before a message is stepped), `confirm` (linearizable reads),
//! `view` (the log in memory), `hung_disk`, `inflight`, `timeout`, and `codec` with docs/internals/peer-messages.md
//! for the bytes.

mod codec;
mod conf;
mod confirm;
mod convert;
mod entry;
mod error;
mod guard;
mod hung_disk;
mod inflight;
mod message;
mod node;
mod propose;
mod reads;
mod ready;
mod replay;
mod start;
mod status;
mod terms;
mod timeout;
mod view;
mod writes;

pub use codec::{DecodeError, MESSAGE_VERSION};
pub use conf::{Change, ConfChange, ConfState, MAX_MEMBERS, Transition};
pub use confirm::MAX_READS_WAITING;
pub use entry::{Entry, EntryKind, HardState, entry_checksum};
pub use error::{ProposeError, Rejected, StartError};
pub use guard::MAX_TERM;
pub use hung_disk::StalledWrite;
pub use inflight::{MAX_INFLIGHT_BYTES, MAX_INFLIGHT_MESSAGES};
pub use message::{Body, Message, MessageClass, SnapshotMeta};
pub use node::Consensus;
pub use propose::MAX_ENTRY_BYTES;
pub use ready::{Fetch, Leadership, ReadReady, Ready, Write};
pub use start::{Config, MAX_APPEND_BYTES, MAX_COMMITTED_BYTES, MAX_UNCOMMITTED_BYTES, Start};
pub use status::{PeerState, PeerStatus, Role, Status};
pub use view::{MAX_FETCH_BYTES, MAX_RECENT_BYTES};
