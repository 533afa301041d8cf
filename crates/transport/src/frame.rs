//! The frame: a 16-byte header, then the body.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length of the body, little endian |
//! | 4 | 4 | CRC-32C of the body |
//! | 8 | 1 | kind |
//! | 9 | 3 | zero |
//! | 12 | 4 | CRC-32C of bytes 0 to 11 |
//!
//! The header has a checksum of its own so that a damaged length is noticed before anything is allocated or
//! waited for.

use bytes::Bytes;

use crate::FrameError;

/// Length of a frame's header.
pub const HEADER_BYTES: usize = 16;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message of the owner, opaque to us. Control and bulk streams, dialler to acceptor.
    Message = 1,
    /// A number to be sent back. Control streams, dialler to acceptor.
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
    /// The receiver has it all. Acceptor to dialler.
    SnapshotDone = 8,
    /// The receiver gave up; the body is its reason (UTF-8). Acceptor to dialler.
    SnapshotFailed = 9,
}

impl Kind {
    fn from_code(code: u8) -> Option<Kind> {
        use Kind::*;
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
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// Length of the body.
    pub length: u32,
    /// CRC-32C of the body.
    pub checksum: u32,
}

impl Header {
    /// The header of a body given in pieces, which must not be longer than `max` bytes together.
    pub fn of(kind: Kind, pieces: &[Bytes], max: u32) -> Result<Header, FrameError> {
        let length: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if length > u64::from(max) {
            return Err(FrameError::TooLong { length, max });
        }
        let checksum = pieces.iter().fold(0, |crc, piece| crc32c::crc32c_append(crc, piece));
        Ok(Header { kind, length: length as u32, checksum })
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[8] = self.kind as u8;
        let own = crc32c::crc32c(&bytes[..12]);
        bytes[12..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Reads a header that announces a body of `max` bytes or less.
    pub fn decode(bytes: &[u8; HEADER_BYTES], max: u32) -> Result<Header, FrameError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (stored, computed) = (word(12), crc32c::crc32c(&bytes[..12]));
        if stored != computed {
            return Err(FrameError::HeaderChecksum { stored, computed });
        }
        let kind = Kind::from_code(bytes[8]).ok_or(FrameError::Kind(bytes[8]))?;
        if bytes[9..12] != [0; 3] {
            return Err(FrameError::Reserved);
        }
        let length = word(0);
        if length > max {
            return Err(FrameError::TooLong { length: u64::from(length), max });
        }
        Ok(Header { kind, length, checksum: word(4) })
    }

    /// Whether this body is the one the header was made for.
    pub(crate) fn check(&self, body: &[u8]) -> Result<(), FrameError> {
        let computed = crc32c::crc32c(body);
        if computed == self.checksum {
            return Ok(());
        }
        Err(FrameError::BodyChecksum { stored: self.checksum, computed })
    }
}

/// A frame as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Its body, which checks to what the header said.
    pub body: Bytes,
}

impl Frame {
    /// The body as one number, if it is one.
    pub(crate) fn number(&self) -> Result<u64, crate::Error> {
        let bytes: Result<[u8; 8], _> = self.body.as_ref().try_into();
        bytes.map(u64::from_le_bytes).map_err(|_| self.unexpected())
    }

    pub(crate) fn unexpected(&self) -> crate::Error {
        crate::Error::Unexpected { kind: self.kind, length: self.body.len() }
    }
}

/// A number as a body.
pub(crate) fn number_body(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

#[cfg(test)]
mod tests;
