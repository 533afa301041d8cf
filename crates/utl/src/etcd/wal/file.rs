//! One file of etcd's write-ahead log: its records, front to back.
//!
//! ```text
//! file      0000000000000001-0000000000000a3f.wal: sequence, first index
//! record    length 8 (little-endian; in its high byte 0x80 and the padding, 0 to 7), then the record, then padding
//!           protobuf: 1 type, 2 CRC-32C of all data so far, 3 data;  a length of 0 ends what was written of a file
//! types     1 metadata, 2 entry, 3 hard state, 4 checksum at the start of a file, 5 snapshot
//! ```
//!
//! A crash tears only what was written last, so only the last file may end in a torn record. As in etcd's decoder, that
//! is one that is cut short by the end of its file, or one with a sector (or its share of one) that is all zero, as the
//! allocated space was before. Any other record that does not check is damage: entries behind it would be lost. A
//! length that is wrong and reaches into the allocated space cannot be told from a torn record, here as there.

use bytes::Bytes;
use prost::Message;

/// Bits of a record's length.
pub(super) const LENGTH_BITS: u32 = 56;

/// Bytes that a disk writes whole, and etcd looks at together.
const SECTOR_BYTES: usize = 512;

/// Types of records.
pub(super) const METADATA: i64 = 1;
pub(super) const ENTRY: i64 = 2;
pub(super) const HARD_STATE: i64 = 3;
pub(super) const CHECKSUM: i64 = 4;
pub(super) const SNAPSHOT: i64 = 5;

/// A record: `walpb.Record`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WalRecord {
    #[prost(int64, required, tag = "1")]
    pub(super) kind: i64,
    #[prost(uint32, required, tag = "2")]
    pub(super) checksum: u32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) data: Bytes,
}

/// Why a record cannot be taken.
pub(super) struct RecordFault {
    /// Whether a crash while it was written explains it.
    pub(super) is_torn: bool,
    pub(super) why: String,
}

impl RecordFault {
    pub(super) fn damage(why: impl ToString) -> RecordFault {
        RecordFault { is_torn: false, why: why.to_string() }
    }
}

/// A file that is read front to back.
#[derive(Debug)]
pub(super) struct WalFile {
    bytes: Bytes,
    /// Where the next record begins.
    offset: usize,
}

impl WalFile {
    pub(super) fn new(bytes: Vec<u8>) -> WalFile {
        WalFile { bytes: bytes.into(), offset: 0 }
    }

    /// Goes to a record that was read before.
    pub(super) fn seek(&mut self, offset: usize) {
        self.offset = offset.min(self.bytes.len());
    }

    /// Where the next record begins.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The next record, checked against `sum`, which goes on over all data; `None` at the end of what was written.
    ///
    /// # Errors
    /// Why it cannot be taken. The offset stays.
    pub(super) fn next_record(&mut self, sum: &mut u32) -> Result<Option<WalRecord>, RecordFault> {
        let rest = &self.bytes[self.offset..];
        let Some((head, behind)) = rest.split_first_chunk::<8>() else {
            let cut = || RecordFault { is_torn: true, why: "a record is cut short".to_owned() };
            return if rest.is_empty() { Ok(None) } else { Err(cut()) };
        };
        let field = u64::from_le_bytes(*head);
        if field == 0 {
            return Ok(None);
        }
        let length = field & ((1 << LENGTH_BITS) - 1);
        let padding = if field >> 63 == 1 { field >> LENGTH_BITS & 7 } else { 0 };
        let all = usize::try_from(length + padding).unwrap_or(usize::MAX);
        if all > behind.len() {
            // Space that was allocated and not written says that the file was not cut: the length is wrong.
            let is_cut = !self.bytes.ends_with(&[0; SECTOR_BYTES]);
            let why = "a record goes beyond the end of the file".to_owned();
            return Err(RecordFault { is_torn: is_cut, why });
        }
        let is_torn = self.has_empty_sector(length as usize);
        let fault = |why: String| RecordFault { is_torn, why };
        let begin = self.offset + size_of::<u64>();
        let record = WalRecord::decode(self.bytes.slice(begin..begin + length as usize));
        let record = record.map_err(|error| fault(error.to_string()))?;
        if record.kind == CHECKSUM {
            // The sum so far, with which a file begins. The oldest file that is left begins with one that is not known.
            if *sum != 0 && *sum != record.checksum {
                return Err(RecordFault::damage("it does not follow the file before"));
            }
            *sum = record.checksum;
        } else {
            let with_it = crc32c::crc32c_append(*sum, &record.data);
            if with_it != record.checksum {
                return Err(fault("a checksum does not match".to_owned()));
            }
            *sum = with_it;
        }
        self.offset = begin + all;
        Ok(Some(record))
    }

    /// Whether the next record, which has so many bytes behind its length, has an all-zero share of any sector.
    fn has_empty_sector(&self, bytes: usize) -> bool {
        let mut at = self.offset + size_of::<u64>();
        let end = at + bytes;
        while at < end {
            let next = (at - at % SECTOR_BYTES + SECTOR_BYTES).min(end);
            if self.bytes[at..next].iter().all(|byte| *byte == 0) {
                return true;
            }
            at = next;
        }
        false
    }
}
