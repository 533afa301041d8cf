//! The owner's side of the log: one thread plans, other threads do the I/O.
//!
//! [`Log`] does no I/O after it was opened, so its owner never waits for a disk. Methods return jobs, other threads run
//! them, and their results come back to the owner:
//!
//! ```text
//!   what                     plan                     run (any other thread)        take the result
//!   entries, hard state      append, seal, roll_over  WriteJob::run_all (in order)  complete
//!   files                    next_job                 BackgroundJob::run            background_done
//!   checkpoint               begin_checkpoint         CheckpointWriter              checkpoint_done
//!   relocation, repair       relocate, ..             Relocation::run               relocated, relocation_switched
//!   snapshot from a peer     begin_install            SnapshotInstaller             install_done, install_switched
//!   reading entries          read_entries             ReadJob::run                  (nothing changes)
//!   repair of an entry       repair_entry             EntryRepairJob::run           (nothing changes)
//! ```
//!
//! Each concern is a component with its own state. This file composes them; no component knows `Log`.

mod checkpoint_files;
mod memory;
mod relocation;

pub use memory::LogMemory;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::background::{BackgroundDone, BackgroundJob, BackgroundOutcome, BackgroundWork};
use crate::checkpoint::{
    Checkpoint, CheckpointDone, CheckpointKind, CheckpointWriter, Checkpoints, InstallDone,
    SnapshotInstaller, SnapshotInstalls,
};
use crate::disk::{Disk, LockGuard};
use crate::entry_index::EntryIndex;
use crate::error::{Fatal, JobError, OpenError, ReadError};
use crate::options::Options;
use crate::read::{Entries, EntryCursor, Pin, ReadJob, Reader, ReferenceCounts, SharedFiles};
use crate::recovery::{self, LogParts, Recovered};
use crate::relocation::Relocations;
use crate::segments::{
    FileRetirement, PreallocatedSegments, RecordSizes, SegmentChain, SegmentFactory, Space, WalDirMoves,
};
use crate::types::{Entry, HardState, Identity, LogId};
use crate::write::{Append, Completed, EntryRepairJob, WriteDone, WriteJob, WritePlanner};

/// The log. See the head of the module, and [`Log::open`].
pub struct Log {
    /// Files, caches and pins, which readers and jobs share.
    shared: Arc<SharedFiles>,
    factory: SegmentFactory,
    /// Raft index -> log address.
    index: EntryIndex,
    /// The end of the log: planned and durable positions.
    writes: WritePlanner,
    /// The segments of the log, in order.
    chain: SegmentChain,
    /// The next segment and the reserve.
    preallocated: PreallocatedSegments,
    /// Files on their way out.
    retirement: FileRetirement,
    /// Moves out of a separate WAL directory.
    wal_dir: WalDirMoves,
    checkpoints: Checkpoints,
    relocations: Relocations,
    installs: SnapshotInstalls,
    _lock: Box<dyn LockGuard>,
}

/// An opened log.
pub struct Opened {
    /// The owner's side.
    pub log: Log,
    /// The readers' side.
    pub reader: Reader,
    /// What was found.
    pub recovered: Recovered,
}

/// Creating and opening.
impl Log {
    /// Whether a data directory holds a log. One that belongs to etcd is an error.
    pub fn exists(disk: &dyn Disk, options: &Options) -> Result<bool, OpenError> {
        recovery::exists(disk, options)
    }

    /// Whether a data directory holds a log with a checkpoint. One without was begun by a start that did not end.
    pub fn has_checkpoint(disk: &dyn Disk, options: &Options) -> Result<bool, OpenError> {
        recovery::has_checkpoint(disk, options)
    }

    /// Creates an empty log, durably. After a crash, it can be called again.
    pub fn create(disk: &Arc<dyn Disk>, options: &Options, identity: Identity) -> Result<(), OpenError> {
        recovery::create(disk, options, identity)
    }

