//! Preallocated segments: made ready ahead of need, off the hot path, from recycled files if there are any.
//!
//! One is the next segment. The others are the reserve: raft, deletes and compaction can use it when the disk is full.
//! Segment numbers ascend along the log, so a preallocated segment with a lower number than the newest segment cannot
//! be used any more; it is recycled under a new number.
//!
//! Space is *low* from the first segment that cannot be made until all are ready again, and while less is free beside
//! them than [is kept free](SegmentFactory::kept_free_bytes): that is for copies of values and for checkpoints, without
//! which nothing can be freed. A segment that would take it is not made, unless it is the only one.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::factory::{PreparedSegment, SegmentFactory, UsedFile};
use super::file_numbers::FileNumbers;
use super::room::{MissingSegments, RecordSizes, missing, record_bytes};
use crate::error::{JobError, is_full, is_out_of_descriptors};
use crate::read::ValueFile;

/// Whether client writes may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// The next segment and the reserve are allocated, or will be.
    Ok,
    /// They cannot be allocated, or hardly anything could beside them. Client writes must get NOSPACE; raft, deletes
    /// and compaction may use the reserve.
    Low,
    /// The process may open no more files. Client writes must be refused until it may, or the reserve is used up.
    OutOfDescriptors,
}

/// A segment that is ready to be the next one.
pub(crate) struct ReadySegment {
    pub(crate) file: Arc<ValueFile>,
    /// Its length.
    pub(crate) bytes: u64,
}

impl ReadySegment {
    fn can_follow(&self, newest: Option<u32>) -> bool {
        newest.is_none_or(|newest| self.file.number > newest)
    }
}

/// Segments that are ready, and old files to make more of.
pub(crate) struct PreallocatedSegments {
    factory: SegmentFactory,
    numbers: FileNumbers,
    /// By ascending number.
    ready: VecDeque<ReadySegment>,
    /// Old files in the WAL directory, under their old names.
    pub(super) old: Vec<UsedFile>,
    /// Preparation jobs that are running.
    preparing: usize,
    /// The last preparation that failed did so because the process may open no more files.
    lacks_descriptors: bool,
    /// How many segments should be ready.
    wanted: usize,
    /// What records wait for: so many ready segments, and those to be made this long.
    awaited: Option<MissingSegments>,
    /// A preparation failed, and not all segments are ready since.
    has_failed: bool,
    /// Preparation may be tried: none failed since space may have become available.
    may_try: bool,
    /// Bytes that were free beside all files when this was last measured.
    free_bytes: u64,
    /// Free bytes shall be measured again.
    measures: bool,
}

/// Makes one segment ready; runs on a background thread.
pub(crate) struct PreparationJob {
    factory: SegmentFactory,
    number: u32,
    bytes: u64,
    /// Bytes that must be free afterwards, if it takes new blocks.
    keeps_free: u64,
    old: Option<UsedFile>,
}

/// The result of a [`PreparationJob`].
pub(crate) struct PreparationDone {
    number: u32,
    result: io::Result<PreparedSegment>,
    free_bytes: io::Result<u64>,
}

impl PreparationJob {
    pub(crate) fn run(self) -> PreparationDone {
        let result = match self.old.is_some()
            || self.factory.has_space_for(self.bytes, self.keeps_free).unwrap_or(true)
        {
            true => self.factory.segment(self.number, self.bytes, self.old.as_ref()),
            false => Err(io::ErrorKind::StorageFull.into()),
        };
        PreparationDone { number: self.number, result, free_bytes: self.factory.free_bytes() }
    }
}

impl PreallocatedSegments {
    pub(crate) fn new(
        factory: SegmentFactory,
        numbers: FileNumbers,
        wanted: usize,
        old: Vec<UsedFile>,
    ) -> PreallocatedSegments {
        PreallocatedSegments {
            factory,
            numbers,
            ready: VecDeque::new(),
            old,
            preparing: 0,
            lacks_descriptors: false,
            wanted,
            awaited: None,
            has_failed: false,
            may_try: true,
            free_bytes: u64::MAX,
            measures: false,
        }
    }

