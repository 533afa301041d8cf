//! The frame: a 16-byte header with checksums, then a body that this crate does not interpret.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length of the body, little endian |
//! | 4 | 4 | CRC-32C of the body |
//! | 8 | 1 | kind |
//! | 9 | 3 | zero |
//! | 12 | 4 | CRC-32C of bytes 0 to 11 |
//!
//! The header has a checksum of its own, so that a damaged length is noticed before anything is allocated or waited
//! for. The message `stele 1`:
//!
//! ```text
//! 07 00 00 00  fe 58 70 84  01         00 00 00  cc 68 83 5b  73 74 65 6c 65 20 31
//! 7 bytes      CRC of body  message              CRC of this  "stele 1"
//! ```
//!
//! The sender asserts that it writes as many bytes as the header announces (`outbound/link.rs`); the receiver returns
//! to its caller only bodies that match their header (`connection/frame_reader.rs`).

use bytes::Bytes;

/// Length of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 16;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A message of the owner, opaque here. Control and bulk streams, dialler to acceptor.
    Message = 1,
    /// A number that the receiver sends back. Control streams, dialler to acceptor.
    Ping = 2,
    /// The number of a ping. Control streams, acceptor to dialler.
    Pong = 3,
    /// The owner's header of a snapshot. Snapshot streams, dialler to acceptor, as the ones below unless said.
    SnapshotBegin = 4,
    /// The offset to continue from (u64). Acceptor to dialler.
    SnapshotResume = 5,
    /// An offset (u64) and bytes of the snapshot.
    SnapshotChunk = 6,
    /// The total length of the snapshot (u64).
    SnapshotEnd = 7,
    /// The receiver has the whole snapshot. Acceptor to dialler.
    SnapshotDone = 8,
    /// The receiver gave up; the body is its reason (UTF-8). Acceptor to dialler.
    SnapshotFailed = 9,
}

impl FrameKind {
    fn from_code(code: u8) -> Option<FrameKind> {
        use FrameKind::*;
        let all = [
            Message,
            Ping,
            Pong,
            SnapshotBegin,
            SnapshotResume,
            SnapshotChunk,
            SnapshotEnd,
            SnapshotDone,
            SnapshotFailed,
        ];
        all.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the frame is.
    pub kind: FrameKind,
    /// Length of the body.
    pub length: u32,
    /// CRC-32C of the body.
    pub checksum: u32,
}

impl FrameHeader {
    /// The header of a body given in parts, which have at most `max` bytes together.
    pub fn of(kind: FrameKind, parts: &[Bytes], max: u32) -> Result<FrameHeader, FrameError> {
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if length > u64::from(max) {
            return Err(FrameError::TooLong { length, max });
        }
        let checksum = parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        Ok(FrameHeader { kind, length: length as u32, checksum })
    }

    /// The header as it goes on the wire.
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[8] = self.kind as u8;
        let own = crc32c::crc32c(&bytes[..12]);
        bytes[12..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Decodes a header that announces a body of at most `max` bytes.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES], max: u32) -> Result<FrameHeader, FrameError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (stored, computed) = (word(12), crc32c::crc32c(&bytes[..12]));
        if stored != computed {
            return Err(FrameError::HeaderChecksum { stored, computed });
        }
        let kind = FrameKind::from_code(bytes[8]).ok_or(FrameError::Kind(bytes[8]))?;
        if bytes[9..12] != [0; 3] {
            return Err(FrameError::Reserved);
        }
        let length = word(0);
        if length > max {
            return Err(FrameError::TooLong { length: u64::from(length), max });
        }
        Ok(FrameHeader { kind, length, checksum: word(4) })
    }

    /// Checks that a body of the announced length has the announced checksum.
    pub(crate) fn check(&self, body: &[u8]) -> Result<(), FrameError> {
        assert_eq!(body.len(), self.length as usize, "a reader cuts as many bytes as the header announces");
        let computed = crc32c::crc32c(body);
        if computed == self.checksum {
            return Ok(());
        }
        Err(FrameError::BodyChecksum { stored: self.checksum, computed })
    }
}

/// A frame that was read and matches its checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What the body is.
    pub kind: FrameKind,
    /// At most as long as the reader's limit.
    pub body: Bytes,
}

impl Frame {
    /// The body as one number, if it has 8 bytes.
    pub(crate) fn number(&self) -> Option<u64> {
        self.body.as_ref().try_into().ok().map(u64::from_le_bytes)
    }
}

/// Length of a body that is a number, and of the offset before the bytes of a snapshot chunk.
pub(crate) const NUMBER_BYTES: usize = 8;

/// A number as a body.
pub(crate) fn number_body(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes `docs/internals/transport.md` shows.
    #[test]
    fn a_frame_is_these_bytes() {
        let parts = [Bytes::from_static(b"stele"), Bytes::from_static(b" 1")];
        let header = FrameHeader::of(FrameKind::Message, &parts, 100).unwrap();
        let golden =
            [0x07, 0x00, 0x00, 0x00, 0xfe, 0x58, 0x70, 0x84, 0x01, 0x00, 0x00, 0x00, 0xcc, 0x68, 0x83, 0x5b];
        assert_eq!(header.encode(), golden);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let header = FrameHeader { kind: FrameKind::Ping, length: 8, checksum: 1 };
        let bytes = header.encode();
        assert_eq!(FrameHeader::decode(&bytes, 7), Err(FrameError::TooLong { length: 8, max: 7 }));
        assert_eq!(
            FrameHeader::of(FrameKind::Message, &[Bytes::from_static(b"123456789")], 8),
            Err(FrameError::TooLong { length: 9, max: 8 })
        );
        assert!(matches!(header.check(b"12345678"), Err(FrameError::BodyChecksum { stored: 1, .. })));
        for at in 0..FRAME_HEADER_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert!(
                matches!(FrameHeader::decode(&damaged, 8), Err(FrameError::HeaderChecksum { .. })),
                "byte {at}"
            );
        }
        assert_eq!(FrameHeader::decode(&resealed(bytes, 8, 99), 8), Err(FrameError::Kind(99)));
        assert_eq!(FrameHeader::decode(&resealed(bytes, 10, 1), 8), Err(FrameError::Reserved));
    }

    /// The header with one byte changed and a checksum that fits.
    fn resealed(mut bytes: [u8; FRAME_HEADER_BYTES], at: usize, value: u8) -> [u8; FRAME_HEADER_BYTES] {
        bytes[at] = value;
        let checksum = crc32c::crc32c(&bytes[..12]);
        bytes[12..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn headers_round_trip(code in 1u8..=9, length: u32, checksum: u32) {
            let header = FrameHeader { kind: FrameKind::from_code(code).unwrap(), length, checksum };
            prop_assert_eq!(FrameHeader::decode(&header.encode(), u32::MAX), Ok(header));
        }

        #[test]
        fn garbage_never_panics(mut bytes: [u8; FRAME_HEADER_BYTES], sealed: bool, max: u32) {
            if sealed {
                bytes = resealed(bytes, 0, bytes[0]);
            }
            if let Ok(header) = FrameHeader::decode(&bytes, max) {
                prop_assert!(header.length <= max);
            }
        }
    }
}
