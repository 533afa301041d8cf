//! Replaying records into the index and the hard state: later records of the same index win and cut all
//! above.

use std::io::IoSlice;
use std::path::Path;

use super::inventory::{Inventory, Opened, Unopened};
use super::scan::{Found, Scan};
use super::{FIRST_SEGMENT, FIRST_SEGMENT_BYTES, Warning};
use crate::cursor::entry_of;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::header::HEADER_BYTES;
use crate::index::EntryIndex;
use crate::prepare::Used;
use crate::record::{END_BYTES, Kind, NotRecord, Opening, PAYLOAD_OFFSET, decode_hard_state};
use crate::types::{HardState, LogId, address_at, file_of, offset_of};

/// What the records say.
pub(super) struct Walk {
    pub(super) index: EntryIndex,
    pub(super) hard_state: HardState,
    /// End of the log.
    pub(super) end: u64,
    /// The entry before the first segment walked was replaced in it: what stood before that one is not known.
    base_replaced: bool,
}

/// Walks the segments that must be replayed on top of a checkpoint of `checkpoint`.
pub(super) fn walk(
    inventory: &mut Inventory,
    checkpoint: LogId,
    salt: u32,
    manifest: &Path,
) -> Result<Walk, OpenError> {
    let opened = &inventory.opened;
    let Some(oldest) = opened.first() else {
        return Err(OpenError::MissingSegment { number: 1, path: manifest.to_owned() });
    };
    let start = opened.iter().rposition(|segment| segment.opening.previous_index <= checkpoint.index);
    let Some(start) = start else {
        let number = file_of(oldest.opening.previous_end);
        return Err(OpenError::MissingSegment { number, path: oldest.path.clone() });
    };
    let mut walk = Walk {
        index: EntryIndex::new(previous(&opened[start].opening)),
        hard_state: HardState::default(),
        end: 0,
        base_replaced: false,
    };
    for at in start..opened.len() {
        let segment = &opened[at];
        match opened.get(at + 1) {
            Some(next) => {
                check_chain(segment, next, &inventory.unopened)?;
                walk.segment(segment, salt, u64::from(offset_of(next.opening.previous_end)), true)?;
            }
            None => {
                let torn = walk.segment(segment, salt, segment.length, false)?;
                inventory.warnings.extend(torn);
            }
        }
    }
    walk.settle(checkpoint);
    Ok(walk)
}

fn previous(opening: &Opening) -> LogId {
    LogId { index: opening.previous_index, term: opening.previous_term }
}

/// The next segment continues this one, or something between them is missing.
fn check_chain(segment: &Opened, next: &Opened, unopened: &[Unopened]) -> Result<(), OpenError> {
    let number = file_of(next.opening.previous_end);
    if number == segment.number {
        return Ok(());
    }
    match unopened.iter().find(|other| other.number == number) {
        Some(broken) => {
            Err(OpenError::corrupt(&broken.path, HEADER_BYTES, "its first record does not check"))
        }
        None => Err(OpenError::MissingSegment { number, path: next.path.clone() }),
    }
}

impl Walk {
    /// Takes in a segment up to `limit`. All of it is durable if another follows; else it may end in a torn
    /// tail, which is cut.
    fn segment(
        &mut self,
        segment: &Opened,
        salt: u32,
        limit: u64,
        durable: bool,
    ) -> Result<Option<Warning>, OpenError> {
        if limit > segment.length {
            let what = "the file is shorter than the log was";
            return Err(OpenError::corrupt(&segment.path, segment.length, what));
        }
        let mut scan = Scan::new(&segment.path, segment.file.clone(), segment.number, salt, limit);
        let mut offset = HEADER_BYTES;
        let why = loop {
            if durable && offset == limit {
                self.end = address_at(segment.number, offset);
                return Ok(None);
            }
            match scan.record(offset)? {
                Found::Record(head, body) => {
                    self.record(segment, offset, head.kind, &body)?;
                    offset += head.span();
                }
                Found::Nothing(why) => break why,
            }
        };
        self.end = address_at(segment.number, offset);
        if durable || scan.proves_durable(offset, self.end)? {
            let what = "a record that was durable does not check";
            return Err(OpenError::corrupt(&segment.path, offset, what));
        }
        if segment.number == FIRST_SEGMENT && offset == FIRST_SEGMENT_BYTES {
            return Ok(None);
        }
        if why == NotRecord::CutShort || offset + END_BYTES > segment.length {
            return Err(cut_short(&segment.path, segment.length));
        }
        cut(segment, offset)?;
        let path = segment.path.clone();
        let bytes = segment.length - offset;
        Ok((why == NotRecord::Damaged).then_some(Warning::TornTail { path, offset, bytes }))
    }

