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
use crate::error::{JobError, is_full, is_out_of_descriptors};
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
    /// The last preparation failed because the process may open no more files.
    lacks_descriptors: bool,
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
        PreallocatedSegments {
            factory,
            numbers,
            ready,
            old,
            preparing: 0,
            is_full: false,
            lacks_descriptors: false,
            wanted,
        }
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
                self.lacks_descriptors = is_out_of_descriptors(&source);
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
        self.lacks_descriptors = false;
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

    /// Whether it is not space that they cannot be made for, but the number of open files.
    pub(crate) fn lacks_descriptors(&self) -> bool {
        self.lacks_descriptors
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

#[cfg(test)]
mod tests {
    //! The next segment and the reserve: how many are made, which are taken, and what happens to the others.
    use std::path::PathBuf;

    use super::*;
    use crate::disk::{Fault, Operation};
    use crate::testing::Parts;

    fn prepare(preallocated: &mut PreallocatedSegments, newest: Option<u32>) {
        while let Some(job) = preallocated.next_job() {
            preallocated.prepared(job.run(), newest).expect("the disk has room");
        }
    }

    fn taken(preallocated: &mut PreallocatedSegments, newest: Option<u32>) -> Option<u32> {
        preallocated.take(newest).map(|file| file.number)
    }

    fn old_path(preallocated: &mut PreallocatedSegments) -> Option<PathBuf> {
        preallocated.take_old().map(|old| old.path)
    }

    #[test]
    fn running_jobs_count_as_ready() {
        let mut segments = Parts::new().expect("an empty disk").preallocated(2);
        let jobs: Vec<PreparationJob> = std::iter::from_fn(|| segments.next_job()).take(9).collect();
        assert_eq!(jobs.len(), 2);
        assert!(!segments.is_complete(None) && !segments.wants_old());
        for job in jobs.into_iter().rev() {
            segments.prepared(job.run(), None).expect("the disk has room");
        }
        assert!(segments.is_complete(None) && segments.next_job().is_none());
        assert_eq!(
            [(); 3].map(|()| taken(&mut segments, None)),
            [Some(1), Some(2), None],
            "the lowest first"
        );
    }

    #[test]
    fn a_segment_below_the_newest_is_recycled_and_never_taken() {
        let parts = Parts::new().expect("an empty disk");
        let mut segments = parts.preallocated(2);
        prepare(&mut segments, None);
        assert!(!segments.is_complete(Some(2)), "neither can follow segment 2");
        assert_eq!(taken(&mut segments, Some(1)), Some(2));
        let late = segments.next_job().expect("segment 1 is made into segment 3").run();
        assert_eq!(parts.names(&parts.layout.wal), ["00000002.seg", "00000003.seg"]);
        segments.prepared(late, Some(4)).expect("the disk has room");
        assert_eq!(taken(&mut segments, Some(4)), None, "it was ready too late");
        assert_eq!(old_path(&mut segments), Some(parts.layout.segment(3)));
        segments.check_all();
    }

    #[test]
    fn a_failure_stops_preparation_until_a_retry() {
        let parts = Parts::new().expect("an empty disk");
        let mut segments = parts.preallocated(1);
        let kind = io::ErrorKind::StorageFull;
        parts.disk.inject(Fault { operation: Operation::Allocate, after: 0, kind });
        let job = segments.next_job().expect("one is missing");
        assert!(!segments.is_low());
        let failed = segments.prepared(job.run(), None);
        assert!(matches!(failed, Err(JobError::Io { action: "allocate", .. })));
        assert!(segments.is_low() && segments.next_job().is_none());
        segments.retry();
        assert!(!segments.is_low());
        prepare(&mut segments, None);
        assert_eq!(parts.names(&parts.layout.wal), ["00000002.seg"], "the unfinished file is removed");
    }

    #[test]
    fn old_files_beyond_need_are_surplus() {
        let mut segments = Parts::new().expect("an empty disk").preallocated(1);
        assert!(segments.wants_old());
        for path in ["/wal/a", "/wal/b"] {
            segments.add_old(UsedFile { path: path.into(), written: 0 });
            assert!(!segments.wants_old());
        }
        assert_eq!(segments.take_surplus().map(|old| old.path), Some("/wal/b".into()));
        assert!(segments.take_surplus().is_none(), "the other will be needed");
        assert_eq!(old_path(&mut segments), Some("/wal/a".into()));
    }
}
