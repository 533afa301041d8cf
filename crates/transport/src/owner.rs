//! What the owner of the streams provides: who is let in, and where what arrives goes.

use std::time::Duration;

use bytes::Bytes;

use crate::{Error, Identity, Refusal, StreamClass};

/// Decides whether a member may talk to us, whichever side dialled. That the cluster id is ours, that the
/// dialler meant us and that we have a protocol version in common was checked before.
pub trait Gate: Send + Sync {
    /// Admits the member or says why not. Must not block.
    fn admit(&self, peer: &Identity) -> Result<(), Refusal>;
}

/// Which side refused a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// We refused the peer.
    Local,
    /// The peer refused us.
    Remote,
}

/// Where frames and events go. Called from the threads of the streams; a call that has begun may still be
/// running when [`crate::Peers::remove`] returns.
pub trait Inbound: Send + Sync {
    /// A frame of peer `from`. Frames of one peer and class come one at a time and in order. May block when the
    /// class is bulk (nothing more of that stream is read meanwhile), must not when it is control. `more` says that
    /// some of what follows it has been read already.
    fn frame(&self, from: u64, class: StreamClass, frame: Bytes, more: bool);

    /// Our stream of this class to the peer stands: what is sent from now on will leave.
    fn up(&self, peer: u64, class: StreamClass);

    /// Our stream of this class to the peer is lost, with whatever was on its way; it is being redialled.
    fn down(&self, peer: u64, class: StreamClass, why: &Error);

    /// A handshake was refused, by us or by the peer. Comes again with every attempt.
    fn refused(&self, peer: u64, by: Side, refusal: &Refusal);

    /// A ping was answered.
    fn round_trip(&self, _peer: u64, _time: Duration) {}
}

/// Takes snapshots that peers send.
pub trait SnapshotSink: Send + Sync {
    /// A snapshot arrives; `header` is what the sender gave to [`crate::Peers::open_snapshot`]. Returns from
    /// which offset it is wanted (above 0 when an earlier attempt left something) and who takes it, or a
    /// reason for the sender. There is at most one at a time from one peer: an earlier one's receiver has been
    /// dropped before.
    fn begin(&self, from: u64, header: Bytes) -> Result<(u64, Box<dyn SnapshotReceiver>), String>;
}

/// Takes one snapshot. Dropped without [`SnapshotReceiver::end`] when the stream breaks; what it has may serve
/// to resume.
pub trait SnapshotReceiver: Send {
    /// The bytes at `offset`, which continue where the ones before ended. May block. An error ends the stream
    /// and is told to the sender.
    fn chunk(&mut self, offset: u64, bytes: Bytes) -> Result<(), String>;

    /// All `length` bytes were given. What this returns is told to the sender.
    fn end(self: Box<Self>, length: u64) -> Result<(), String>;
}
