//! Snapshots between members: a connection of its own for each, so that gigabytes never sit before a message.
//!
//! ```text
//! sender                          receiver
//! hello (snapshot)          ->
//!                           <-    answer
//! begin: the owner's header ->    SnapshotSink::begin
//!                           <-    resume: from which offset
//! chunk: offset, bytes      ->    SnapshotReceiver::chunk       (as many as it takes; TCP sets the pace)
//! end: total length         ->    SnapshotReceiver::end
//!                           <-    done
//! ```
//!
//! Instead of its next word the receiver may say `failed` with a reason. A stream that breaks is opened anew by
//! its owner; what the receiver kept decides the offset it answers. This module knows offsets, not contents.

mod receiver;
mod sender;

pub(crate) use receiver::receive;
pub use sender::SnapshotSender;

/// An offset stands before the bytes of a chunk.
const OFFSET_BYTES: usize = 8;