    /// Opens a log: finds its end, cuts off a torn write, refuses corruption.
    pub fn open(disk: &Arc<dyn Disk>, options: &Options) -> Result<Opened, OpenError> {
        let parts = recovery::open(disk, options)?;
        let LogParts { shared, factory, numbers, index, recovered, .. } = parts;
        let layout = || factory.layout.clone();
        let log = Log {
            writes: WritePlanner::new(shared.clone(), parts.salt, recovered.hard_state, parts.end),
            index,
            chain: parts.chain,
            preallocated: parts.preallocated,
            retirement: FileRetirement::new(shared.clone(), layout()),
            wal_dir: WalDirMoves::new(shared.clone(), factory.clone(), options.wal_dir_bytes),
            checkpoints: parts.checkpoints,
            relocations: Relocations::new(shared.clone(), factory.clone(), numbers.clone()),
            installs: SnapshotInstalls::new(shared.clone(), factory.clone(), numbers),
            shared: shared.clone(),
            factory,
            _lock: parts.lock,
        };
        log.check();
        Ok(Opened { log, reader: Reader::new(shared), recovered })
    }

    /// To be called once, when the checkpoint is loaded, its references are retained and the entries after it are
    /// replayed. Frees files that nothing ever referenced.
    ///
    /// # Errors
    /// [`OpenError::MissingFiles`] if files are referenced that do not exist.
    pub fn loaded(&mut self) -> Result<(), OpenError> {
        let needed = self.needed_segments();
        self.retirement.add_orphans(&needed)?;
        self.retire_unreferenced();
        Ok(())
    }
}

/// Writing.
impl Log {
    /// Whether records of these sizes can be appended now, and an n-th of the reserve kept (`kept`). If not, the next
    /// background jobs make what they need, if there is space: ask again when one is done. What is asked next must
    /// count what was not appended yet.
    pub fn make_room(&mut self, sizes: &RecordSizes, kept: Option<u64>) -> bool {
        self.preallocated.make_room(sizes, kept, self.writes.active_room(), self.chain.newest_number())
    }

    /// Plans a new hard state and entries, for which [there is room](Log::make_room). The entries must be without
    /// holes, and begin directly after the last entry or before it; in the latter case they replace all entries from
    /// there on. Truncated or installed entries cannot be replaced.
    pub fn append(&mut self, hard_state: Option<HardState>, entries: Vec<Entry>) -> Append {
        let Log { writes, index, chain, preallocated, .. } = self;
        writes.append(hard_state, entries, index, chain, preallocated)
    }

    /// Takes the result of write jobs. After an error nothing may be appended any more: stop the process.
    pub fn complete(&mut self, done: WriteDone) -> Result<Completed, Fatal> {
        self.writes.complete(done)
    }

    /// Whether the log is idle and its last records are not yet proved durable by a later one. Seal it within
    /// [`crate::SEAL_AFTER`]: then recovery cannot take damage in these records for a torn write.
    pub fn is_seal_due(&self) -> bool {
        self.writes.is_seal_due()
    }

    /// Plans a seal, which must be [due](Log::is_seal_due). `None` if nothing was appended since the log was opened.
    pub fn seal(&mut self) -> Option<WriteJob> {
        assert!(self.is_seal_due(), "only an idle log whose end is not proved is sealed");
        self.writes.seal()
    }

    /// Ends the active segment early, so that its values can be relocated, or it can be freed. It costs a preallocated
    /// segment, so it is for callers that ask for space. Does nothing if the segment holds no entry or
    /// [`Log::can_roll_over`] is false.
    pub fn roll_over(&mut self) -> Option<Append> {
        let last = self.chain.newest()?;
        let is_used = self.writes.active_number().is_some() && last.previous_index < self.last_index();
        (is_used && self.can_roll_over()).then(|| self.begin_segment(self.hard_state()))
    }

    /// Whether the next segment and the whole reserve are preallocated. While [`Log::space`] is `Ok`, they soon are.
    pub fn can_roll_over(&self) -> bool {
        self.preallocated.is_complete(self.chain.newest_number())
    }

    /// Whether [`Log::install_done`] can begin a segment now; if not, ask again after the next background job.
    pub fn can_begin_segment(&self) -> bool {
        self.preallocated.has_next(self.chain.newest_number())
    }

    fn begin_segment(&mut self, hard_state: HardState) -> Append {
        let last = self.index.last();
        self.writes.begin_segment(hard_state, last, &mut self.chain, &mut self.preallocated)
    }

