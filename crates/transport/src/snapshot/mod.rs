//! Snapshot streams: each snapshot has a connection of its own, so that no message queues behind gigabytes.
//!
//! ```text
//! sender                          receiver
//! hello (snapshot)          ->
//!                           <-    answer
//! begin: the owner's header ->    SnapshotSink::begin
//!                           <-    resume: from which offset
//! chunk: offset, bytes      ->    SnapshotReceiver::chunk       (repeated; TCP holds the sender back)
//! end: total length         ->    SnapshotReceiver::end
//!                           <-    done
//! ```
//!
//! The receiver may send `failed` with a reason at any point instead. When a stream breaks, its owner opens another,
//! and the receiver answers with the offset up to which it has the snapshot. This module knows offsets, not contents.

mod receiver;
mod sender;

pub(crate) use receiver::receive;
pub use sender::SnapshotSender;