    /// Whether records of these sizes, and what is `kept` (an n-th of the reserve), fit into `active` bytes of the
    /// active segment and the segments that are ready and can follow `newest`. If not, the next jobs make what is
    /// missing.
    pub(crate) fn make_room(
        &mut self,
        sizes: &RecordSizes,
        kept: Option<u64>,
        active: u64,
        newest: Option<u32>,
    ) -> bool {
        let kept = kept.map_or(0, |part| self.reserve_bytes() / part);
        let ready = self.ready.iter().filter(|ready| ready.can_follow(newest)).map(|ready| ready.bytes);
        let missing = missing(sizes.spans(), kept, active, ready, self.factory.segment_bytes);
        let has_room = missing.is_none();
        // After a failure nothing is awaited: what was asked for is refused then, and must not fail the next attempt.
        self.awaited = missing
            .filter(|_| self.may_try)
            .map(|missing| MissingSegments { count: self.ready.len() + missing.count, ..missing });
        has_room
    }

    /// Whether a segment can be begun at once after `newest`.
    pub(crate) fn has_next(&self, newest: Option<u32>) -> bool {
        self.ready.iter().any(|ready| ready.can_follow(newest))
    }

    /// The next segment, if one of at least `needed` bytes is ready. It follows `newest`.
    pub(crate) fn take(&mut self, newest: Option<u32>, needed: u64) -> Option<ReadySegment> {
        let fits = |ready: &ReadySegment| ready.can_follow(newest) && ready.bytes >= needed;
        let at = self.ready.iter().position(fits)?;
        let taken = self.ready.remove(at)?;
        self.recycle_overtaken(taken.file.number);
        Some(taken)
    }

    /// Recycles ready segments with lower numbers than the newest segment.
    fn recycle_overtaken(&mut self, newest: u32) {
        while let Some(overtaken) = self.ready.pop_front_if(|ready| ready.file.number < newest) {
            let written = overtaken.file.written();
            self.old.extend(overtaken.file.path().map(|path| UsedFile { path, written }));
        }
    }

    /// Plans to make one more segment ready, if too few are.
    pub(crate) fn next_job(&mut self) -> Option<PreparationJob> {
        let segment_bytes = self.factory.segment_bytes;
        let (wanted, bytes) = match self.awaited {
            Some(awaited) => (self.wanted.max(awaited.count), awaited.bytes),
            None => (self.wanted, segment_bytes),
        };
        (self.ready.len() + self.preparing < wanted && self.may_try).then(|| {
            self.preparing += 1;
            let old = self.old.pop();
            // Without any segment not even a vote can be recorded.
            let keeps_free = if self.ready.is_empty() { 0 } else { self.factory.kept_free_bytes() };
            let (factory, number) = (self.factory.clone(), self.numbers.next());
            PreparationJob { factory, number, bytes, keeps_free, old }
        })
    }

    /// Takes the result of a job. `newest` is the newest segment of the log.
    pub(crate) fn prepared(&mut self, done: PreparationDone, newest: Option<u32>) -> Result<(), JobError> {
        self.preparing -= 1;
        self.measured(done.free_bytes);
        match done.result {
            Ok(prepared) => {
                let file = ValueFile::new(done.number, None);
                file.set_location(&prepared.path, Some(prepared.handle));
                file.note_written(prepared.written);
                self.add(ReadySegment { file: Arc::new(file), bytes: prepared.bytes }, newest);
                self.has_failed &= self.ready.len() < self.wanted;
                self.may_try = true;
                Ok(())
            }
            Err(source) => {
                // Whatever the reason, an immediate retry would most likely fail again.
                (self.has_failed, self.may_try, self.awaited) = (true, false, None);
                self.lacks_descriptors = is_out_of_descriptors(&source);
                let path = self.factory.layout.segment(done.number);
                let action = if is_full(&source) { "allocate" } else { "prepare" };
                Err(JobError::Io { action, path, source: Arc::new(source) })
            }
        }
    }

