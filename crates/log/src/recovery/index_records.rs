//! Indexes the records of the log: from bytes to the entry index and the hard state. A later record of the same index
//! replaces the earlier one and all entries above it, as raft did when the record was written.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use super::create::{FIRST_SEGMENT, FIRST_SEGMENT_BYTES};
use super::inventory::{BegunSegment, Inventory, UnbegunSegment};
use super::scan::{ScannedRecord, SegmentScan};
use super::warning::Warning;
use crate::disk::{Disk, File};
use crate::entry_index::EntryIndex;
use crate::error::OpenError;
use crate::format::{
    END_BYTES, HEADER_BYTES, NotRecord, PAYLOAD_OFFSET, RecordHead, RecordKind, SegmentOpening,
    decode_hard_state,
};
use crate::read::entry_of;
use crate::segments::UsedFile;
use crate::types::{HardState, LogId, address_at, file_of, offset_of};

/// What the records that have been read amount to.
pub(super) struct IndexedRecords {
    pub(super) index: EntryIndex,
    pub(super) hard_state: HardState,
    /// End of the log.
    pub(super) end: u64,
    /// The entry before the first segment read was replaced in it, so the term before that entry is unknown.
    base_replaced: bool,
    checkpoint: LogId,
    /// Entries whose bodies are damaged, in the order of their records.
    damaged: Vec<DamagedEntry>,
}

/// A record whose head is intact and whose body, the entry, is not. Its index and term are those that the body says and
/// that fit to the entries around it. They are certain only when a peer's entry of that index and term has the checksum
/// that the head says, because the checksum covers both. Until then nothing may be done that relies on them.
struct DamagedEntry {
    id: LogId,
    /// Log address of its payload.
    address: u64,
    path: PathBuf,
    /// Of its record in the file.
    offset: u64,
}

/// Entries of a log that may be damaged, and repaired before it is used: more is no flipped bit.
const MAX_DAMAGED_ENTRIES: usize = 1_000;

/// Indexes the records from the last segment on that begins at or before the entry of the checkpoint.
pub(super) fn index_records(
    disk: &dyn Disk,
    inventory: &mut Inventory,
    checkpoint: LogId,
    salt: u32,
    manifest: &Path,
) -> Result<IndexedRecords, OpenError> {
    let begun = &inventory.begun;
    let Some(oldest) = begun.first() else {
        return Err(OpenError::MissingSegment { number: 1, path: manifest.to_owned() });
    };
    let start = begun.iter().rposition(|segment| segment.opening.previous_index <= checkpoint.index);
    let Some(start) = start else {
        let number = file_of(oldest.opening.previous_end);
        return Err(OpenError::MissingSegment { number, path: oldest.path.clone() });
    };
    let mut indexed = IndexedRecords {
        index: EntryIndex::new(previous(&begun[start].opening)),
        hard_state: HardState::default(),
        end: 0,
        base_replaced: false,
        checkpoint,
        damaged: Vec::new(),
    };
    for at in start..begun.len() {
        let segment = &begun[at];
        match begun.get(at + 1) {
            Some(next) => {
                check_chain(segment, next, &inventory.unbegun)?;
                indexed.segment(
                    disk,
                    segment,
                    salt,
                    u64::from(offset_of(next.opening.previous_end)),
                    true,
                )?;
            }
            None => {
                let torn = indexed.segment(disk, segment, salt, segment.length, false)?;
                inventory.warnings.extend(torn);
            }
        }
    }
    indexed.start_at(checkpoint);
    indexed.settle_damaged(&mut inventory.warnings)?;
    Ok(indexed)
}

fn previous(opening: &SegmentOpening) -> LogId {
    LogId { index: opening.previous_index, term: opening.previous_term }
}

/// Checks that the next segment continues this one.
fn check_chain(
    segment: &BegunSegment,
    next: &BegunSegment,
    unbegun: &[UnbegunSegment],
) -> Result<(), OpenError> {
    let number = file_of(next.opening.previous_end);
    if number == segment.number {
        return Ok(());
    }
    match unbegun.iter().find(|other| other.number == number) {
        Some(broken) => {
            Err(OpenError::corrupt(&broken.path, HEADER_BYTES, "its first record fails its checksum"))
        }
        None => Err(OpenError::MissingSegment { number, path: next.path.clone() }),
    }
}

