//! Why a connection ended, a dial failed or a call was not possible.

use std::io;
use std::time::Duration;

use crate::{Kind, Refusal};

/// Any failure of this crate. None is fatal for the process: a stream that failed is redialled by itself, a
/// snapshot is opened again by its owner.
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
    /// An address of the peer could not be reached.
    #[error("dial {address}: {source}")]
    Dial {
        /// Host and port, or the address it resolved to.
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
    /// A frame of a kind that has no place where it came.
    #[error("a frame of kind {kind:?} ({length} bytes) has no place here")]
    Unexpected {
        /// The kind that came.
        kind: Kind,
        /// Length of its body.
        length: usize,
    },
    /// What was read is not a handshake.
    #[error("bad handshake: {0}")]
    Handshake(#[from] HandshakeError),
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
    #[error("the peer took or gave no byte for {0:?}")]
    Stalled(Duration),
    /// A ping was not answered.
    #[error("the peer answered no ping for {0:?}")]
    Silent(Duration),
    /// A newer connection took the place of this one.
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
    /// The receiver of a snapshot gave up, with its own words.
    #[error("the receiver of the snapshot failed: {0}")]
    SnapshotReceiver(String),
    /// Our own receiver of a snapshot gave up.
    #[error("receiving the snapshot failed: {0}")]
    SnapshotFailed(String),
    /// A chunk of a snapshot does not continue where the one before ended.
    #[error("a snapshot chunk at offset {offset}, expected {expected}")]
    SnapshotGap {
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

    /// A socket's timeout by its own name.
    pub(crate) fn or_stalled(self, patience: Duration) -> Error {
        match self {
            Error::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Error::Stalled(patience)
            }
            other => other,
        }
    }
}

/// What is wrong with a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header does not match its checksum.
    #[error("header checksum is {stored:08x}, computed {computed:08x}")]
    HeaderChecksum {
        /// As read.
        stored: u32,
        /// Of the bytes read.
        computed: u32,
    },
    /// The body does not match its checksum.
    #[error("body checksum is {stored:08x}, computed {computed:08x}")]
    BodyChecksum {
        /// As read.
        stored: u32,
        /// Of the bytes read.
        computed: u32,
    },
    /// A kind this version does not know.
    #[error("kind {0} is unknown")]
    Kind(u8),
    /// Bytes that must be zero are not.
    #[error("reserved bytes are not zero")]
    Reserved,
    /// The body is longer than allowed.
    #[error("a body of {length} bytes, allowed are {max}")]
    TooLong {
        /// Length of the body.
        length: u64,
        /// The limit.
        max: u32,
    },
}

/// What is wrong with the bytes of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The first eight bytes are something else.
    #[error("it starts with {0:02x?}, which is not the preface")]
    Preface([u8; 8]),
    /// The checksum does not match.
    #[error("checksum is {stored:08x}, computed {computed:08x}")]
    Checksum {
        /// As read.
        stored: u32,
        /// Of the bytes read.
        computed: u32,
    },
    /// A stream this version does not know.
    #[error("stream code {0} is unknown")]
    Stream(u8),
    /// The text of a refusal is longer than allowed.
    #[error("a refusal text of {0} bytes")]
    TextTooLong(u16),
    /// The peer chose a version we do not speak.
    #[error("the peer chose protocol version {0}, which we did not offer")]
    Version(u16),
}

/// What is wrong with a peer URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("peer URL {url:?}: {problem}; expected http://host:port")]
pub struct UrlError {
    /// As given.
    pub url: String,
    /// What was found.
    pub problem: &'static str,
}
