//! Records: the units of a segment. `docs/internals/log.md` has the table to the byte.
//!
//! A record is a 28-byte head and a body, padded with zeros to a multiple of 8. The head's checksum covers the head,
//! and with it the body's checksum. It is salted with the incarnation of the data directory, which clients do not know,
//! so that no client can write a value whose bytes pass for a record.
//!
//! ```text
//!   entry of 10 bytes at offset 152 of segment 0x2b
//!
//!   152      180                      197        207  208
//!   | head   | term, index, kind      | payload  | 0  | next record
//!   | 28 B   | 17 B                   | 10 B     | 1 B|
//!              \------- body checksum --------/
//!
//!   head.synced = 0x0000002b_00000040: all bytes before this position were durable when the record was planned
//! ```
//!
//! `synced` is how recovery distinguishes a torn write from damage. The end of the log is the first offset that holds
//! no valid record. If a later record says that this offset was already durable, the bytes there have been damaged.

use bytes::{BufMut, BytesMut};

use crate::types::{ENTRY_HEAD_BYTES, HardState, MAX_INDEX};

/// Bytes of a record's head.
pub(crate) const HEAD_BYTES: u64 = 28;
/// Offset of an entry's payload within its record.
pub(crate) const PAYLOAD_OFFSET: u64 = HEAD_BYTES + ENTRY_HEAD_BYTES;
/// Every record begins at a multiple of this.
pub(crate) const ALIGNMENT: u64 = 8;
/// Room after the last record of every segment, for the head of one more record. A file that ends earlier was cut
/// short.
pub(crate) const END_BYTES: u64 = span(0);
/// The only encoding so far; others are reserved for compression and encryption.
const ENCODING_PLAIN: u8 = 0;

/// What the body of a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// First record of a segment: the end of the log before it, and the hard state.
    Opening = 1,
    /// A log entry.
    Entry = 2,
    /// A new hard state.
    HardState = 3,
    /// Empty; its `synced` says that everything before it is durable.
    Seal = 4,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) segment: u32,
    /// Bytes of the body, without padding.
    pub(crate) length: u32,
    pub(crate) kind: RecordKind,
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
    /// It has the number of this segment, but a checksum or a field is wrong.
    Damaged,
    /// Its head is valid, but its body ends after the file or the limit.
    CutShort,
}

/// The salt of all record checksums of a data directory.
pub(crate) fn salt(incarnation: u64) -> u32 {
    crc32c::crc32c(&incarnation.to_le_bytes())
}

impl RecordHead {
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

    /// Decodes the head at the start of `bytes`, which must hold [`HEAD_BYTES`] at least.
    pub(crate) fn decode(bytes: &[u8], segment: u32, salt: u32) -> Result<RecordHead, NotRecord> {
        let bytes = &bytes[..HEAD_BYTES as usize];
        if read_u32(bytes, 4) != segment {
            return Err(NotRecord::Stale);
        }
        let kind = match bytes[12] {
            1 => RecordKind::Opening,
            2 => RecordKind::Entry,
            3 => RecordKind::HardState,
            4 => RecordKind::Seal,
            _ => return Err(NotRecord::Damaged),
        };
        let intact = crc32c::crc32c_append(salt, &bytes[4..]) == read_u32(bytes, 0);
        if !intact || bytes[13] != ENCODING_PLAIN {
            return Err(NotRecord::Damaged);
        }
        let (length, synced, checksum) = (read_u32(bytes, 8), read_u64(bytes, 16), read_u32(bytes, 24));
        Ok(RecordHead { segment, length, kind, synced, checksum })
    }

    /// Bytes from the start of this record to the start of the next.
    pub(crate) fn span(&self) -> u64 {
        span(u64::from(self.length))
    }
}

/// Bytes of a record with a body of this length, padding included.
pub(crate) const fn span(body: u64) -> u64 {
    (HEAD_BYTES + body).next_multiple_of(ALIGNMENT)
}

/// Bytes of the record of an entry with a payload of this length.
pub(crate) fn entry_span(payload: u64) -> u64 {
    span(ENTRY_HEAD_BYTES + payload)
}

/// The body of a segment's first record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SegmentOpening {
    /// Index of the first entry that may follow: one after `previous_index`.
    pub(crate) first_index: u64,
    /// The log's last entry before this segment.
    pub(crate) previous_index: u64,
    pub(crate) previous_term: u64,
    /// Where the log ended before: previous segment and offset; 0 = this is the first.
    pub(crate) previous_end: u64,
    pub(crate) hard_state: HardState,
}

impl SegmentOpening {
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

    /// `None` for a body of another length, or one that no log writes.
    pub(crate) fn decode(body: &[u8]) -> Option<SegmentOpening> {
        if body.len() as u64 != Self::BYTES {
            return None;
        }
        let opening = SegmentOpening {
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
mod tests {
    //! Bodies with a valid checksum that no log writes.
    use super::*;

    #[test]
    fn an_opening_after_the_highest_index_is_none() {
        let opening = SegmentOpening {
            first_index: 8,
            previous_index: 7,
            previous_term: 2,
            ..SegmentOpening::default()
        };
        assert_eq!(SegmentOpening::decode(&opening.encode()), Some(opening));
        let last = SegmentOpening { previous_index: MAX_INDEX, ..opening };
        assert_eq!(SegmentOpening::decode(&last.encode()), Some(last));
        let beyond = SegmentOpening { previous_index: MAX_INDEX + 1, ..opening };
        assert_eq!(SegmentOpening::decode(&beyond.encode()), None);
        assert_eq!(SegmentOpening::decode(&opening.encode()[1..]), None);
    }
}