    fn add(&mut self, segment: ReadySegment, newest: Option<u32>) {
        let at = self.ready.partition_point(|other| other.file.number < segment.file.number);
        self.ready.insert(at, segment);
        self.recycle_overtaken(newest.unwrap_or(0));
    }

    /// Allows preparation again after a failure: space may be available again.
    pub(crate) fn retry(&mut self) {
        self.may_try = true;
        self.has_failed &= self.ready.len() < self.wanted;
        self.measures = self.lacks_free_bytes();
    }

    /// Whether free bytes shall be measured; says so once.
    pub(crate) fn take_measurement(&mut self) -> bool {
        std::mem::take(&mut self.measures)
    }

    /// Takes a measurement of the free bytes. One that failed says nothing.
    pub(crate) fn measured(&mut self, free_bytes: io::Result<u64>) {
        self.free_bytes = free_bytes.unwrap_or(u64::MAX);
    }

    fn lacks_free_bytes(&self) -> bool {
        self.free_bytes < self.factory.kept_free_bytes()
    }

    /// Whether more old files would be of use.
    pub(crate) fn wants_old(&self) -> bool {
        self.ready.len() + self.preparing + self.old.len() < self.wanted
    }

    /// An old file beyond need.
    pub(crate) fn take_surplus(&mut self) -> Option<UsedFile> {
        if self.old.len() > self.wanted { self.old.pop() } else { None }
    }

    /// Adds an old file. It needs no new blocks, so a segment can be made although the disk is full.
    pub(crate) fn add_old(&mut self, old: UsedFile) {
        self.old.push(old);
        self.may_try = true;
    }

    /// Whether the reserve is complete, and the next segment can be taken at once.
    pub(crate) fn is_complete(&self, newest: Option<u32>) -> bool {
        self.ready.len() >= self.wanted && self.has_next(newest)
    }

    /// Bytes of records that the reserve has room for.
    fn reserve_bytes(&self) -> u64 {
        record_bytes(self.factory.segment_bytes) * (self.wanted as u64 - 1)
    }

    /// Whether it is not space that they cannot be made for, but the number of open files.
    pub(crate) fn lacks_descriptors(&self) -> bool {
        self.has_failed && self.lacks_descriptors
    }

    /// Whether there is space for more than what frees space.
    pub(crate) fn space(&self) -> Space {
        match self.has_failed || self.lacks_free_bytes() {
            true if self.lacks_descriptors() => Space::OutOfDescriptors,
            true => Space::Low,
            false => Space::Ok,
        }
    }

    /// Walks the ready segments: numbers ascend, and no old file is listed twice.
    pub(crate) fn check_all(&self) {
        let numbers = self.ready.iter().map(|ready| ready.file.number);
        assert!(numbers.is_sorted_by(|one, next| one < next), "numbers ascend");
        assert!(self.may_try || self.has_failed, "only a failure keeps segments from being made");
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
        preallocated.take(newest, 0).map(|ready| ready.file.number)
    }

    fn old_path(preallocated: &mut PreallocatedSegments) -> Option<PathBuf> {
        preallocated.old.pop().map(|old| old.path)
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
        assert_eq!(segments.space(), Space::Ok);
        let failed = segments.prepared(job.run(), None);
        assert!(matches!(failed, Err(JobError::Io { action: "allocate", .. })));
        assert!(segments.space() == Space::Low && segments.next_job().is_none());
        segments.retry();
        assert_eq!(segments.space(), Space::Low, "an attempt is not a success");
        prepare(&mut segments, None);
        assert_eq!(segments.space(), Space::Ok);
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
