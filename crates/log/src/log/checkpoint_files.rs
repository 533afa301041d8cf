//! What the owner asks about the chain of checkpoints on disk.

use super::Log;
use crate::checkpoint::CheckpointFile;
use crate::types::LogId;

impl Log {
    /// Index and term of the newest durable checkpoint.
    pub fn checkpoint_id(&self) -> Option<LogId> {
        self.checkpoints.newest_id()
    }

    /// Bytes of the base and of all deltas.
    pub fn checkpoint_bytes(&self) -> (u64, u64) {
        self.checkpoints.bytes()
    }

    /// Bytes of each checkpoint of the chain, base first.
    pub fn checkpoint_lengths(&self) -> Vec<u64> {
        self.checkpoints.lengths().collect()
    }

    /// Whether the chain has the file of this number.
    pub fn has_checkpoint_file(&self, number: u32) -> bool {
        self.checkpoints.position(number).is_some()
    }

    /// The file that follows the one of this number in the chain, or its first one; `None` at the end, and if the chain
    /// does not have that number.
    pub fn next_checkpoint_file(&self, after: Option<u32>) -> Option<CheckpointFile> {
        match after {
            None => self.checkpoints.file(0),
            Some(number) => self.checkpoints.file(self.checkpoints.position(number)? + 1),
        }
    }
}