impl IndexedRecords {
    /// Indexes a segment up to `limit`. If another segment follows, all of it is durable (`is_durable`). Otherwise it
    /// may end in a torn write, which is cut off.
    fn segment(
        &mut self,
        disk: &dyn Disk,
        segment: &BegunSegment,
        salt: u32,
        limit: u64,
        is_durable: bool,
    ) -> Result<Option<Warning>, OpenError> {
        if limit > segment.length {
            let what = "the file is shorter than the log was";
            return Err(OpenError::corrupt(&segment.path, segment.length, what));
        }
        let file = disk.open(&segment.path).map_err(OpenError::io("open", &segment.path))?;
        let mut scan = SegmentScan::new(&segment.path, file.clone(), segment.number, salt, limit);
        let mut offset = HEADER_BYTES;
        let why = loop {
            if is_durable && offset == limit {
                self.end = address_at(segment.number, offset);
                return Ok(None);
            }
            match scan.record(offset)? {
                ScannedRecord::Valid(head, body) => {
                    self.record(segment, offset, head.kind, &body)?;
                    offset += head.span();
                }
                ScannedRecord::DamagedBody(head, body) => {
                    let is_proved =
                        is_durable || scan.proves_durable(offset, address_at(segment.number, offset))?;
                    if !is_proved || !self.damaged_entry(segment, offset, &head, &body) {
                        break NotRecord::Damaged;
                    }
                    offset += head.span();
                }
                ScannedRecord::Invalid(why) => break why,
            }
        };
        self.end = address_at(segment.number, offset);
        if is_durable || scan.proves_durable(offset, self.end)? {
            let what = "a durable record fails its checksum";
            return Err(OpenError::corrupt(&segment.path, offset, what));
        }
        if segment.number == FIRST_SEGMENT && offset == FIRST_SEGMENT_BYTES {
            return Ok(None);
        }
        if why == NotRecord::CutShort || offset + END_BYTES > segment.length {
            return Err(cut_short(&segment.path, segment.length));
        }
        cut(&segment.path, file.as_ref(), offset)?;
        let path = segment.path.clone();
        let bytes = segment.length - offset;
        Ok((why == NotRecord::Damaged).then_some(Warning::TornTail { path, offset, bytes }))
    }

    fn record(
        &mut self,
        segment: &BegunSegment,
        offset: u64,
        kind: RecordKind,
        body: &bytes::Bytes,
    ) -> Result<(), OpenError> {
        let malformed = |what: &str| OpenError::corrupt(&segment.path, offset, what);
        match kind {
            RecordKind::Opening => {
                let opening = SegmentOpening::decode(body)
                    .ok_or_else(|| malformed("an opening of the wrong length"))?;
                self.open(&opening);
            }
            RecordKind::HardState => {
                self.hard_state =
                    decode_hard_state(body).ok_or_else(|| malformed("a hard state of the wrong length"))?;
            }
            RecordKind::Entry => {
                let entry = entry_of(body).ok_or_else(|| malformed("an entry without its head"))?;
                if entry.index == 0 || entry.index > self.index.last().index + 1 {
                    return Err(malformed("an entry that does not follow the one before"));
                }
                if entry.index > self.index.base().index {
                    self.index.cut_above(entry.index - 1);
                } else {
                    self.index = EntryIndex::new(LogId { index: entry.index - 1, term: 0 });
                    self.base_replaced = true;
                }
                let address = address_at(segment.number, offset + PAYLOAD_OFFSET);
                let id = LogId { index: entry.index, term: entry.term };
                self.index.push(id, address, entry.payload.len() as u32);
            }
            RecordKind::Seal => {}
        }
        Ok(())
    }

    /// Indexes an entry whose body is damaged, if what the body says of index and term fits to what is known: it
    /// follows the entry before, in a term between that one's and the hard state's. Returns whether it does.
    fn damaged_entry(
        &mut self,
        segment: &BegunSegment,
        offset: u64,
        head: &RecordHead,
        body: &bytes::Bytes,
    ) -> bool {
        let entry = entry_of(body).filter(|_| head.kind == RecordKind::Entry);
        let Some(entry) = entry.filter(|_| self.damaged.len() < MAX_DAMAGED_ENTRIES) else { return false };
        let (last, checkpoint) = (self.index.last(), self.checkpoint);
        // The log is discarded if it lacks the checkpoint's entry, whose term is known.
        let term = if entry.index == checkpoint.index { checkpoint.term } else { entry.term };
        if entry.index != last.index + 1 || !(last.term..=self.hard_state.term).contains(&term) {
            return false;
        }
        let id = LogId { index: entry.index, term };
        let address = address_at(segment.number, offset + PAYLOAD_OFFSET);
        self.index.push(id, address, entry.payload.len() as u32);
        self.damaged.push(DamagedEntry { id, address, path: segment.path.clone(), offset });
        true
    }

