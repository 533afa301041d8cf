//! Records: the local frames of a segment. `docs/internals/log.md` has the table to the byte.
//!
//! A record is a 28-byte head and a body, padded with zeros to 8 bytes. The head's checksum covers the head,
//! and with it the body's checksum; it is salted with the directory's incarnation, so that no client can
//! smuggle something that passes for a record into the log by writing it as a value.

use bytes::{BufMut, BytesMut};

use crate::types::{HardState, MAX_INDEX};

/// Bytes of a record's head.
pub(crate) const HEAD_BYTES: u64 = 28;
/// Bytes of an entry's body before its payload: term, index, kind.
pub(crate) const ENTRY_HEAD_BYTES: u64 = 17;
/// Offset of an entry's payload within its record.
pub(crate) const PAYLOAD_OFFSET: u64 = HEAD_BYTES + ENTRY_HEAD_BYTES;
/// Every record begins at a multiple of this.
pub(crate) const ALIGNMENT: u64 = 8;
/// Behind the last record of a segment there is always room for one more head: a file that ends earlier was cut short.
pub(crate) const END_BYTES: u64 = span(0);
/// The only encoding so far; others are reserved for compression and encryption.
const ENCODING_PLAIN: u8 = 0;

/// What the body of a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// First record of a segment: what came before, and the hard state.
    Opening = 1,
    /// A log entry.
    Entry = 2,
    /// A new hard state.
    HardState = 3,
    /// Nothing; says that what lies before it is durable.
    Seal = 4,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) segment: u32,
    /// Bytes of the body, without padding.
    pub(crate) length: u32,
    pub(crate) kind: Kind,
    /// The log position known durable when the record was planned.
    pub(crate) synced: u64,
    /// CRC-32C of the body.
    pub(crate) checksum: u32,
}

/// Why bytes are not a record of this segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRecord {
    /// The segment number is another: zeros, or what a recycled file held before.
    Stale,
    /// It claims to be of this segment, but does not check.
    Damaged,
    /// Its head checks, but it goes on behind what may be read.
    CutShort,
}

/// What a directory's records are salted with.
pub(crate) fn salt(incarnation: u64) -> u32 {
    crc32c::crc32c(&incarnation.to_le_bytes())
}

impl Head {
    pub(crate) fn encode(&self, salt: u32, out: &mut BytesMut) {
        let start = out.len();
        out.put_u32_le(0);
        out.put_u32_le(self.segment);
        out.put_u32_le(self.length);
        out.put_u8(self.kind as u8);
        out.put_u8(ENCODING_PLAIN);
        out.put_u16_le(0);
        out.put_u64_le(self.synced);
        out.put_u32_le(self.checksum);
        let crc = crc32c::crc32c_append(salt, &out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the head at the start of `bytes`, which must hold [`HEAD_BYTES`] at least.
    pub(crate) fn decode(bytes: &[u8], segment: u32, salt: u32) -> Result<Head, NotRecord> {
        let bytes = &bytes[..HEAD_BYTES as usize];
        if read_u32(bytes, 4) != segment {
            return Err(NotRecord::Stale);
        }
        let kind = match bytes[12] {
            1 => Kind::Opening,
            2 => Kind::Entry,
            3 => Kind::HardState,
            4 => Kind::Seal,
            _ => return Err(NotRecord::Damaged),
        };
        let intact = crc32c::crc32c_append(salt, &bytes[4..]) == read_u32(bytes, 0);
        if !intact || bytes[13] != ENCODING_PLAIN {
            return Err(NotRecord::Damaged);
        }
        let (length, synced, checksum) = (read_u32(bytes, 8), read_u64(bytes, 16), read_u32(bytes, 24));
        Ok(Head { segment, length, kind, synced, checksum })
    }

    /// Bytes from the start of this record to the start of the next.
    pub(crate) fn span(&self) -> u64 {
        span(u64::from(self.length))
    }
}

/// Bytes a record with such a body takes, padding included.
pub(crate) const fn span(body: u64) -> u64 {
    (HEAD_BYTES + body).next_multiple_of(ALIGNMENT)
}

/// Bytes the record of an entry with such a payload takes.
pub(crate) fn entry_span(payload: u64) -> u64 {
    span(ENTRY_HEAD_BYTES + payload)
}

/// The body of an entry record up to its payload.
pub(crate) fn entry_head(term: u64, index: u64, kind: u8) -> [u8; ENTRY_HEAD_BYTES as usize] {
    let mut head = [0; ENTRY_HEAD_BYTES as usize];
    head[..8].copy_from_slice(&term.to_le_bytes());
    head[8..16].copy_from_slice(&index.to_le_bytes());
    head[16] = kind;
    head
}

/// The body of a segment's first record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Index of the first entry that may follow: one after `previous_index`.
    pub(crate) first_index: u64,
    /// The log's last entry before this segment.
    pub(crate) previous_index: u64,
    pub(crate) previous_term: u64,
    /// Where the log ended before: previous segment and offset; 0 = this is the first.
    pub(crate) previous_end: u64,
    pub(crate) hard_state: HardState,
}

impl Opening {
    pub(crate) const BYTES: u64 = 56;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let hard_state = self.hard_state;
        [
            self.first_index,
            self.previous_index,
            self.previous_term,
            self.previous_end,
            hard_state.term,
            hard_state.vote,
            hard_state.commit,
        ]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
    }

    /// Nothing for a body of another length, or one that no log writes.
    pub(crate) fn decode(body: &[u8]) -> Option<Opening> {
        if body.len() as u64 != Self::BYTES {
            return None;
        }
        let opening = Opening {
            first_index: read_u64(body, 0),
            previous_index: read_u64(body, 8),
            previous_term: read_u64(body, 16),
            previous_end: read_u64(body, 24),
            hard_state: decode_hard_state(&body[32..])?,
        };
        (opening.previous_index <= MAX_INDEX).then_some(opening)
    }
}

pub(crate) const HARD_STATE_BYTES: u64 = 24;

pub(crate) fn encode_hard_state(state: &HardState) -> Vec<u8> {
    [state.term, state.vote, state.commit].iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(crate) fn decode_hard_state(body: &[u8]) -> Option<HardState> {
    (body.len() as u64 == HARD_STATE_BYTES).then(|| HardState {
        term: read_u64(body, 0),
        vote: read_u64(body, 8),
        commit: read_u64(body, 16),
    })
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;
