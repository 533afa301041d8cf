//! The reserve of checkpoints: a file of no use but its blocks, so that a checkpoint can be written on a full disk.
//!
//! Files are freed only by a checkpoint that does not refer to them, and a checkpoint needs a file itself. So one as
//! large as [`DELTAS`] of the last delta lies ready, and a checkpoint that begins while less than that is free gives it
//! up. It is made again when there is space.
//!
//! ```text
//!   disk full           checkpoint/RESERVE 16 MiB
//!   a delta of 2 MiB    RESERVE removed; delta and manifest written; 40 files of the log are freed
//!   space again         RESERVE made again
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::JobError;
use crate::segments::SegmentFactory;

/// So many deltas like the last one fit into the reserve: one that deletes much is larger than those before it.
const DELTAS: u64 = 2;

/// The reserve is at least this part of a segment: 16 MiB, the delta of some 200,000 keys.
const MIN_PART_OF_SEGMENT: u64 = 4;

/// The owner's view of the reserve.
pub(crate) struct CheckpointReserve {
    factory: SegmentFactory,
    /// Bytes that it has for certain; 0 if that is not known.
    bytes: u64,
    is_running: bool,
    /// It could not be made; tried again after the next checkpoint.
    has_failed: bool,
    /// A checkpoint failed for want of space: the next one gives the reserve up, however much seems free.
    is_needed: bool,
}

/// Makes the reserve, or lengthens it; runs on a background thread.
pub(crate) struct ReserveJob {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    dir: PathBuf,
    bytes: u64,
}

/// The result of a [`ReserveJob`].
pub(crate) struct ReserveDone {
    path: PathBuf,
    bytes: u64,
    result: io::Result<()>,
}

/// Gives the reserve up for a checkpoint that begins, if it is needed.
pub(crate) struct ReserveUse {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    dir: PathBuf,
    /// While so much is free, it is not needed.
    enough_bytes: u64,
}

impl CheckpointReserve {
    pub(crate) fn new(factory: SegmentFactory) -> CheckpointReserve {
        CheckpointReserve { factory, bytes: 0, is_running: false, has_failed: false, is_needed: false }
    }

    /// Bytes that it should have, after a delta of this length.
    fn wanted(&self, last_delta: u64) -> u64 {
        (last_delta * DELTAS).max(self.factory.segment_bytes / MIN_PART_OF_SEGMENT)
    }

    /// Plans to make the reserve if it is missing, or too small after a delta of this length.
    pub(crate) fn next_job(&mut self, last_delta: u64) -> Option<ReserveJob> {
        let bytes = self.wanted(last_delta);
        if self.bytes >= bytes || self.is_running || self.has_failed {
            return None;
        }
        self.is_running = true;
        let layout = &self.factory.layout;
        let (path, dir) = (layout.checkpoint_reserve(), layout.checkpoint.clone());
        Some(ReserveJob { disk: self.factory.disk.clone(), path, dir, bytes })
    }

    /// Takes the result of a job.
    pub(crate) fn made(&mut self, done: ReserveDone) -> Result<(), JobError> {
        self.is_running = false;
        self.has_failed = done.result.is_err();
        done.result.map_err(JobError::io("reserve", &done.path))?;
        self.bytes = done.bytes;
        Ok(())
    }

    /// For a checkpoint that begins after a delta of this length.
    pub(super) fn lend(&self, last_delta: u64) -> ReserveUse {
        let layout = &self.factory.layout;
        let (path, dir) = (layout.checkpoint_reserve(), layout.checkpoint.clone());
        let enough_bytes = if self.is_needed { u64::MAX } else { self.wanted(last_delta) };
        ReserveUse { disk: self.factory.disk.clone(), path, dir, enough_bytes }
    }

    /// A checkpoint ended. It gave the reserve up (`gave_up`), or failed for want of space (`was_full`), or neither.
    pub(crate) fn checkpoint_ended(&mut self, gave_up: bool, was_full: bool) {
        self.is_needed = was_full;
        self.has_failed = false;
        if gave_up {
            self.bytes = 0;
        }
    }
}

impl ReserveJob {
    pub(crate) fn run(self) -> ReserveDone {
        let result = self.make();
        ReserveDone { path: self.path, bytes: self.bytes, result }
    }

    fn make(&self) -> io::Result<()> {
        let file = match self.disk.exists(&self.path)? {
            true => self.disk.open(&self.path)?,
            false => self.disk.create_new(&self.path)?,
        };
        file.allocate(self.bytes)?;
        file.sync_data()?;
        self.disk.sync_dir(&self.dir)
    }
}

impl ReserveUse {
    /// Gives the reserve up if less than enough is free. Best effort: a checkpoint that does not fit fails, and says
    /// why. Returns whether the reserve is gone.
    pub(super) fn give_up_if_needed(&self) -> bool {
        let is_enough = |free: u64| free >= self.enough_bytes;
        let is_needed = !self.disk.free_bytes(&self.dir).is_ok_and(is_enough);
        is_needed && self.give_up()
    }

    /// Gives the reserve up. Returns whether there was one, and its space is free.
    pub(super) fn give_up(&self) -> bool {
        self.disk.remove(&self.path).is_ok() && self.disk.sync_dir(&self.dir).is_ok()
    }
}

#[cfg(test)]
mod tests {
    //! How large it should be.
    use super::*;
    use crate::testing::Parts;

    #[test]
    fn it_holds_two_deltas_and_a_quarter_of_a_segment_at_least() {
        let parts = Parts::new().expect("an empty disk");
        let reserve = CheckpointReserve::new(SegmentFactory { segment_bytes: 64 << 20, ..parts.factory });
        let mib = |bytes: u64| bytes << 20;
        assert_eq!(
            [0, mib(8), mib(8) + 1].map(|delta| reserve.wanted(delta)),
            [mib(16), mib(16), mib(16) + 2]
        );
    }
}
