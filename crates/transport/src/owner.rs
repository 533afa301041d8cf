//! What the owner of the streams provides: the decision which peers are admitted, and the receivers of what arrives.

use std::fmt::Debug;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::{ClientConfig, ServerConnection};

use crate::error::Error;
use crate::protocol::{MIN_VERSION, PeerIdentity, Refusal, Side, StreamClass};

/// Admission control: decides which members may open streams to us, and to which we keep ours. Cluster id, the member
/// that the dialler means, and protocol version were checked before.
pub trait Admission: Send + Sync {
    /// Admits the peer, or refuses it with the reason. Must not block.
    fn admit(&self, peer: &PeerIdentity) -> Result<(), Refusal>;

    /// The oldest protocol version that a peer must speak now. Must not block.
    fn min_version(&self) -> u16 {
        MIN_VERSION
    }
}

/// What a dialler names in the TLS handshake as the protocol that it wants to speak (ALPN).
pub const PEER_ALPN: &[u8] = b"stele-peer";

/// How connections to `https` URLs are encrypted, and which acceptors are trusted to be who the URL names.
pub trait PeerTls: Debug + Send + Sync {
    /// The configuration of the next connection, which offers [`PEER_ALPN`] alone; `None` if it must not be dialled.
    /// Called by a thread that may block.
    fn client_config(&self) -> Option<Arc<ClientConfig>>;
}

/// A connection that a peer has dialled, of which nothing that it sent as a peer was read.
#[derive(Debug)]
pub enum AcceptedConnection {
    /// In the clear.
    Plain(TcpStream),
    /// With TLS, whose handshake has ended and has chosen [`PEER_ALPN`].
    Tls(TcpStream, Box<ServerConnection>),
}

/// Receives frames and events. Called from the threads of the streams; a call that has begun may still be running when
/// [`crate::Peers::remove`] returns.
pub trait FrameSink: Send + Sync {
    /// A frame of peer `from`. Frames of one peer and class come one at a time and in order. May block when the
    /// class is bulk (nothing more of that stream is read meanwhile), must not when it is control. `more` says that
    /// bytes of a later frame have been read already.
    fn frame(&self, from: u64, class: StreamClass, frame: Bytes, more: bool);

    /// Our stream of this class to the peer is established: what is sent from now on leaves. Connections are numbered
    /// in the order in which they are established, from 1. After a peer was removed and set again, reports about its
    /// old and its new connections may come in any order.
    /// `version` is that of the protocol, the newest that both sides speak.
    fn up(&self, peer: u64, class: StreamClass, connection: u64, version: u16);

    /// Our stream of this class to the peer is lost, with everything that was on its way; it is redialled.
    fn down(&self, peer: u64, class: StreamClass, connection: u64, why: &Error);

    /// A dial of this stream failed because nothing listens at any address of the peer: the machines refused the
    /// connections. Called for every attempt.
    fn not_listening(&self, _peer: u64, _class: StreamClass) {}

    /// A handshake was refused, by us or by the peer. Called for every attempt. A refusal by the peer was answered with
    /// the identity of the member that was dialled, but for [`RefusalReason::WrongMember`](crate::RefusalReason).
    fn refused(&self, peer: u64, by: Side, refusal: &Refusal);

    /// A pong arrived, `time` after its ping.
    fn round_trip(&self, _peer: u64, _time: Duration) {}
}

/// Receives snapshots that peers send.
pub trait SnapshotSink: Send + Sync {
    /// A snapshot arrives; `header` is what the sender gave to [`crate::Peers::open_snapshot`]. Returns the offset to
    /// continue from (above 0 when an earlier attempt left a part) and the receiver, or a reason that is sent to the
    /// sender. A peer sends one snapshot at a time: the receiver of an earlier one has been dropped before.
    fn begin(&self, from: u64, header: Bytes) -> Result<(u64, Box<dyn SnapshotReceiver>), String>;
}

/// Receives one snapshot. Dropped without [`SnapshotReceiver::end`] when the stream breaks; a later attempt may resume
/// from what it has.
pub trait SnapshotReceiver: Send {
    /// The bytes at `offset`, which continue where the chunk before ended. May block. An error ends the
    /// stream and is sent to the sender.
    fn chunk(&mut self, offset: u64, bytes: Bytes) -> Result<(), String>;

    /// All `length` bytes were given. The outcome is sent to the sender.
    fn end(self: Box<Self>, length: u64) -> Result<(), String>;
}
