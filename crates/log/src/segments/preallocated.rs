//! Preallocated segments: made ready ahead of need, off the hot path, from recycled files if there are any.
//!
//! One is the next segment. The others are the reserve: raft, deletes and compaction can use it when the disk is full.
//! Segment numbers ascend along the log, so a preallocated segment with a lower number than the newest segment cannot
//! be used any more; it is recycled under a new number.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::factory::{PreparedSegment, SegmentFactory, UsedFile};
use super::file_numbers::FileNumbers;
use crate::error::{JobError, is_full};
use crate::read::ValueFile;

fn can_follow(ready: &ValueFile, newest: Option<u32>) -> bool {
    newest.is_none_or(|newest| ready.number > newest)
}

/// Segments that are ready, and old files to make more of.
pub(crate) struct PreallocatedSegments {
    factory: SegmentFactory,
    numbers: FileNumbers,
    /// By ascending number.
    ready: VecDeque<Arc<ValueFile>>,
    /// Old files in the WAL directory, under their old names.
    old: Vec<UsedFile>,
    /// Preparation jobs that are running.
    preparing: usize,
    /// The last preparation failed; retried when space may be available again.
    is_full: bool,
    /// How many segments should be ready.
    wanted: usize,
}

/// Makes one segment ready; runs on a background thread.
pub(crate) struct PreparationJob {
    factory: SegmentFactory,
    number: u32,
    old: Option<UsedFile>,
}

/// The result of a [`PreparationJob`].
pub(crate) struct PreparationDone {
    number: u32,
    result: io::Result<PreparedSegment>,
}

impl PreparationJob {
    pub(crate) fn run(self) -> PreparationDone {
        PreparationDone { number: self.number, result: self.factory.segment(self.number, self.old.as_ref()) }
    }
}

impl PreallocatedSegments {
    pub(crate) fn new(
        factory: SegmentFactory,
        numbers: FileNumbers,
        wanted: usize,
        old: Vec<UsedFile>,
    ) -> PreallocatedSegments {
        let ready = VecDeque::new();
        PreallocatedSegments { factory, numbers, ready, old, preparing: 0, is_full: false, wanted }
    }

    /// The next segment, if one is ready. It follows `newest`.
    pub(crate) fn take(&mut self, newest: Option<u32>) -> Option<Arc<ValueFile>> {
        let at = self.ready.iter().position(|ready| can_follow(ready, newest))?;
        let taken = self.ready.remove(at)?;
        self.recycle_overtaken(taken.number);
        Some(taken)
    }

    /// Recycles ready segments with lower numbers than the newest segment.
    fn recycle_overtaken(&mut self, newest: u32) {
        while let Some(overtaken) = self.ready.pop_front_if(|ready| ready.number < newest) {
            let written = overtaken.written();
            self.old.extend(overtaken.path().map(|path| UsedFile { path, written }));
        }
    }

    /// Plans to make one more segment ready, if too few are.
    pub(crate) fn next_job(&mut self) -> Option<PreparationJob> {
        (self.ready.len() + self.preparing < self.wanted && !self.is_full).then(|| {
            self.preparing += 1;
            let old = self.old.pop();
            PreparationJob { factory: self.factory.clone(), number: self.numbers.next(), old }
        })
    }

    /// Takes the result of a job. `newest` is the newest segment of the log.
    pub(crate) fn prepared(&mut self, done: PreparationDone, newest: Option<u32>) -> Result<(), JobError> {
        self.preparing -= 1;
        match done.result {
            Ok(prepared) => {
                let file = ValueFile::new(done.number, None);
                file.set_location(&prepared.path, Some(prepared.handle));
                file.note_written(prepared.written);
                self.add(Arc::new(file), newest);
                Ok(())
            }
            Err(source) => {
                // Whatever the reason, an immediate retry would most likely fail again.
                self.is_full = true;
                let path = self.factory.layout.segment(done.number);
                let action = if is_full(&source) { "allocate" } else { "prepare" };
                Err(JobError::Io { action, path, source: Arc::new(source) })
            }
        }
    }

    fn add(&mut self, file: Arc<ValueFile>, newest: Option<u32>) {
        let at = self.ready.partition_point(|other| other.number < file.number);
        self.ready.insert(at, file);
        self.recycle_overtaken(newest.unwrap_or(0));
    }

    /// Allows preparation again after a failure: space may be available again.
    pub(crate) fn retry(&mut self) {
        self.is_full = false;
    }

    /// Whether more old files would be of use.
    pub(crate) fn wants_old(&self) -> bool {
        self.ready.len() + self.preparing + self.old.len() < self.wanted
    }

    /// An old file for a segment that is made in the middle of a write. It needs no new blocks: on a full disk it may
    /// be the only way.
    pub(crate) fn take_old(&mut self) -> Option<UsedFile> {
        self.old.pop()
    }

    /// An old file beyond need.
    pub(crate) fn take_surplus(&mut self) -> Option<UsedFile> {
        if self.old.len() > self.wanted { self.old.pop() } else { None }
    }

    pub(crate) fn add_old(&mut self, old: UsedFile) {
        self.old.push(old);
    }

    /// Whether the reserve is complete, and the next segment can be taken at once.
    pub(crate) fn is_complete(&self, newest: Option<u32>) -> bool {
        self.ready.len() >= self.wanted && self.ready.iter().any(|ready| can_follow(ready, newest))
    }

    /// Whether segments are missing and cannot be made.
    pub(crate) fn is_low(&self) -> bool {
        self.is_full && self.ready.len() < self.wanted
    }

    pub(crate) fn factory(&self) -> &SegmentFactory {
        &self.factory
    }

    pub(crate) fn numbers(&self) -> &FileNumbers {
        &self.numbers
    }

    /// Walks the ready segments: numbers ascend, and no old file is listed twice.
    pub(crate) fn check_all(&self) {
        assert!(self.ready.iter().is_sorted_by(|one, next| one.number < next.number), "numbers ascend");
        let paths: std::collections::BTreeSet<_> = self.old.iter().map(|old| &old.path).collect();
        assert!(paths.len() == self.old.len(), "an old file is recycled once");
    }
}
