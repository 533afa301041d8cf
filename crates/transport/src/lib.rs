//! Peer streams: what carries frames and snapshots between the members of a cluster.
//!
//! A member holds two *outgoing* streams to each of its peers, **control** and **bulk**, each a TCP connection
//! that it dialled itself. The peer's messages arrive on the two connections that the peer dialled. So every connection
//! carries messages in one direction only, and always the sender redials. (In the other direction only answers to the
//! handshake, to pings and to snapshots are sent.)
//!
//! ```text
//! caller --Peers::send--> sendmsg, at once, when nothing waits
//!             `- rest --> queue (bounded) --> the stream's own thread        one thread an outgoing stream
//!             `- all, with TLS --> queue --> encrypted and written by the stream's own thread
//! socket --> reader thread --> FrameSink::frame (may block on bulk)           one thread an incoming stream
//! ```
//!
//! Invariants
//! - Within one stream frames arrive in the order they were sent, whole, at most once. A connection that breaks loses
//!   what was on its way; this crate never sends it again. A frame with the outcome [`SendOutcome::Dropped`] never
//!   arrives.
//! - A newer connection for the same stream replaces the older: once the newer delivers, the older never does.
//! - [`Peers::send`] never blocks and never copies a payload; queues are bounded in bytes and parts.
//! - While a sink blocks, its stream is not read, and TCP stops the sender: memory does not grow.
//! - Every byte read is covered by a checksum and a limit before it is used. What does not fit ends the
//!   connection with a log line that names the peer and the reason.
//!
//! Formats to the byte: `docs/internals/transport.md`.
//!
//! This crate does not know raft, requests or what a frame means; the owner's [`Admission`] decides which peers are
//! admitted. It encrypts with what the owner gives it ([`PeerTls`]) and knows no certificate: the owner decides whom to
//! trust.
//!
//! # What to read
//!
//! | question | file |
//! |---|---|
//! | what the owner calls and provides | `peers.rs`, `owner.rs`, `config.rs` |
//! | what is on the wire | `protocol/` |
//! | what `send` writes at once and what waits | `outbound/link.rs` |
//! | how a connection is encrypted | `connection/tls.rs`, `outbound/encrypted.rs` |
//! | how a stream is dialled, kept alive and redialled | `outbound/mod.rs`, `connection/dial.rs` |
//! | how an incoming connection is answered and read | `inbound.rs`, `connection/frame_reader.rs` |
//! | what happens when a peer connects twice | `connection/takeover.rs` |
//! | how a snapshot is sent | `snapshot/` |
//!
//! A file imports only files of its own folder and of what stands before it: `protocol`, `error`, `owner`, `config`,
//! `counters`; `context`, `peer_info`; `connection`; `outbound`, `snapshot`; `peer`, `registry`, `inbound`; `peers`.

mod config;
mod connection;
mod context;
mod counters;
mod error;
mod inbound;
mod outbound;
mod owner;
mod peer;
mod peer_info;
mod peers;
mod protocol;
mod registry;
mod snapshot;

pub use config::{MAX_FRAME_BYTES, PeerLimits, PeersConfig, Timeouts};
pub use connection::FrameReader;
pub use counters::PeerStatistics;
pub use error::Error;
pub use outbound::{DropReason, SendOutcome};
pub use owner::{
    AcceptedConnection, Admission, FrameSink, PEER_ALPN, PeerTls, SnapshotReceiver, SnapshotSink,
};
pub use peers::Peers;
pub use protocol::{
    ANSWER_BYTES, FRAME_HEADER_BYTES, Frame, FrameError, FrameHeader, FrameKind, HELLO_BYTES,
    HandshakeAnswer, HandshakeError, Hello, MAX_REFUSAL_TEXT_BYTES, MAX_VERSION, MIN_VERSION, PREFACE,
    PeerIdentity, Refusal, RefusalReason, Side, StreamClass, StreamKind, UrlError, acceptor_name,
};
pub use snapshot::SnapshotSender;