    /// Decides what becomes of the damaged entries. Those after the checkpoint are wanted from peers. Those before it
    /// are needed only by followers, which get a snapshot instead: then the log begins after the checkpoint, because
    /// an index that was read wrong could have put others in their place.
    ///
    /// # Errors
    /// One was replaced by a later record: it cannot be known which entries it had replaced.
    fn settle_damaged(&mut self, warnings: &mut Vec<Warning>) -> Result<(), OpenError> {
        let checkpoint = self.checkpoint;
        for entry in &self.damaged {
            let is_before = entry.id.index <= checkpoint.index;
            let is_held = self.index.address(entry.id.index).is_some_and(|(held, _)| held == entry.address);
            if !is_before && !is_held {
                let what = "a durable record fails its checksum";
                return Err(OpenError::corrupt(&entry.path, entry.offset, what));
            }
            let (path, offset) = (entry.path.clone(), entry.offset);
            warnings.push(match is_before {
                true => Warning::Damaged { path, offset },
                false => Warning::DamagedEntry { path, offset, index: entry.id.index },
            });
        }
        let damaged = self.damaged.len();
        self.damaged.retain(|entry| entry.id.index > checkpoint.index);
        if self.damaged.len() < damaged && self.index.term(checkpoint.index).is_some() {
            self.index.cut_below(checkpoint.index);
        }
        Ok(())
    }

    /// Index and term of the entries after the checkpoint that are damaged, in the order of indexes.
    pub(super) fn damaged_ids(&self) -> Vec<LogId> {
        self.damaged.iter().map(|entry| entry.id).collect()
    }

    /// A segment begins after its previous entry and replaces all entries above it. After an installed snapshot, the
    /// previous entry is not in the log.
    fn open(&mut self, opening: &SegmentOpening) {
        self.hard_state = opening.hard_state;
        let before = previous(opening);
        match self.index.term(before.index) == Some(before.term) {
            true => self.index.cut_above(before.index),
            false => self.index = EntryIndex::new(before),
        }
    }

    /// Discards a log that lacks the checkpoint's entry, and brings commit between the checkpoint and the last entry.
    fn start_at(&mut self, checkpoint: LogId) {
        if self.index.term(checkpoint.index) != Some(checkpoint.term) {
            self.index = EntryIndex::new(checkpoint);
        } else if self.base_replaced {
            self.index.cut_below(checkpoint.index);
        }
        if self.hard_state.term < checkpoint.term {
            self.hard_state.term = checkpoint.term;
            self.hard_state.vote = 0;
        }
        self.hard_state.commit = self.hard_state.commit.min(self.index.last().index).max(checkpoint.index);
    }
}

/// The error for a file that ends within a record or directly after one. A segment has its full length before it has
/// its name, and no record reaches the end of the file, so a crash does not leave such a file.
fn cut_short(path: &Path, length: u64) -> OpenError {
    OpenError::corrupt(
        path,
        length,
        "the file ends here, but a segment is longer than its records: it was cut short",
    )
}

/// Cuts a segment after its last record and the zeros that mark the end. The rest is synced: it may be only in the page
/// cache, if the process was killed, and must be durable from now on.
fn cut(path: &Path, file: &dyn File, offset: u64) -> Result<(), OpenError> {
    let zeros = [0; END_BYTES as usize];
    file.write_at(&[IoSlice::new(&zeros)], offset).map_err(OpenError::io("write", path))?;
    file.sync_data().map_err(OpenError::io("sync", path))?;
    file.set_length(offset + END_BYTES).map_err(OpenError::io("cut", path))?;
    file.sync_data().map_err(OpenError::io("sync", path))
}

/// Sorts segment files without an opening into those that can be recycled, with unknown written blocks, and those that
/// are kept because they may hold values. A file with a record that proves a durable opening is corrupt.
pub(super) fn reusable(
    inventory: &mut Inventory,
    disk: &dyn Disk,
    salt: u32,
) -> Result<(Vec<UsedFile>, Vec<UnbegunSegment>), OpenError> {
    let newest = inventory.begun.last().map_or(0, |segment| segment.number);
    let mut old = Vec::new();
    let mut kept = Vec::new();
    for unbegun in std::mem::take(&mut inventory.unbegun) {
        if unbegun.is_clean {
            old.push(UsedFile { path: unbegun.path, written: HEADER_BYTES });
            continue;
        }
        let (path, number) = (&unbegun.path, unbegun.number);
        if number < newest {
            let warning = Warning::Damaged { path: path.clone(), offset: HEADER_BYTES };
            inventory.warnings.push(warning);
            kept.push(unbegun);
            continue;
        }
        if unbegun.length < FIRST_SEGMENT_BYTES + END_BYTES {
            return Err(cut_short(path, unbegun.length));
        }
        let file = disk.open(path).map_err(OpenError::io("open", path))?;
        let mut scan = SegmentScan::new(path, file, number, salt, unbegun.length);
        if scan.proves_durable(HEADER_BYTES, address_at(number, HEADER_BYTES))? {
            return Err(OpenError::corrupt(path, HEADER_BYTES, "its first record fails its checksum"));
        }
        let bytes = unbegun.length - HEADER_BYTES;
        inventory.warnings.push(Warning::TornTail { path: path.clone(), offset: HEADER_BYTES, bytes });
        old.push(UsedFile { path: unbegun.path, written: HEADER_BYTES });
    }
    Ok((old, kept))
}