    /// The newest hard state, durable or planned.
    pub fn hard_state(&self) -> HardState {
        self.writes.hard_state()
    }

    /// End of what is durable.
    pub fn durable_position(&self) -> u64 {
        self.writes.durable()
    }

    /// End of what is planned.
    pub fn position(&self) -> u64 {
        self.writes.position()
    }
}

/// Entries.
impl Log {
    /// Index of the first entry raft may ask for; one above the last entry if there is none.
    pub fn first_index(&self) -> u64 {
        self.index.first()
    }

    /// Index of the last entry, durable or planned.
    pub fn last_index(&self) -> u64 {
        self.index.last().index
    }

    /// Index of the entry before the last ones: at most `count` of them, with at most `max_bytes` of payload together.
    /// The time it takes grows with `count`.
    pub fn index_before_last(&self, count: u64, max_bytes: u64) -> u64 {
        self.index.index_before_last(count, max_bytes)
    }

    /// The term of an entry between `first_index() - 1` and `last_index()`.
    pub fn term(&self, index: u64) -> Option<u64> {
        self.index.term(index)
    }

    /// Log address of the payload of an entry.
    pub fn address(&self, index: u64) -> Option<u64> {
        self.index.address(index).map(|(address, _)| address)
    }

    /// Reads entries `from..to`, at most `max_bytes` of payload but at least one entry. Run the job off the owner's
    /// thread unless the entries are recent.
    pub fn read_entries(&self, from: u64, to: u64, max_bytes: u64) -> Result<ReadJob, ReadError> {
        let entries = self.index.entries(from, to, max_bytes)?;
        Ok(ReadJob::new(self.cursor(), entries, Pin::new(&self.shared)))
    }

    /// Reads all entries from an index on, at the start of the process: what the checkpoint does not hold.
    pub fn entries_from(&self, from: u64) -> Entries {
        Entries::new(self.cursor(), self.index.entries_from(from))
    }

    fn cursor(&self) -> EntryCursor {
        EntryCursor::new(self.shared.clone(), self.writes.salt(), self.writes.durable())
    }

    /// Forgets the entries up to an index: raft will not ask for them again. Their files are freed when no value in
    /// them is referenced and a checkpoint makes them unnecessary.
    pub fn truncate_to(&mut self, index: u64) {
        self.index.cut_below(index);
        self.retire_unreferenced();
    }

    /// Plans to write an entry over its damaged record. The entry must be the same: index, term and length.
    pub fn repair_entry(&self, entry: Entry) -> Result<EntryRepairJob, JobError> {
        let (durable, moving) = (self.writes.durable(), self.wal_dir.moving());
        EntryRepairJob::plan(entry, &self.index, durable, moving, self.writes.salt(), &self.shared)
    }
}

/// Files.
impl Log {
    /// The owner of the data directory.
    pub fn identity(&self) -> Identity {
        self.factory.identity
    }

    /// A handle for reading values, from any thread.
    pub fn reader(&self) -> Reader {
        Reader::new(self.shared.clone())
    }

    /// Whether there is space for more than what frees space.
    pub fn space(&self) -> Space {
        self.preallocated.space()
    }

    /// Looks again whether there is space. To be called periodically while [`Log::space`] is not `Ok`.
    pub fn retry_space(&mut self) {
        if self.preallocated.lacks_descriptors() {
            self.shared.files.close_older_half();
        }
        self.may_have_space();
    }

    /// What failed for want of space may be tried again.
    fn may_have_space(&mut self) {
        self.preallocated.retry();
        self.wal_dir.retry();
    }

    /// The next background job, if there is one.
    pub fn next_job(&mut self) -> Option<BackgroundJob> {
        self.retire_unreferenced();
        self.retirement.release_retired(&mut self.preallocated);
        let prepare = self.preallocated.next_job().map(BackgroundWork::Prepare);
        let next = prepare.or_else(|| self.next_removal()).or_else(|| self.next_move());
        next.or_else(|| self.next_space_job()).map(BackgroundJob)
    }

