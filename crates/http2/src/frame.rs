//! The head of a frame: nine bytes with length, type, flags and stream.
//!
//! ```text
//!   00 00 08 | 06   | 00    | 00 00 00 00 | 01 06 01 08 00 03 03 09
//!   length   | type | flags | stream      | payload: a ping
//! ```

use crate::limits::MAX_PAYLOAD_BYTES;

/// Bytes of the head.
pub(crate) const HEAD_BYTES: usize = 9;

/// The flags that types share: a type gives 1 one of two meanings.
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const PRIORITY: u8 = 0x20;

/// The types of RFC 9113, section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameType {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    Unknown,
}

const TYPES: [FrameType; 10] = [
    FrameType::Data,
    FrameType::Headers,
    FrameType::Priority,
    FrameType::RstStream,
    FrameType::Settings,
    FrameType::PushPromise,
    FrameType::Ping,
    FrameType::GoAway,
    FrameType::WindowUpdate,
    FrameType::Continuation,
];

/// What begins a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    /// Bytes of the payload.
    pub(crate) length: usize,
    pub(crate) kind: FrameType,
    pub(crate) flags: u8,
    /// The stream; 0 is the connection.
    pub(crate) stream: u32,
}

impl FrameHead {
    /// Reads the head that `bytes` begin with, once all of it is there. The reserved bit of the stream is ignored.
    pub(crate) fn decode(bytes: &[u8]) -> Option<FrameHead> {
        let &[a, b, c, kind, flags, s, t, u, v] = bytes.first_chunk::<HEAD_BYTES>()?;
        Some(FrameHead {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind: TYPES.get(usize::from(kind)).copied().unwrap_or(FrameType::Unknown),
            flags,
            stream: u32::from_be_bytes([s, t, u, v]) & (u32::MAX >> 1),
        })
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The head of a frame that we send.
///
/// # Panics
/// When the payload is longer than we ever make one.
pub(crate) fn encode_head(kind: FrameType, flags: u8, stream: u32, length: usize) -> [u8; HEAD_BYTES] {
    assert!(length <= MAX_PAYLOAD_BYTES, "a frame of {length} bytes");
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [s, t, u, v] = stream.to_be_bytes();
    [a, b, c, kind as u8, flags, s, t, u, v]
}

/// Why a stream or a connection ends (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// No error: an orderly end.
    No = 0,
    /// The client broke the protocol.
    Protocol = 1,
    /// The server failed.
    Internal = 2,
    /// The client sent more than its window.
    FlowControl = 3,
    /// A frame for a stream that the client had ended.
    StreamClosed = 5,
    /// A frame of a wrong size.
    FrameSize = 6,
    /// The stream was not begun: it may be tried again.
    RefusedStream = 7,
    /// The stream is not needed any more.
    Cancel = 8,
    /// The headers cannot be decoded.
    Compression = 9,
    /// The client asks too much.
    EnhanceYourCalm = 11,
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameFailure {
    /// The connection ends with a GOAWAY.
    Connection(ErrorCode, &'static str),
    /// The stream is reset.
    Stream(u32, ErrorCode),
}

impl FrameFailure {
    /// The usual one.
    pub(crate) fn protocol(reason: &'static str) -> FrameFailure {
        FrameFailure::Connection(ErrorCode::Protocol, reason)
    }

    pub(crate) fn size(reason: &'static str) -> FrameFailure {
        FrameFailure::Connection(ErrorCode::FrameSize, reason)
    }
}

/// The payload without its padding.
///
/// # Errors
/// When the padding is longer than the payload.
pub(crate) fn unpadded<'a>(head: &FrameHead, payload: &'a [u8]) -> Result<&'a [u8], FrameFailure> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let unpadded = payload.split_first().and_then(|(length, rest)| {
        let end = rest.len().checked_sub(usize::from(*length))?;
        Some(&rest[..end])
    });
    unpadded.ok_or(FrameFailure::protocol("more padding than payload"))
}
