//! Background jobs: preparing, moving, removing and reserving files, one small job at a time.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checkpoint::{ReserveDone, ReserveJob};
use crate::disk::Disk;
use crate::segments::{PreparationDone, PreparationJob, SegmentFactory, WalDirMove, WalDirMoveDone};

/// A job for a background thread. Jobs may run in any order, and at the same time.
#[must_use = "the owner counts on it being run"]
pub struct BackgroundJob(pub(crate) BackgroundWork);

pub(crate) enum BackgroundWork {
    Prepare(PreparationJob),
    Remove { disk: Arc<dyn Disk>, path: PathBuf },
    Move(WalDirMove),
    Measure(SegmentFactory),
    Reserve(ReserveJob),
}

/// The result of a background job, for [`crate::Log::background_done`].
#[must_use = "the owner needs the results of its jobs"]
pub struct BackgroundDone(pub(crate) BackgroundOutcome);

pub(crate) enum BackgroundOutcome {
    Prepared(PreparationDone),
    Removed { path: PathBuf, result: io::Result<()> },
    Moved(WalDirMoveDone),
    Measured(io::Result<u64>),
    Reserved(ReserveDone),
}

impl BackgroundJob {
    /// Runs the job.
    pub fn run(self) -> BackgroundDone {
        BackgroundDone(match self.0 {
            BackgroundWork::Prepare(job) => BackgroundOutcome::Prepared(job.run()),
            BackgroundWork::Remove { disk, path } => {
                let result = match disk.remove(&path) {
                    // A checkpoint abandoned before its first write has no file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    other => other,
                };
                BackgroundOutcome::Removed { path, result }
            }
            BackgroundWork::Measure(factory) => BackgroundOutcome::Measured(factory.free_bytes()),
            BackgroundWork::Reserve(job) => BackgroundOutcome::Reserved(job.run()),
            BackgroundWork::Move(job) => BackgroundOutcome::Moved(job.run()),
        })
    }
}