    fn next_space_job(&mut self) -> Option<BackgroundWork> {
        let measures = self.preallocated.take_measurement();
        let reserve = if self.space() == Space::Ok { self.checkpoints.next_reserve() } else { None };
        let measure = measures.then(|| BackgroundWork::Measure(self.factory.clone()));
        reserve.map(BackgroundWork::Reserve).or(measure)
    }

    fn next_removal(&mut self) -> Option<BackgroundWork> {
        let retired = self.retirement.take_removable();
        let path = retired.or_else(|| Some(self.preallocated.take_surplus()?.path))?;
        Some(BackgroundWork::Remove { disk: self.factory.disk.clone(), path })
    }

    fn next_move(&mut self) -> Option<BackgroundWork> {
        let (active, durable) = (self.writes.active_number(), self.writes.durable());
        let (is_idle, is_low) = (self.wal_dir.is_idle(), self.space() == Space::Low);
        let next = if is_idle { self.wal_dir.next_move(&self.chain, active, durable, is_low) } else { None };
        next.map(BackgroundWork::Move)
    }

    /// Takes the result of a background job. After an error the log works; the job is retried, or its files are removed
    /// when the log is next opened.
    pub fn background_done(&mut self, done: BackgroundDone) -> Result<(), JobError> {
        match done.0 {
            BackgroundOutcome::Prepared(done) => self.preallocated.prepared(done, self.chain.newest_number()),
            BackgroundOutcome::Removed { path, result } => {
                self.may_have_space();
                result.map_err(JobError::io("remove", &path))
            }
            BackgroundOutcome::Measured(free_bytes) => {
                self.preallocated.measured(free_bytes);
                Ok(())
            }
            BackgroundOutcome::Reserved(done) => self.checkpoints.reserved(done),
            BackgroundOutcome::Moved(done) => {
                let (file, old_path) = self.wal_dir.moved(done)?;
                self.retirement.retire(file, old_path);
                Ok(())
            }
        }
    }

    /// Whether the next open would read this file as a whole, and refuse it for damage.
    pub fn is_replayed(&self, file: u32) -> bool {
        self.chain.replayed_after(self.checkpoints.newest_index()).contains(&file)
    }

    /// Bytes in files that could be freed if a checkpoint of the state after `applied` were made now and entries up to
    /// `forgotten` were truncated.
    pub fn reclaimable_bytes(&self, applied: u64, forgotten: u64) -> u64 {
        let settled = applied.min(forgotten.max(self.index.base().index));
        let needed = self.chain.needed_after(settled, self.writes.durable());
        let free = self.without_references(applied).into_iter();
        let files = free.filter(|number| !needed.contains(number));
        let files = files.filter_map(|number| self.shared.files.get(number));
        files.filter(|file| !self.retirement.is_retired(file)).map(|file| file.recorded()).sum()
    }

    /// Bytes of the segments that hold the entries after `index`: what it takes on disk to keep these entries.
    pub fn bytes_after(&self, index: u64) -> u64 {
        let segments = self.chain.replayed_after(index).into_iter();
        let files = segments.filter_map(|number| self.shared.files.get(number));
        files.map(|file| file.recorded()).sum()
    }

    /// Segments that recovery would replay, that raft may ask for, or that alone carry the hard state.
    fn needed_segments(&self) -> BTreeSet<u32> {
        let settled = self.checkpoints.newest_index().min(self.index.base().index);
        self.chain.needed_after(settled, self.writes.durable())
    }

    /// Files in which nothing is referenced now, and nothing will be, because every entry in them is applied.
    fn without_references(&self, applied: u64) -> Vec<u32> {
        let unapplied = self.chain.replayed_after(applied);
        self.shared.files.without_references(|file| unapplied.contains(&file) || self.is_unswitched(file))
    }

    /// Whether the store has still to switch to the addresses in this file.
    fn is_unswitched(&self, file: u32) -> bool {
        self.relocations.is_unswitched(file) || self.installs.is_unswitched(file)
    }

    fn retire_unreferenced(&mut self) {
        if self.retirement.has_unreferenced() {
            let needed = self.needed_segments();
            self.retirement.retire_unreferenced(&needed, self.wal_dir.moving(), &mut self.chain);
        }
    }
}

