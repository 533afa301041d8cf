//! Why a connection ended, a dial failed or a call was not possible.

use std::io;
use std::time::Duration;

use crate::protocol::{Frame, FrameError, FrameKind, HandshakeError, Refusal, UrlError};

/// Any failure of this crate. None is fatal for the process: a stream that failed is redialled, and the owner opens a
/// snapshot stream again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A host of the peer has no address.
    #[error("resolve {address}: {source}")]
    Resolve {
        /// Host and port.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// An address of the peer could not be reached.
    #[error("dial {address}: {source}")]
    Dial {
        /// The address.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The other side closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// What was read is not a frame of this protocol.
    #[error("bad frame: {0}")]
    Frame(#[from] FrameError),
    /// A frame of a kind that is not allowed here, or with a body that does not fit its kind.
    #[error("unexpected frame of kind {kind:?} ({length} bytes)")]
    Unexpected {
        /// The kind that came.
        kind: FrameKind,
        /// Length of its body.
        length: usize,
    },
    /// What was read is not a handshake.
    #[error("bad handshake: {0}")]
    Handshake(#[from] HandshakeError),
    /// The TLS handshake failed: a certificate was refused, or what was read is not TLS.
    #[error("TLS handshake: {0}")]
    Tls(#[source] rustls::Error),
    /// A peer has an `https` URL, and this member was not told how to encrypt.
    #[error("no TLS is configured for {0}")]
    NoTls(String),
    /// The handshake took longer than allowed.
    #[error("the handshake was not complete after {0:?}")]
    HandshakeTimeout(Duration),
    /// We refused the peer.
    #[error("refused the peer: {0}")]
    RefusedPeer(Refusal),
    /// The peer refused us.
    #[error("refused by the peer: {0}")]
    RefusedByPeer(Refusal),
    /// Bytes waited for the peer and it took none, or it owed us some and gave none.
    #[error("no data exchanged with the peer for {0:?}")]
    Stalled(Duration),
    /// A ping was not answered.
    #[error("the peer answered no ping for {0:?}")]
    Silent(Duration),
    /// A newer connection replaced this one.
    #[error("replaced by a newer connection")]
    Replaced,
    /// The peer was removed, or everything stopped.
    #[error("stopped")]
    Stopped,
    /// All threads for incoming connections are in use.
    #[error("{0} incoming connections are open, which is the limit")]
    TooManyConnections(usize),
    /// No peer of this id was set.
    #[error("peer {0:x} is not known")]
    UnknownPeer(u64),
    /// A peer URL that cannot be dialled.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The receiver of a snapshot gave up, for this reason.
    #[error("the receiver of the snapshot failed: {0}")]
    SnapshotReceiver(String),
    /// Our own receiver of a snapshot gave up, for this reason.
    #[error("receiving the snapshot failed: {0}")]
    SnapshotFailed(String),
    /// A chunk of a snapshot does not continue where the one before ended.
    #[error("a snapshot chunk at offset {offset}, expected {expected}")]
    SnapshotOffset {
        /// Where the chunk says it belongs.
        offset: u64,
        /// Where the snapshot stands.
        expected: u64,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { doing, source }
    }

    /// Whether a machine answered that nothing listens there. For a Unix socket: its file is gone, or left behind by a
    /// process that has ended.
    pub(crate) fn is_not_listening(&self) -> bool {
        let Error::Dial { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
    }

    /// A frame that is not allowed where it was read.
    pub(crate) fn unexpected(frame: &Frame) -> Error {
        Error::Unexpected { kind: frame.kind, length: frame.body.len() }
    }

    /// The number in a frame's body.
    pub(crate) fn expect_number(frame: &Frame) -> Result<u64, Error> {
        frame.number().ok_or_else(|| Error::unexpected(frame))
    }

    /// Turns the system's error for a timeout of `allowed` into [`Error::Stalled`].
    pub(crate) fn or_stalled(self, allowed: Duration) -> Error {
        match self {
            Error::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Error::Stalled(allowed)
            }
            other => other,
        }
    }
}
