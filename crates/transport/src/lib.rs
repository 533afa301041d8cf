//! Peer streams: what carries frames and snapshots between the members of a cluster.
//!
//! A member holds two *outgoing* streams to each of its peers, **control** and **bulk**, each a TCP connection
//! it dialled itself; what the peer has to say comes in on the two connections the peer dialled. So every
//! connection carries messages one way only, nobody has to agree on who dials, a cluster still works when only
//! some directions can be dialled for a moment, and there is one owner for each redial. (The way back of a
//! connection carries only the answer to the handshake, to pings and to snapshots.)
//!
//! ```text
//! caller --Peers::send--> sendmsg, at once, when nothing is queued
//!             `- rest --> queue (bounded) --> the stream's own thread        one thread an outgoing stream
//! socket --> reader thread --> Inbound::frame (may block on bulk)           one thread an incoming stream
//! ```
//!
//! Invariants
//! - Within one stream frames arrive in the order they were sent, whole, at most once. A connection that breaks
//!   loses what was on its way; nothing is ever sent again. A frame refused with [`Sent::Dropped`] never arrives.
//! - A newer connection for the same stream replaces the older: once the newer delivers, the older never does.
//! - [`Peers::send`] never blocks and never copies a payload; queues are bounded in bytes and pieces.
//! - A sink that blocks stops the reading of that stream, and TCP stops the sender: memory does not grow.
//! - Every byte read is covered by a checksum and a limit before it is used. What does not fit ends the
//!   connection with a log line that names the peer and the reason.
//!
//! Formats to the byte: `docs/internals/transport.md`.
//!
//! This crate does not know raft, requests or what a frame means; whether a peer may talk to us is decided by a
//! [`Gate`]. It does not yet speak TLS: `stream.rs` is the one place where a connection would be wrapped.

mod backoff;
mod config;
mod counters;
mod dial;
mod error;
mod frame;
mod handshake;
mod inbound;
mod link;
mod outbound;
mod owner;
mod peer;
mod peers;
mod pulse;
mod reader;
mod refusal;
mod slot;
mod snapshot;
mod stream;
mod url;
mod wake;

pub use config::{Config, Limits, Timeouts};
pub use counters::PeerStatistics;
pub use error::{Error, FrameError, HandshakeError, UrlError};
pub use frame::{Frame, HEADER_BYTES, Header, Kind};
pub use handshake::{
    ANSWER_BYTES, Answer, HELLO_BYTES, Hello, Identity, MAX_REFUSAL_TEXT_BYTES, MAX_VERSION, MIN_VERSION,
    PREFACE, StreamKind,
};
pub use link::{DropReason, Sent};
pub use owner::{Gate, Inbound, Side, SnapshotReceiver, SnapshotSink};
pub use peers::Peers;
pub use reader::FrameReader;
pub use refusal::{Reason, Refusal};
pub use snapshot::SnapshotSender;

/// Which of the two ordered streams of a peer a frame travels on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamClass {
    /// Small and urgent: heartbeats, votes, confirm rounds. Its sink must not block.
    Control,
    /// Appends, their responses and anything large. Its sink may block, which is back-pressure.
    Bulk,
}

impl StreamClass {
    /// Both, in the order of their codes.
    pub const ALL: [StreamClass; 2] = [StreamClass::Control, StreamClass::Bulk];
}

impl std::fmt::Display for StreamClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            StreamClass::Control => "control",
            StreamClass::Bulk => "bulk",
        })
    }
}