/// Checkpoints and snapshots.
impl Log {
    /// Begins a checkpoint of the state after applying `id`, without I/O. The references in it must be those that are
    /// retained now, or newer ones: files that nothing references now are freed when it is done.
    pub fn begin_checkpoint(&mut self, kind: CheckpointKind, id: LogId) -> CheckpointWriter {
        let unreferenced = self.without_references(id.index);
        self.checkpoints.begin(kind, id, unreferenced)
    }

    /// Takes the result of a checkpoint. If it failed, the previous one is still valid.
    pub fn checkpoint_done(&mut self, done: CheckpointDone) -> Result<(), JobError> {
        let unreferenced = self.adopt_checkpoint(done)?;
        self.retirement.add_unreferenced(unreferenced);
        self.retire_unreferenced();
        Ok(())
    }

    /// Takes a durable checkpoint and returns the files without a reference when it began.
    fn adopt_checkpoint(&mut self, done: CheckpointDone) -> Result<Vec<u32>, JobError> {
        let effects = self.checkpoints.done(done);
        self.retirement.add_removable(effects.removable);
        effects.result
    }

    /// Begins to write one checkpoint in place of some that follow each other, given by their positions in the chain,
    /// without I/O; it must come to the same state as they do. Returns them, too, for reading.
    ///
    /// # Panics
    /// If there are none at these positions.
    pub fn begin_checkpoint_merge(&mut self, merged: Range<usize>) -> (CheckpointWriter, Checkpoint) {
        self.checkpoints.begin_merge(merged)
    }

    /// Begins to receive the snapshot of the state after applying `id`, without I/O.
    pub fn begin_install(&mut self, id: LogId) -> SnapshotInstaller {
        let checkpoint = self.begin_checkpoint(CheckpointKind::Base, id);
        self.installs.begin(id, checkpoint)
    }

    /// Takes the result of an installation, when [a segment can be begun](Log::can_begin_segment). The log is then
    /// empty after the snapshot's entry, and a new segment with this hard state is planned, whose job must be run like
    /// any other. If the installation failed, nothing has changed. The owner then switches to the state of the snapshot
    /// and calls [`Log::install_switched`].
    pub fn install_done(&mut self, done: InstallDone, hard_state: HardState) -> Result<Append, JobError> {
        let InstallDone { id, files, checkpoint } = done;
        self.adopt_checkpoint(checkpoint)?;
        assert!(hard_state.commit >= id.index, "what a snapshot holds is committed");
        self.installs.add(&files);
        self.index = EntryIndex::new(id);
        Ok(self.begin_segment(hard_state))
    }

    /// The owner's state is that of the installed snapshot: from now on `references` are the only ones, and files
    /// without any are freed. Takes time in proportion to the files, not to the values.
    pub fn install_switched(&mut self, references: &ReferenceCounts) {
        self.shared.files.replace_references(references);
        self.installs.switched();
        let unreferenced = self.without_references(self.index.base().index);
        self.retirement.add_unreferenced(unreferenced);
        self.retire_unreferenced();
    }
}

/// Invariants.
impl Log {
    /// Checks the cheap invariants: a few comparisons. The owner calls it at the end of each step.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check(&self) {
        self.writes.check(self.chain.newest_number());
        self.index.check(self.writes.position());
        assert!(self.checkpoints.newest_index() <= self.last_index(), "the log reaches to its checkpoint");
        let (moving, active) = (self.wal_dir.moving(), self.writes.active_number());
        assert!(moving.is_none() || moving != active, "the segment being written is not moved");
    }

    /// Checks all invariants, and walks the index and the files. For tests and the simulator; references must not
    /// change meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_all(&self) {
        self.check();
        self.shared.files.check_all();
        self.shared.tail.read().check_all();
        self.chain.check_all();
        self.preallocated.check_all();
        self.retirement.check_all();
        self.checkpoints.check_all();
        let segments: BTreeSet<u32> = self.chain.iter().map(|segment| segment.number).collect();
        self.index.check_all(|file| segments.contains(&file));
        let is_known = |number: &u32| self.shared.files.get(*number).is_some();
        assert!(segments.iter().all(is_known), "every segment of the log is a known file");
    }
}