    fn record(
        &mut self,
        segment: &Opened,
        offset: u64,
        kind: Kind,
        body: &bytes::Bytes,
    ) -> Result<(), OpenError> {
        let malformed = |what: &str| OpenError::corrupt(&segment.path, offset, what);
        match kind {
            Kind::Opening => {
                let opening =
                    Opening::decode(body).ok_or_else(|| malformed("an opening of the wrong length"))?;
                self.open(&opening);
            }
            Kind::HardState => {
                self.hard_state =
                    decode_hard_state(body).ok_or_else(|| malformed("a hard state of the wrong length"))?;
            }
            Kind::Entry => {
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
            Kind::Seal => {}
        }
        Ok(())
    }

    /// A segment begins behind its previous entry, whatever stood above it; a snapshot may have taken it
    /// further.
    fn open(&mut self, opening: &Opening) {
        self.hard_state = opening.hard_state;
        let before = previous(opening);
        match self.index.term(before.index) == Some(before.term) {
            true => self.index.cut_above(before.index),
            false => self.index = EntryIndex::new(before),
        }
    }

    /// A log that lacks the checkpoint's entry is of no use. Commit never points beyond what is there, and
    /// never below what is applied.
    fn settle(&mut self, checkpoint: LogId) {
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

/// Segments have their length before they have their name, and no record reaches the end of the file: so a file that
/// ends within a record or right behind one was not left so by a crash.
fn cut_short(path: &Path, length: u64) -> OpenError {
    OpenError::corrupt(
        path,
        length,
        "the file ends here, but a segment is longer than its records: it was cut short",
    )
}

/// Cuts a segment behind its last record and the zeros that show that it ends there. What is left was perhaps only in
/// the page cache of a killed process, and is about to be relied upon: so it is synced.
fn cut(segment: &Opened, offset: u64) -> Result<(), OpenError> {
    let path = &segment.path;
    let zeros = [0; END_BYTES as usize];
    segment.file.write_at(&[IoSlice::new(&zeros)], offset).map_err(OpenError::io("write", path))?;
    segment.file.sync_data().map_err(OpenError::io("sync", path))?;
    segment.file.set_length(offset + END_BYTES).map_err(OpenError::io("cut", path))?;
    segment.file.sync_data().map_err(OpenError::io("sync", path))
}

/// Segments that were prepared but not begun can be used again; nobody remembers which of their blocks were written.
/// One that holds proof of durable records has lost its beginning.
pub(super) fn reusable(
    inventory: &mut Inventory,
    disk: &dyn Disk,
    salt: u32,
) -> Result<(Vec<Used>, Vec<Unopened>), OpenError> {
    let newest = inventory.opened.last().map_or(0, |segment| segment.number);
    let mut old = Vec::new();
    let mut kept = Vec::new();
    for unopened in std::mem::take(&mut inventory.unopened) {
        if unopened.clean {
            old.push(Used { path: unopened.path, written: HEADER_BYTES });
            continue;
        }
        let (path, number) = (&unopened.path, unopened.number);
        if number < newest {
            let warning = Warning::Damaged { path: path.clone(), offset: HEADER_BYTES };
            inventory.warnings.push(warning);
            kept.push(unopened);
            continue;
        }
        if unopened.length < FIRST_SEGMENT_BYTES + END_BYTES {
            return Err(cut_short(path, unopened.length));
        }
        let file = disk.open(path).map_err(OpenError::io("open", path))?;
        let mut scan = Scan::new(path, file, number, salt, unopened.length);
        if scan.proves_durable(HEADER_BYTES, address_at(number, HEADER_BYTES))? {
            return Err(OpenError::corrupt(path, HEADER_BYTES, "its first record does not check"));
        }
        let bytes = unopened.length - HEADER_BYTES;
        inventory.warnings.push(Warning::TornTail { path: path.clone(), offset: HEADER_BYTES, bytes });
        old.push(Used { path: unopened.path, written: HEADER_BYTES });
    }
    Ok((old, kept))
}
