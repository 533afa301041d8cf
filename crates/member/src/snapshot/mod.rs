//! Snapshots: state for peers that are too far behind for the log, and from a leader when this member is.
//!
//! ```text
//! leader                                   follower
//! Ready::snapshots_wanted
//!   sending: pin the state, offer it to consensus
//! Body::Snapshot: Output::snapshots        Input::SnapshotOffered
//!   a thread sends the bytes of Outgoing ->  receiving: a thread writes what arrives (Receiver) to files that
//!                                            nothing refers to yet; at the end all of it is durable
//! Input::SnapshotSent                      Input::SnapshotWhole: the message is stepped
//!   report_snapshot                          installing: Write.snapshot asks for it, Job::Install commits it,
//!   the log is kept until it has caught up   log and store switch to it, apply goes on behind it, Job::DropState
//! ```
//!
//! `docs/internals/snapshot-stream.md` describes the bytes in between. Until consensus wants it, a received snapshot
//! has no effect: a crash leaves files without a reference, which the next start removes. After the commit recovery
//! finds the new state. During an installation later writes of consensus wait for it, and no checkpoint of the old
//! state begins.

mod format;
mod installing;
mod outgoing;
pub(crate) mod receiver;
mod receiving;
mod sending;

pub(crate) use installing::{Installation, SnapshotInstalling};
pub use outgoing::{Outgoing, RESUME_BYTES, SendError, SentSnapshot};
pub use receiver::Receiver;
pub(crate) use receiving::{SnapshotOffer, SnapshotReceiving};
pub use sending::MAX_RUNNING;
pub(crate) use sending::SnapshotSending;

#[cfg(test)]
mod tests;
