//! Records of the log, as bytes: what a defective writer or reader makes of them.
//!
//! Layout as in `docs/internals/log.md`: a file header of 64 bytes, then records of a 28-byte head (checksum, segment,
//! length, kind, synced, checksum of the body) and a body, at multiples of 8.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use log::{Disk, MemDisk};

/// The kind of a segment's first record.
pub(crate) const OPENING: u8 = 1;
/// The kind of an entry.
pub(crate) const ENTRY: u8 = 2;
/// The kind of a hard state.
pub(crate) const HARD_STATE: u8 = 3;

const FILE_HEADER: usize = 64;
const HEAD: usize = 28;
/// Where records may begin.
const ALIGNMENT: usize = 8;
/// Term, index and kind before an entry's payload.
const ENTRY_HEAD: usize = 17;
/// Where the vote stands in the body of an opening; in that of a hard state it is at 8.
const OPENING_VOTE: usize = 40;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// The head of a record within some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord {
    /// Where its head begins.
    pub(crate) at: usize,
    /// Its kind.
    pub(crate) kind: u8,
    /// Bytes of its body.
    pub(crate) length: usize,
    /// Its `synced` mark: the log address up to which everything was durable.
    pub(crate) synced: u64,
}

impl RawRecord {
    fn head(bytes: &[u8], at: usize, segment: Option<u32>, salt: u32) -> Option<RawRecord> {
        let head = bytes.get(at..at + HEAD)?;
        let intact = crc32c::crc32c_append(salt, &head[4..]) == u32_at(head, 0);
        let ours = segment.is_none_or(|segment| segment == u32_at(head, 4));
        (intact && ours).then(|| RawRecord {
            at,
            kind: head[12],
            length: u32_at(head, 8) as usize,
            synced: u64_at(head, 16),
        })
    }

    fn body<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.at + HEAD..self.at + HEAD + self.length)
    }

    fn next(&self) -> usize {
        (self.at + HEAD + self.length).next_multiple_of(8)
    }

    fn is_whole(&self, bytes: &[u8]) -> bool {
        self.body(bytes).is_some_and(|body| crc32c::crc32c(body) == u32_at(bytes, self.at + 24))
    }

    /// The raft index of an entry.
    fn index(&self, bytes: &[u8]) -> Option<u64> {
        (self.kind == ENTRY && self.length >= ENTRY_HEAD).then(|| u64_at(bytes, self.at + HEAD + 8))
    }

    /// Recomputes both checksums.
    fn sign(&self, bytes: &mut [u8], salt: u32) {
        let body = crc32c::crc32c(&bytes[self.at + HEAD..self.at + HEAD + self.length]);
        bytes[self.at + 24..self.at + HEAD].copy_from_slice(&body.to_le_bytes());
        let head = crc32c::crc32c_append(salt, &bytes[self.at + 4..self.at + HEAD]);
        bytes[self.at..self.at + 4].copy_from_slice(&head.to_le_bytes());
    }
}

/// Clears the votes in records of a kind that are about to be written at `offset` of a segment.
pub(crate) fn forget_votes(bytes: &mut [u8], offset: u64, kind: u8, salt: u32) {
    let mut at = FILE_HEADER.saturating_sub(offset as usize);
    while let Some(record) = RawRecord::head(bytes, at, None, salt) {
        let body = at + HEAD;
        if record.kind == kind && record.body(bytes).is_some() {
            let vote = body + if kind == OPENING { OPENING_VOTE } else { 8 };
            bytes[vote..vote + 8].fill(0);
            record.sign(bytes, salt);
        }
        at = record.next();
    }
}

/// A segment file read whole.
struct RawSegment {
    path: PathBuf,
    number: u32,
    bytes: Vec<u8>,
}

fn segments(disk: &MemDisk, paths: &[PathBuf]) -> Vec<RawSegment> {
    let segments = paths.iter().filter(|path| path.extension().is_some_and(|suffix| suffix == "seg"));
    segments
        .filter_map(|path| {
            let file = disk.open(path).ok()?;
            let mut bytes = vec![0; file.length().ok()? as usize];
            file.read_at(&mut bytes, 0).ok()?;
            let number = u32::from_str_radix(path.file_stem()?.to_str()?, 16).ok()?;
            Some(RawSegment { path: path.clone(), number, bytes })
        })
        .collect()
}

impl RawSegment {
    /// The records whose heads are intact, and where they end.
    fn records(&self, salt: u32) -> (Vec<RawRecord>, usize) {
        let mut records = Vec::new();
        let mut at = FILE_HEADER;
        while let Some(record) = RawRecord::head(&self.bytes, at, Some(self.number), salt) {
            if record.next() > self.bytes.len() {
                break;
            }
            at = record.next();
            records.push(record);
        }
        (records, at)
    }

