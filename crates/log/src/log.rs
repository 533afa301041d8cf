//! The owner's side of the log: one thread plans, others write.
//!
//! [`Log`] does no I/O of its own after it was opened, so its owner never waits for a disk. It hands out jobs
//! and is told what became of them. What it plans becomes true in memory at once (index, places, tail);
//! `durable` follows.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cursor::{Cursor, EntryRef, ReadJob, Replay};
use crate::disk::LockGuard;
use crate::error::{Fatal, ReadError};
use crate::files::ValueFile;
use crate::index::EntryIndex;
use crate::prepare::SegmentFactory;
use crate::reader::{Reader, SharedFiles};
use crate::spares::{Numbers, PreallocatedSegments};
use crate::types::{HardState, Identity, LogId};
use crate::writer::WriteDone;

/// An idle log is sealed within this time.
pub const SEAL_AFTER: Duration = Duration::from_millis(10);

/// The segment being written.
pub(crate) struct Active {
    pub(crate) file: Arc<ValueFile>,
    /// Where the next record goes.
    pub(crate) offset: u64,
    pub(crate) capacity: u64,
}

/// A segment of the log, in the order of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) number: u32,
    /// The last entry before it.
    pub(crate) previous_index: u64,
    /// Position after its opening record: once durable, the segment carries the hard state.
    pub(crate) opened_at: u64,
}

/// A retired file, waiting for its readers.
pub(crate) struct Retired {
    pub(crate) file: Arc<ValueFile>,
    pub(crate) path: PathBuf,
    pub(crate) era: u64,
    /// The file may be made into a spare segment.
    pub(crate) recyclable: bool,
}

/// The log. See the module's head, and `Log::open`.
pub struct Log {
    pub(crate) shelf: Arc<SharedFiles>,
    pub(crate) workshop: SegmentFactory,
    pub(crate) numbers: Numbers,
    pub(crate) salt: u32,
    pub(crate) index: EntryIndex,
    pub(crate) hard_state: HardState,
    pub(crate) segments: VecDeque<Segment>,
    pub(crate) active: Option<Active>,
    pub(crate) spares: PreallocatedSegments,
    /// End of what is planned.
    pub(crate) position: u64,
    /// End of what is known durable.
    pub(crate) durable: u64,
    /// The highest `synced` any record says.
    pub(crate) stamped: u64,
    /// End of the last record that is not a seal.
    pub(crate) content_end: u64,
    pub(crate) failed: bool,
    pub(crate) checkpoints: crate::checkpoint::Checkpoints,
    /// Files without a reference in the newest durable checkpoint, or since.
    pub(crate) unreferenced: BTreeSet<u32>,
    /// Data segments whose values are not referenced yet.
    pub(crate) young: BTreeSet<u32>,
    /// Data segments of an installed snapshot that is not loaded yet.
    pub(crate) installed: Vec<u32>,
    pub(crate) retired: Vec<Retired>,
    /// Files that nobody needs any more.
    pub(crate) removable: Vec<PathBuf>,
    pub(crate) moving: Option<u32>,
    pub(crate) wal_dir_bytes: u64,
    pub(crate) _lock: Box<dyn LockGuard>,
}

/// Whether client writes may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// The next segment and the reserve are allocated, or will be.
    Ok,
    /// They cannot be allocated. Client writes must get NOSPACE; raft, deletes and compaction may use the
    /// reserve.
    Low,
}

/// What is durable now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// Every append up to this position.
    pub position: u64,
}

impl Log {
    /// Takes in what became of write jobs. After an error nothing may be appended any more: stop the process.
    pub fn complete(&mut self, done: WriteDone) -> Result<Completed, Fatal> {
        if let Err(fatal) = done.result {
            self.failed = true;
            return Err(fatal);
        }
        assert!(done.end <= self.position, "only what was planned can be written");
        self.durable = self.durable.max(done.end);
        self.shelf.tail.write().shrink(self.durable);
        Ok(Completed { position: self.durable })
    }

    /// A handle for reading values, from any thread.
    pub fn reader(&self) -> Reader {
        Reader { shelf: self.shelf.clone() }
    }

    /// Whose log this is.
    pub fn identity(&self) -> Identity {
        self.workshop.identity
    }

    /// The newest hard state, durable or planned.
    pub fn hard_state(&self) -> HardState {
        self.hard_state
    }

    /// Index of the first entry raft may ask for; one above the last entry if there is none.
    pub fn first_index(&self) -> u64 {
        self.index.first()
    }

    /// Index of the last entry, durable or planned.
    pub fn last_index(&self) -> u64 {
        self.index.last().index
    }

    /// The term of an entry between `first_index() - 1` and `last_index()`.
    pub fn term(&self, index: u64) -> Option<u64> {
        self.index.term(index)
    }

    /// Where the payload of an entry lies.
    pub fn address(&self, index: u64) -> Option<u64> {
        self.index.address(index).map(|(address, _)| address)
    }

    /// End of what is durable.
    pub fn durable_position(&self) -> u64 {
        self.durable
    }

    /// End of what is planned.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the next segment and the reserve can be had.
    pub fn space(&self) -> Space {
        if self.spares.is_low() { Space::Low } else { Space::Ok }
    }

    /// Reads entries `from..to`, at most `max_bytes` of payload but at least one. Run the job off the owner's
    /// thread unless the entries are recent.
    pub fn read_entries(&self, from: u64, to: u64, max_bytes: u64) -> Result<ReadJob, ReadError> {
        let (first, last) = (self.index.first(), self.index.last().index);
        if from < first || from > last {
            return Err(ReadError::NoEntry { index: from, first, last });
        }
        let mut bytes = 0;
        let mut entries = Vec::new();
        for index in from..to.min(last + 1) {
            let entry = self.entry_ref(index);
            bytes += u64::from(entry.len);
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(ReadJob { cursor: self.cursor(), entries, pin: self.reader().pin() })
    }

    /// Walks all entries from an index on, at the start of the process: what the checkpoint does not hold.
    pub fn replay(&self, from: u64) -> Replay {
        let range = from.max(self.index.first())..self.index.last().index + 1;
        let entries: Vec<EntryRef> = range.map(|index| self.entry_ref(index)).collect();
        Replay { cursor: self.cursor(), entries: entries.into_iter() }
    }

    /// Forgets the entries up to an index: raft will not ask for them again. Their files are freed once no
    /// value in them is referenced and a checkpoint makes them unnecessary.
    pub fn truncate_to(&mut self, index: u64) {
        self.index.cut_below(index);
        self.retire_unreferenced();
    }

    fn entry_ref(&self, index: u64) -> EntryRef {
        let (address, len) = self.index.address(index).expect("the caller stays within the log");
        let term = self.index.term(index).expect("the caller stays within the log");
        EntryRef { id: LogId { index, term }, address, len }
    }

    fn cursor(&self) -> Cursor {
        Cursor::new(self.shelf.clone(), self.salt, self.durable)
    }

    pub(crate) fn newest_segment(&self) -> Option<u32> {
        self.segments.back().map(|segment| segment.number)
    }
}
