//! What takes long and may not hold up the deciding thread: jobs, and what became of them.

use std::collections::VecDeque;

use bytes::Bytes;
use log::{BackgroundDone, BackgroundJob, CheckpointDone, CheckpointWriter, LogId, ReadError, ReadJob};
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
            if let Err(error) = self.writer.write(&chunk) {
                return self.writer.abandon(error);
            }
        }
    }
}
