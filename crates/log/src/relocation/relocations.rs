//! Which files are worth a relocation, and the data segments whose addresses the store has not switched to yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::data_segment::DataSegmentWriter;
use super::job::{CopiedValues, Relocation, RelocationDone, RelocationSource};
use crate::error::{JobError, ReadError};
use crate::format::HEADER_BYTES;
use crate::read::SharedFiles;
use crate::segments::{FileNumbers, SegmentFactory};
use crate::types::StoredValue;

/// A file is worth relocating when at most this share (percent) of it is live: a quarter is written again, and three
/// quarters become free.
const MAX_LIVE_PERCENT: u64 = 25;
/// The same after the `Defragment` call, which asks for all space that can be freed.
const MAX_LIVE_PERCENT_EAGER: u64 = 90;

/// A file whose live values should be relocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number: the values are those whose address lies in it, see [`crate::file_of`].
    pub file: u32,
    /// Bytes referenced in it.
    pub live_bytes: u64,
    /// Bytes it holds.
    pub file_bytes: u64,
}

/// The new addresses of relocated values.
#[derive(Debug)]
pub struct Relocated {
    /// The new data segment, for [`crate::Log::relocation_switched`]; none if no value could be copied.
    pub file: Option<u32>,
    /// The new address of each value in the order of the request, or why it could not be copied: a damaged value stays
    /// where it is until it is repaired.
    pub addresses: Vec<Result<u64, ReadError>>,
}

/// Plans relocations and keeps their new files until the store has switched.
pub(crate) struct Relocations {
    shared: Arc<SharedFiles>,
    factory: SegmentFactory,
    numbers: FileNumbers,
    /// New data segments that the store does not refer to yet.
    unswitched: BTreeSet<u32>,
}

impl Relocations {
    pub(crate) fn new(
        shared: Arc<SharedFiles>,
        factory: SegmentFactory,
        numbers: FileNumbers,
    ) -> Relocations {
        Relocations { shared, factory, numbers, unswitched: BTreeSet::new() }
    }

    /// Files worth a relocation, the emptiest first, without the `excepted` ones. With `eager`, nearly every file that
    /// would shrink.
    pub(crate) fn candidates(&self, eager: bool, excepted: impl Fn(u32) -> bool) -> Vec<Candidate> {
        let percent = if eager { MAX_LIVE_PERCENT_EAGER } else { MAX_LIVE_PERCENT };
        let files = self.shared.files.all().into_iter();
        let mut candidates: Vec<Candidate> = files
            .filter(|file| !excepted(file.number))
            .map(|file| Candidate { file: file.number, live_bytes: file.live(), file_bytes: file.recorded() })
            // The copy has a header too. If it were counted, a file of few bytes would be copied forever.
            .filter(|file| {
                let bytes = file.file_bytes.saturating_sub(HEADER_BYTES);
                file.live_bytes > 0 && file.live_bytes * 100 <= bytes * percent
            })
            .collect();
        candidates.sort_by_key(|file| (file.live_bytes, file.file));
        candidates
    }

    /// Plans to copy values of this log.
    pub(crate) fn relocate(&self, values: Vec<StoredValue>) -> Relocation {
        self.plan(RelocationSource::Stored(values))
    }

    /// Plans to write values that a peer sent, each with its checksum.
    pub(crate) fn write_received(&self, values: Vec<(Bytes, u32)>) -> Relocation {
        self.plan(RelocationSource::Received(values))
    }

    fn plan(&self, source: RelocationSource) -> Relocation {
        let writer = DataSegmentWriter::new(&self.factory, self.numbers.next());
        Relocation::new(&self.shared, writer, source)
    }

    /// Takes the result of a relocation.
    pub(crate) fn relocated(&mut self, done: RelocationDone) -> Result<Relocated, JobError> {
        let CopiedValues { file, addresses } = done.result?;
        if let Some(file) = &file {
            self.shared.files.insert_written(file.number, &file.path, file.bytes);
            self.unswitched.insert(file.number);
        }
        Ok(Relocated { file: file.map(|file| file.number), addresses })
    }

    /// The store has switched to the new addresses in this file.
    pub(crate) fn switched(&mut self, file: u32) {
        self.unswitched.remove(&file);
    }

    /// Whether the store has still to switch to a file, which must be kept although nothing in it is referenced.
    pub(crate) fn is_unswitched(&self, file: u32) -> bool {
        self.unswitched.contains(&file)
    }
}
