//! Installing a snapshot that a peer sent: values into data segments, the state into a base checkpoint.
//!
//! Data segments are durable before the checkpoint that references them; replacing the manifest is the commit
//! point. A crash before it leaves files that nothing references, which the next open frees; after it,
//! recovery finds the checkpoint and discards a log that lacks its entry. Then a new segment carries the hard
//! state.

use crate::append::Append;
use crate::checkpoint::{CheckpointDone, CheckpointKind, CheckpointWriter};
use crate::data_segment::DataFile;
use crate::error::JobError;
use crate::index::EntryIndex;
use crate::log::Log;
use crate::relocate::DataWriters;
use crate::types::{HardState, LogId};

/// Receives a snapshot, off the owner's thread.
pub struct SnapshotInstaller {
    id: LogId,
    values: DataWriters,
    checkpoint: CheckpointWriter,
}

/// What became of an installation. Goes back to [`Log::install_done`].
#[must_use = "the owner has to learn what became of it"]
pub struct InstallDone {
    id: LogId,
    files: Vec<DataFile>,
    checkpoint: CheckpointDone,
}

impl SnapshotInstaller {
    /// Writes a value, checked, and returns the place it is to be referenced at.
    pub fn write_value(&mut self, value: &[u8], checksum: u32) -> Result<u64, JobError> {
        if crc32c::crc32c(value) != checksum {
            return Err(JobError::Mismatch("a value of a snapshot".to_owned()));
        }
        self.values.push(value)
    }

    /// Writes a chunk of the checkpoint, with the places that [`SnapshotInstaller::write_value`] returned.
    pub fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), JobError> {
        self.checkpoint.write(chunk)
    }

    /// Makes everything durable and commits it.
    pub fn finish(mut self) -> InstallDone {
        let checkpoint = match self.values.finish_current() {
            Ok(()) => self.checkpoint.finish(),
            Err(error) => self.checkpoint.abandon(error),
        };
        // With the commit in doubt the values must stay: the manifest on disk may name them.
        if checkpoint.is_certainly_void() {
            self.values.discard();
        }
        InstallDone { id: self.id, files: self.values.finished().to_vec(), checkpoint }
    }

    /// Gives it up.
    pub fn abandon(mut self, cause: JobError) -> InstallDone {
        self.values.discard();
        InstallDone { id: self.id, files: Vec::new(), checkpoint: self.checkpoint.abandon(cause) }
    }
}

impl Log {
    /// Begins to receive the snapshot of the state after applying `id`, without I/O.
    pub fn begin_install(&mut self, id: LogId) -> SnapshotInstaller {
        let values = DataWriters::new(&self.workshop, &self.numbers);
        SnapshotInstaller { id, values, checkpoint: self.begin_checkpoint(CheckpointKind::Base, id) }
    }

    /// Takes in an installation: the log is empty behind the snapshot's entry, and a new segment with this
    /// hard state is planned. Its job must be written like any other. If the installation failed, all is as
    /// before.
    ///
    /// The owner then loads the checkpoint, retains its references, releases the old ones and calls
    /// [`Log::install_switched`].
    pub fn install_done(&mut self, done: InstallDone, hard_state: HardState) -> Result<Append, JobError> {
        let InstallDone { id, files, checkpoint } = done;
        self.take_checkpoint(checkpoint)?;
        assert!(hard_state.commit >= id.index, "what a snapshot holds is committed");
        for file in &files {
            self.adopt_data_file(file);
            self.installed.push(file.number);
        }
        self.index = EntryIndex::new(id);
        Ok(self.begin_segment(hard_state))
    }

    /// The checkpoint to load after an installation.
    pub fn checkpoint(&self) -> Option<crate::checkpoint::Checkpoint> {
        self.checkpoints.source(&self.workshop)
    }

    /// Says that the references of the installed snapshot are retained and the old ones released: files
    /// without a reference are freed.
    pub fn install_switched(&mut self) {
        for file in std::mem::take(&mut self.installed) {
            self.young.remove(&file);
        }
        self.unreferenced.extend(self.without_references(self.index.base().index));
        self.retire_unreferenced();
    }
}
