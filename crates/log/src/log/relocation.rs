//! The log's part in relocation and in the repair of values: what can be relocated, and new files for copies.

use bytes::Bytes;

use super::Log;
use crate::error::JobError;
use crate::relocation::{Candidate, FileContents, Relocated, Relocation, RelocationDone, RelocationWriter};
use crate::types::StoredValue;

/// Relocation and repair of values.
impl Log {
    /// Files of whose bytes at most `max_live_percent` would be copied by a relocation, the one that gains most first.
    /// A file is offered only if all of it is below the entries that raft needs and the newest checkpoint.
    pub fn relocation_candidates(&self, max_live_percent: u64) -> Vec<Candidate> {
        let needed = self.needed_segments();
        let excepted = |file| needed.contains(&file) || self.is_unswitched(file);
        self.relocations.candidates(max_live_percent, excepted)
    }

    /// The file, if it has live values that could be relocated now.
    pub fn relocatable(&self, file: u32) -> Option<Candidate> {
        let is_excepted = self.needed_segments().contains(&file) || self.is_unswitched(file);
        self.relocations.candidate(file).filter(|_| !is_excepted)
    }

    /// What a file holds, from a [position](FileContents::position) on. `None` if the file does not say.
    pub fn contents(&self, file: u32, position: u64) -> Option<FileContents> {
        self.relocations.contents(file, position, self.writes.salt())
    }

    /// Begins to write values into a new data segment. They should not be more than [`crate::SEGMENT_BYTES`] together,
    /// and must stay well below 4 GiB.
    pub fn begin_relocation(&mut self) -> RelocationWriter {
        self.relocations.begin()
    }

    /// Plans to copy values into a new data segment, in this order, each with the tag that its footer names it by.
    /// Their size is bounded as with [`Log::begin_relocation`].
    pub fn relocate(&mut self, values: Vec<(StoredValue, Bytes)>) -> Relocation {
        self.relocations.relocate(values)
    }

    /// Plans to write values that a peer sent, each with its checksum and tag, in place of damaged ones.
    pub fn write_repaired_values(&mut self, values: Vec<(Bytes, u32, Bytes)>) -> Relocation {
        self.relocations.write_received(values)
    }

    /// Takes the result of a relocation. The new file is kept, referenced or not, until [`Log::relocation_switched`].
    pub fn relocated(&mut self, done: RelocationDone) -> Result<Relocated, JobError> {
        self.relocations.relocated(done)
    }

    /// To be called when the references are switched: retained at the new addresses, released at the old ones.
    pub fn relocation_switched(&mut self, file: u32) {
        self.relocations.switched(file);
    }
}
