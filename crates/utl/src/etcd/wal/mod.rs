//! The records of etcd's write-ahead log, as far as an import must know them: which entries follow what the database
//! has.
//!
//! ```text
//! file      0000000000000001-0000000000000a3f.wal: sequence, first index
//! record    length 8 (little-endian; in its high byte 0x80 and the padding, 0 to 7), then the record, then padding
//!           protobuf: 1 type, 2 CRC-32C of all data so far, 3 data;  a length of 0 ends what was written of a file
//! types     1 metadata, 2 entry, 3 hard state, 4 checksum at the start of a file, 5 snapshot
//! ```
//!
//! The format is that of etcd's package `server/storage/wal`, equal in 3.4 to 3.7. A later entry of an index replaces
//! an earlier one, and all after it.
//!
//! A crash tears only what was written last, so only the last file may end in a torn record. As in etcd's decoder, that
//! is one that is cut short by the end of its file, or one with a sector (or its share of one) that is all zero, as the
//! allocated space was before. Any other record that does not check is damage: entries behind it would be lost. A
//! length that is wrong and reaches into the allocated space cannot be told from a torn record, here as there.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::line::{Refusal, system_error};

/// Bits of a record's length.
const LENGTH_BITS: u32 = 56;

/// Bytes that a disk writes whole, and etcd looks at together.
const SECTOR_BYTES: usize = 512;

/// Types of records.
const METADATA: i64 = 1;
const ENTRY: i64 = 2;
const HARD_STATE: i64 = 3;
const CHECKSUM: i64 = 4;
const SNAPSHOT: i64 = 5;

/// A record: `walpb.Record`.
#[derive(Clone, PartialEq, Message)]
struct WalRecord {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(uint32, tag = "2")]
    checksum: u32,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
}

/// An entry: `raftpb.Entry`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WalEntry {
    /// 0 a request, 1 and 2 conf changes.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "2")]
    pub(super) term: u64,
    #[prost(uint64, tag = "3")]
    pub(super) index: u64,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) data: Vec<u8>,
}

/// A snapshot that the log mentions: only the index is wanted.
#[derive(Clone, PartialEq, Message)]
struct WalPosition {
    #[prost(uint64, tag = "1")]
    index: u64,
}

/// What the log has behind an index.
#[derive(Debug, Default)]
pub(super) struct WalTail {
    /// Entries behind the index, in order.
    pub(super) entries: Vec<WalEntry>,
    /// The last entry or snapshot that it mentions; 0 without one.
    last: u64,
    /// The newest snapshot that it mentions; 0 without one.
    snapshot: u64,
}

/// Why a record cannot be taken.
struct RecordFault {
    /// Whether a crash while it was written explains it.
    is_torn: bool,
    why: String,
}

impl RecordFault {
    fn damage(why: impl ToString) -> RecordFault {
        RecordFault { is_torn: false, why: why.to_string() }
    }
}

impl WalTail {
    /// Reads all files of a log. Entries up to the index `after` are passed over.
    ///
    /// # Errors
    /// There is no file; one cannot be read, or is damaged; entries are missing.
    pub(super) fn read(dir: &Path, after: u64) -> Result<WalTail, Refusal> {
        let mut tail = WalTail::default();
        let (files, mut sum) = (files(dir)?, 0);
        for (at, path) in files.iter().enumerate() {
            let bytes = fs::read(path).map_err(|error| system_error("read", path, &error))?;
            let mut file = WalFile { bytes: &bytes, offset: 0 };
            let fault = loop {
                match file.next_record(&mut sum) {
                    Ok(None) => break None,
                    Ok(Some(record)) => {
                        if let Err(why) = tail.take(&record, after) {
                            break Some(RecordFault::damage(why));
                        }
                    }
                    Err(fault) => break Some(fault),
                }
            };
            if let Some(fault) = fault.filter(|fault| !fault.is_torn || at + 1 < files.len()) {
                return Err(Refusal::error(format!(
                    "{} is damaged at offset {}: {}; import another member's directory",
                    path.display(),
                    file.offset,
                    fault.why
                )));
            }
        }
        Ok(tail)
    }

    /// Checks that the log goes on where the database ends, at the entry `applied`.
    ///
    /// # Errors
    /// How they do not fit.
    pub(super) fn check_follows(&self, applied: u64) -> Result<(), String> {
        if self.snapshot > applied {
            return Err(format!("its log has a snapshot at entry {}, which is later", self.snapshot));
        }
        if self.last < applied {
            return Err(format!("its log ends before, at entry {}", self.last));
        }
        match self.entries.first() {
            Some(first) if first.index > applied + 1 => {
                Err(format!("its log goes on with entry {}: those between are missing", first.index))
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, record: &WalRecord, after: u64) -> Result<(), String> {
        let decoded = |error: prost::DecodeError| error.to_string();
        match record.kind {
            ENTRY => {
                let entry = WalEntry::decode(record.data.as_slice()).map_err(decoded)?;
                if self.last > 0 && entry.index > self.last + 1 {
                    return Err(format!("entry {} follows entry {}", entry.index, self.last));
                }
                while self.entries.last().is_some_and(|earlier| earlier.index >= entry.index) {
                    self.entries.pop();
                }
                self.last = entry.index;
                if entry.index > after {
                    self.entries.push(entry);
                }
            }
            SNAPSHOT => {
                let snapshot = WalPosition::decode(record.data.as_slice()).map_err(decoded)?;
                self.snapshot = self.snapshot.max(snapshot.index);
                self.last = self.last.max(snapshot.index);
            }
            METADATA | HARD_STATE | CHECKSUM => {}
            other => return Err(format!("a record has the type {other}, which is not known")),
        }
        Ok(())
    }
}

/// The files of a log, in order.
///
/// # Errors
/// There is none.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let listed = fs::read_dir(dir).map_err(|error| system_error("open", dir, &error))?;
    let mut paths: Vec<PathBuf> = listed.filter_map(|item| item.ok().map(|item| item.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "wal"));
    paths.sort();
    if paths.is_empty() {
        return Err(Refusal::error(format!(
            "{} has no file of a log, so it cannot be seen whether the database has all entries: if etcd had \
             --wal-dir, link that directory there",
            dir.display()
        )));
    }
    Ok(paths)
}

/// A file that is read front to back.
struct WalFile<'a> {
    bytes: &'a [u8],
    /// Where the next record begins.
    offset: usize,
}

impl WalFile<'_> {
    /// The next record, checked against `sum`, which goes on over all data; `None` at the end of what was written.
    fn next_record(&mut self, sum: &mut u32) -> Result<Option<WalRecord>, RecordFault> {
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
        let record =
            WalRecord::decode(&behind[..length as usize]).map_err(|error| fault(error.to_string()))?;
        if record.kind == CHECKSUM {
            // The sum so far, with which a file begins. The oldest file that is left begins with one that is not known.
            if *sum != 0 && *sum != record.checksum {
                return Err(RecordFault::damage("it does not follow the file before"));
            }
            *sum = record.checksum;
        } else {
            *sum = crc32c::crc32c_append(*sum, &record.data);
            if *sum != record.checksum {
                return Err(fault("a checksum does not match".to_owned()));
            }
        }
        self.offset += size_of::<u64>() + all;
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

#[cfg(test)]
mod tests;
