//! Installs a snapshot that a peer sent: values into data segments, the state into a base checkpoint.
//!
//! ```text
//!   1. values      checked and written to data segments, each synced and named
//!   2. chunks      the base checkpoint, with the addresses of step 1, synced
//!   3. manifest    replaced: the commit point
//!   4. log         a new segment carries the hard state; its previous entry is the snapshot's
//!   5. switch      the store takes over the state, and its references are the only ones
//! ```
//!
//! A crash before step 3 leaves files that nothing references; the next open frees them. After step 3, recovery finds
//! the checkpoint and discards a log that lacks its entry.
//!
//! Steps 1 and 2 need space for the whole snapshot, and the sender still waits: if the disk is full, the snapshot has
//! failed and nothing has happened. Step 3 comes when consensus has decided and cannot take it back, so it fails for
//! want of space only until there is some: it needs a block, and the reserve of checkpoints is given up for it.

use std::sync::Arc;

use super::writer::{CheckpointDone, CheckpointWriter};
use crate::error::JobError;
use crate::read::SharedFiles;
use crate::relocation::{DataSegment, DataSegmentSeries};
use crate::segments::{FileNumbers, SegmentFactory};
use crate::types::{LogId, StoredValue};

/// Receives a snapshot, off the owner's thread.
pub struct SnapshotInstaller {
    id: LogId,
    values: DataSegmentSeries,
    checkpoint: CheckpointWriter,
    is_durable: bool,
}

/// An installation that could not be committed for want of space or descriptors. Nothing has changed; its
/// [`SnapshotInstaller::commit`] can be called again.
pub struct InstallWaiting {
    /// What to commit.
    pub installer: Box<SnapshotInstaller>,
    /// What it lacked.
    pub error: JobError,
}

/// The result of an installation, for [`crate::Log::install_done`].
#[must_use = "the owner needs the result"]
pub struct InstallDone {
    pub(crate) id: LogId,
    pub(crate) files: Vec<DataSegment>,
    pub(crate) checkpoint: CheckpointDone,
}

impl InstallDone {
    /// Whether it succeeded, for one whose log is closed next: the open that follows finds what was installed.
    ///
    /// # Errors
    /// Why it failed.
    pub fn result(self) -> Result<(), JobError> {
        self.checkpoint.result.map(drop)
    }
}

/// Begins installations and keeps their new files until the store has switched.
pub(crate) struct SnapshotInstalls {
    shared: Arc<SharedFiles>,
    factory: SegmentFactory,
    numbers: FileNumbers,
    /// Data segments of an installed snapshot that the store does not refer to yet.
    unswitched: Vec<u32>,
}

impl SnapshotInstalls {
    pub(crate) fn new(
        shared: Arc<SharedFiles>,
        factory: SegmentFactory,
        numbers: FileNumbers,
    ) -> SnapshotInstalls {
        SnapshotInstalls { shared, factory, numbers, unswitched: Vec::new() }
    }

    /// Begins to receive the snapshot after `id`, whose state goes to `checkpoint`.
    pub(crate) fn begin(&self, id: LogId, checkpoint: CheckpointWriter) -> SnapshotInstaller {
        let values = DataSegmentSeries::new(&self.factory, &self.numbers);
        SnapshotInstaller { id, values, checkpoint, is_durable: false }
    }

    /// Adds the data segments of an installation that is committed.
    pub(crate) fn add(&mut self, files: &[DataSegment]) {
        for file in files {
            self.shared.files.insert_written(file.number, &file.path, file.bytes, file.footer_bytes);
            self.unswitched.push(file.number);
        }
    }

    /// The store has switched to the installed state.
    pub(crate) fn switched(&mut self) {
        self.unswitched.clear();
    }

    /// Whether the store has still to switch to a file, which must be kept although nothing in it is referenced.
    pub(crate) fn is_unswitched(&self, file: u32) -> bool {
        self.unswitched.contains(&file)
    }
}

impl SnapshotInstaller {
    /// Writes a value, after checking it, and returns its log address.
    pub fn write_value(&mut self, value: &[u8], checksum: u32) -> Result<u64, JobError> {
        if crc32c::crc32c(value) != checksum {
            return Err(JobError::Mismatch("a value of a snapshot".to_owned()));
        }
        self.values.push(value, checksum)
    }

    /// Reads a value back, or a part of one that has a checksum of its own.
    ///
    /// # Errors
    /// It was not written here, or it cannot be read.
    pub fn read_value(&mut self, value: StoredValue) -> Result<Vec<u8>, JobError> {
        self.values.read_back(value)
    }

    /// Writes a chunk of the checkpoint, with the addresses that [`SnapshotInstaller::write_value`] returned.
    pub fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), JobError> {
        self.checkpoint.write(chunk)
    }

    /// Makes everything durable, after the last value and the last chunk. Nothing is committed yet.
    ///
    /// # Errors
    /// A file could not be written: the installer can only be abandoned.
    pub fn make_durable(&mut self) -> Result<(), JobError> {
        self.values.finish_current()?;
        self.checkpoint.make_durable()?;
        self.is_durable = true;
        Ok(())
    }

    /// Commits what [is durable](Self::make_durable).
    ///
    /// # Errors
    /// [`InstallWaiting`] while there is no space for the new manifest.
    ///
    /// # Panics
    /// If it was not made durable.
    pub fn commit(mut self: Box<Self>) -> Result<InstallDone, InstallWaiting> {
        assert!(self.is_durable, "what the manifest names is durable");
        let committed = match self.checkpoint.commit() {
            Err(failure) if failure.is_transient() => {
                return Err(InstallWaiting { installer: self, error: failure.error });
            }
            committed => committed,
        };
        let SnapshotInstaller { id, mut values, checkpoint, .. } = *self;
        let checkpoint = checkpoint.ended(committed);
        // If the manifest on disk may name the checkpoint, the values must stay.
        if checkpoint.is_not_committed() {
            values.discard();
        }
        let files = values.finished().to_vec();
        Ok(InstallDone { id, files, checkpoint })
    }

    /// Abandons the installation and removes its files.
    pub fn abandon(mut self, cause: JobError) -> InstallDone {
        self.values.discard();
        InstallDone { id: self.id, files: Vec::new(), checkpoint: self.checkpoint.abandon(cause) }
    }
}
