//! What takes long and may not hold up the deciding thread: jobs, and what became of them.

use std::collections::VecDeque;

use bytes::Bytes;
use log::{
    BackgroundDone, BackgroundJob, CHUNK_BYTES_MAX, CheckpointDone, CheckpointWriter, InstallDone, JobError, LogId,
    ReadError, ReadJob, SnapshotInstaller,
};
use store::CheckpointSource;

/// A job for the background thread. Jobs may run in any order.
pub enum Job {
    /// Files of the log: prepare, zero, move, remove.
    Log(BackgroundJob),
    /// Write a checkpoint.
    Checkpoint(Box<CheckpointJob>),
    /// Read entries for a peer that lags behind memory.
    ReadEntries {
        /// The first index asked for.
        from: u64,
        /// The read.
        job: ReadJob,
    },
    /// Commit a snapshot that was received.
    Install(SnapshotInstaller),
    /// Give up what was received of a snapshot.
    AbandonInstall(SnapshotInstaller),
}

/// What became of a [`Job`].
pub enum Done {
    /// See [`Job::Log`].
    Log(BackgroundDone),
    /// See [`Job::Checkpoint`].
    Checkpoint {
        /// The entry it is of.
        id: LogId,
        /// How it went.
        done: CheckpointDone,
    },
    /// See [`Job::ReadEntries`].
    ReadEntries {
        /// The first index asked for.
        from: u64,
        /// The entries.
        entries: Result<Vec<log::Entry>, ReadError>,
    },
    /// See [`Job::Install`].
    Installed(InstallDone),
    /// See [`Job::AbandonInstall`].
    InstallAbandoned(InstallDone),
}

/// A checkpoint on its way to disk: the member's own chunk, then the store's.
pub struct CheckpointJob {
    pub(crate) id: LogId,
    pub(crate) writer: CheckpointWriter,
    pub(crate) head: Bytes,
    pub(crate) source: CheckpointSource,
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Done::Log(_) => "Log",
            Done::Checkpoint { .. } => "Checkpoint",
            Done::ReadEntries { .. } => "ReadEntries",
            Done::Installed(_) => "Installed",
            Done::InstallAbandoned(_) => "InstallAbandoned",
        })
    }
}

impl Job {
    /// Does it; blocks.
    pub fn run(self) -> Done {
        match self {
            Job::Log(job) => Done::Log(job.run()),
            Job::Checkpoint(job) => Done::Checkpoint { id: job.id, done: job.write() },
            Job::ReadEntries { from, job } => Done::ReadEntries { from, entries: job.run() },
            Job::Install(installer) => Done::Installed(installer.finish()),
            Job::AbandonInstall(installer) => {
                Done::InstallAbandoned(installer.abandon(JobError::Superseded))
            }
        }
    }
}

impl CheckpointJob {
    pub(crate) fn write(mut self) -> CheckpointDone {
        let mut chunks = VecDeque::from([self.head.clone()]);
        loop {
            let Some(chunk) = chunks.pop_front().or_else(|| self.source.next()) else {
                return self.writer.finish();
            };
            // The history of one key may be longer than a chunk of a file; the store puts it together again.
            for piece in chunk.chunks(CHUNK_BYTES_MAX) {
                if let Err(error) = self.writer.write(piece) {
                    return self.writer.abandon(error);
                }
            }
        }
    }
}