    fn write_back(&self, disk: &MemDisk) {
        if let Ok(file) = disk.open(&self.path) {
            let _ = file.write_at(&[IoSlice::new(&self.bytes)], 0);
            let _ = file.sync_data();
        }
    }
}

/// Makes records with damaged bodies look intact.
pub(crate) fn accept_damage(disk: &MemDisk, paths: &[PathBuf], salt: u32) {
    for mut segment in segments(disk, paths) {
        let (records, _) = segment.records(salt);
        let mut changed = false;
        for record in records {
            if !record.is_whole(&segment.bytes) {
                record.sign(&mut segment.bytes, salt);
                changed = true;
            }
        }
        if changed {
            segment.write_back(disk);
        }
    }
}

/// Appends to the newest segment the first intact entry that its file held before it was recycled: a reader that does
/// not check the segment number in a record.
pub(crate) fn accept_stale(disk: &MemDisk, paths: &[PathBuf], salt: u32) {
    let with_records =
        segments(disk, paths).into_iter().filter(|segment| !segment.records(salt).0.is_empty());
    let Some(mut segment) = with_records.max_by_key(|segment| segment.number) else { return };
    let (_, end) = segment.records(salt);
    let addresses = (end..segment.bytes.len()).step_by(ALIGNMENT);
    let heads = addresses.filter_map(|at| RawRecord::head(&segment.bytes, at, None, salt));
    let mut stale = heads.filter(|record| record.kind == ENTRY && record.is_whole(&segment.bytes));
    let Some(found) = stale.find(|record| record.next() <= segment.bytes.len()) else { return };
    segment.bytes.copy_within(found.at..found.next(), end);
    segment.bytes[end + 4..end + 8].copy_from_slice(&segment.number.to_le_bytes());
    RawRecord { at: end, ..found }.sign(&mut segment.bytes, salt);
    segment.write_back(disk);
}

/// Makes the entry at `index` an empty one, as if the checkpoint held its effect.
pub(crate) fn skip_entry(disk: &MemDisk, paths: &[PathBuf], salt: u32, index: u64) {
    for mut segment in segments(disk, paths) {
        let (records, _) = segment.records(salt);
        let found = records.iter().rev().find(|record| record.index(&segment.bytes) == Some(index));
        if let Some(record) = found.copied() {
            segment.bytes[record.at + HEAD + 16] = 2;
            record.sign(&mut segment.bytes, salt);
            segment.write_back(disk);
        }
    }
}

/// The highest `synced` mark of a segment within itself: damage below it cannot be a torn tail.
pub(crate) fn covered_bytes(disk: &MemDisk, path: &Path, salt: u32) -> u64 {
    let paths = [path.to_owned()];
    let Some(segment) = segments(disk, &paths).into_iter().next() else { return 0 };
    let (records, _) = segment.records(salt);
    let own = |record: &RawRecord| (record.synced >> 32) as u32 == segment.number;
    let marks = records.iter().filter(|record| own(record)).map(|record| u64::from(record.synced as u32));
    marks.max().unwrap_or(0)
}

/// The end of a log that is durable but lies behind every `synced` mark.
pub(crate) struct UncoveredTail {
    /// The newest segment.
    pub(crate) path: PathBuf,
    /// Its number.
    pub(crate) segment: u32,
    /// First byte of the first record behind the mark.
    pub(crate) from: u64,
    /// The end of the last record.
    pub(crate) to: u64,
    /// Where the records begin, and the index of those that are entries.
    records: Vec<(u64, Option<u64>)>,
}

impl UncoveredTail {
    /// The index of the last entry wholly before an offset of the tail; 0 if the segment has none.
    pub(crate) fn last_index_before(&self, offset: u64) -> u64 {
        let begun = self.records.partition_point(|(at, _)| *at <= offset);
        let whole = &self.records[..begun.saturating_sub(1)];
        whole.iter().rev().find_map(|(_, index)| *index).unwrap_or(0)
    }
}

/// The part of the newest segment that holds records and is not covered by a mark. `None` if there is none.
pub(crate) fn uncovered_tail(disk: &MemDisk, paths: &[PathBuf], salt: u32) -> Option<UncoveredTail> {
    let with_records = segments(disk, paths).into_iter().filter_map(|segment| {
        let (records, end) = segment.records(salt);
        (!records.is_empty()).then_some((segment, records, end))
    });
    let (segment, records, end) = with_records.max_by_key(|(segment, ..)| segment.number)?;
    let covered = covered_bytes(disk, &segment.path, salt);
    let from = records.iter().map(|record| record.at as u64).find(|at| *at >= covered)?;
    let indexed = records.iter().map(|record| (record.at as u64, record.index(&segment.bytes))).collect();
    Some(UncoveredTail {
        path: segment.path,
        segment: segment.number,
        from,
        to: end as u64,
        records: indexed,
    })
}
