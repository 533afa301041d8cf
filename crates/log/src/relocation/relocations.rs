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

#[cfg(test)]
mod tests {
    //! Which files are worth a relocation, and how long a new file is protected.
    use super::*;
    use crate::disk::{Fault, Operation};
    use crate::testing::Parts;
    use crate::types::{address_at, file_of};

    fn bench() -> (Parts, Relocations) {
        let parts = Parts::new().expect("an empty disk");
        let Parts { shared, factory, numbers, .. } = &parts;
        let relocations = Relocations::new(shared.clone(), factory.clone(), numbers.clone());
        (parts, relocations)
    }

    /// Adds a file with so many bytes after its header, of which some are live.
    fn add(parts: &Parts, file: u32, live_bytes: u64, bytes: u64) {
        parts.shared.files.insert_written(file, &parts.layout.data_segment(file), HEADER_BYTES + bytes);
        parts.shared.files.retain(file, live_bytes);
    }

    fn numbers(candidates: &[Candidate]) -> Vec<u32> {
        candidates.iter().map(|candidate| candidate.file).collect()
    }

    fn received(value: &'static [u8]) -> (Bytes, u32) {
        (Bytes::from_static(value), crc32c::crc32c(value))
    }

    #[test]
    fn files_with_few_live_bytes_are_candidates_the_emptiest_first() {
        let (parts, relocations) = bench();
        for (file, live_bytes) in [(1, 250), (2, 251), (3, 90), (4, 0), (5, 900), (6, 901), (7, 10)] {
            add(&parts, file, live_bytes, 1_000);
        }
        let usual = relocations.candidates(false, |file| file == 7);
        assert_eq!(numbers(&usual), [3, 1], "at most a quarter is live, but something is");
        assert_eq!(usual[0], Candidate { file: 3, live_bytes: 90, file_bytes: HEADER_BYTES + 1_000 });
        assert_eq!(numbers(&relocations.candidates(true, |file| file == 7)), [3, 1, 2, 5]);
    }

    #[test]
    fn a_copy_is_never_a_candidate_for_its_header_alone() {
        let (parts, relocations) = bench();
        add(&parts, 1, 10, 10);
        assert_eq!(relocations.candidates(true, |_| false), []);
    }

    #[test]
    fn a_new_file_is_protected_until_the_switch() {
        let (parts, mut relocations) = bench();
        let job = relocations.write_received(vec![received(b"one"), received(b"other")]);
        let relocated = relocations.relocated(job.run()).expect("the disk has room");
        let file = relocated.file.expect("values were written");
        let header = HEADER_BYTES;
        let addresses: Vec<u64> =
            relocated.addresses.into_iter().map(|address| address.expect("written")).collect();
        assert_eq!(addresses, [address_at(file, header), address_at(file, header + 3)]);
        assert_eq!(parts.shared.read_range(addresses[1], 5).expect("its file is known"), "other");
        assert_eq!(parts.shared.files.recorded_bytes(), header + 8);
        assert!(relocations.is_unswitched(file) && !relocations.is_unswitched(file + 1));
        relocations.switched(file);
        assert!(!relocations.is_unswitched(file));
    }

    #[test]
    fn a_damaged_value_stays_and_the_others_are_copied() {
        let (parts, mut relocations) = bench();
        let job = relocations.write_received(vec![received(b"one"), received(b"other")]);
        let first = relocations.relocated(job.run()).expect("the disk has room");
        let checksum = crc32c::crc32c(b"other");
        let stored = |address: &u64, len| StoredValue { address: *address, len, checksum };
        let [Ok(one), Ok(other)] = &first.addresses[..] else { panic!("{first:?}") };
        let values = vec![stored(one, 3), stored(other, 5)];
        let job = relocations.relocate(values.clone());
        let second = relocations.relocated(job.run()).expect("the disk has room");
        let [Err(ReadError::Damaged { .. }), Ok(copy)] = &second.addresses[..] else { panic!("{second:?}") };
        assert_eq!(Some(file_of(*copy)), second.file);
        assert_eq!(parts.shared.read_range(*copy, 5).expect("its file is known"), "other");
        let job = relocations.relocate(values[..1].to_vec());
        let none = relocations.relocated(job.run()).expect("there was nothing to write");
        assert_eq!(none.file, None, "a file without values is not made");
    }

    #[test]
    fn a_failed_relocation_leaves_no_file() {
        let (parts, mut relocations) = bench();
        parts.disk.inject(Fault { operation: Operation::Sync, after: 0, kind: std::io::ErrorKind::Other });
        let job = relocations.write_received(vec![received(b"one")]);
        assert!(relocations.relocated(job.run()).is_err());
        assert!(parts.shared.files.all().is_empty() && !relocations.is_unswitched(1));
        assert!(parts.names(&parts.layout.data).is_empty());
    }
}
