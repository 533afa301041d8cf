//! Which files are worth a relocation, and the data segments whose addresses the store has not switched to yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::contents::FileContents;
use super::data_segment::DataSegmentWriter;
use super::footer::FOOTER_ENTRY_BYTES;
use super::job::{CopiedValues, Relocation, RelocationDone, RelocationSource, RelocationWriter};
use crate::error::{JobError, ReadError};
use crate::format::HEADER_BYTES;
use crate::read::{SharedFiles, ValueFile};
use crate::segments::{FileNumbers, SegmentFactory};
use crate::types::StoredValue;

/// What the copy of a value out of an entry is estimated to take beside the value: its entry in the footer, with a key
/// of usual length.
const COPY_OVERHEAD_BYTES: u64 = FOOTER_ENTRY_BYTES + 24;

/// A file that a relocation would make superfluous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number: the values are those whose address lies in it, see [`crate::file_of`].
    pub file: u32,
    /// Bytes referenced in it.
    pub live_bytes: u64,
    /// Bytes it holds, without header and footer.
    pub file_bytes: u64,
    /// Bytes that its live values take elsewhere, estimated.
    pub copy_bytes: u64,
}

impl Candidate {
    /// Bytes that its relocation frees.
    pub fn gained_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(self.copy_bytes)
    }
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

    /// Files with live values of which at most `max_live_percent` would be copied, without the `excepted` ones; the one
    /// that gains most bytes first.
    pub(crate) fn candidates(&self, max_live_percent: u64, excepted: impl Fn(u32) -> bool) -> Vec<Candidate> {
        let files = self.shared.files.all().into_iter();
        let is_worth = |file: &Candidate| {
            file.live_bytes > 0 && file.copy_bytes * 100 <= file.file_bytes * max_live_percent
        };
        let wanted = files.filter(|file| !excepted(file.number));
        let mut candidates: Vec<Candidate> = wanted.map(|file| candidate(&file)).filter(is_worth).collect();
        candidates.sort_by_key(|file| (u64::MAX - file.gained_bytes(), file.file));
        candidates
    }

    /// The file, if it has live values.
    pub(crate) fn candidate(&self, number: u32) -> Option<Candidate> {
        let file = self.shared.files.get(number).map(|file| candidate(&file));
        file.filter(|file| file.live_bytes > 0)
    }

    /// What a file holds, from `position` on. `None` if it does not say: a data segment without a footer.
    pub(crate) fn contents(&self, number: u32, position: u64, salt: u32) -> Option<FileContents> {
        let file = self.shared.files.get(number)?;
        match (file.is_data_segment(), file.footer_bytes()) {
            (false, _) => Some(FileContents::of_segment(&self.shared, salt, number, position)),
            (true, 0) => None,
            (true, _) => Some(FileContents::of_data_segment(&self.shared, number, position)),
        }
    }

    /// Begins to write values into a new data segment.
    pub(crate) fn begin(&self) -> RelocationWriter {
        RelocationWriter::new(DataSegmentWriter::with_footer(&self.factory, self.numbers.next()))
    }

    /// Plans to copy values of this log, each with its tag.
    pub(crate) fn relocate(&self, values: Vec<(StoredValue, Bytes)>) -> Relocation {
        Relocation::new(&self.shared, self.begin(), RelocationSource::Stored(values))
    }

    /// Plans to write values that a peer sent, each with its checksum and tag.
    pub(crate) fn write_received(&self, values: Vec<(Bytes, u32, Bytes)>) -> Relocation {
        Relocation::new(&self.shared, self.begin(), RelocationSource::Received(values))
    }

    /// Takes the result of a relocation.
    pub(crate) fn relocated(&mut self, done: RelocationDone) -> Result<Relocated, JobError> {
        let CopiedValues { file, addresses } = done.result?;
        if let Some(file) = &file {
            self.shared.files.insert_written(file.number, &file.path, file.bytes, file.footer_bytes);
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

/// Header and footer are left out: the copy has them too. If they were counted, a file of few bytes or of long tags
/// would be copied forever.
fn candidate(file: &ValueFile) -> Candidate {
    let live_bytes = file.live();
    let overhead = if file.is_data_segment() { 0 } else { file.references() * COPY_OVERHEAD_BYTES };
    Candidate {
        file: file.number,
        live_bytes,
        file_bytes: file.recorded().saturating_sub(HEADER_BYTES + file.footer_bytes()),
        copy_bytes: live_bytes + overhead,
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
        parts.shared.files.insert_written(file, &parts.layout.data_segment(file), HEADER_BYTES + bytes, 0);
        parts.shared.files.retain(file, u64::from(live_bytes > 0), live_bytes);
    }

    fn numbers(candidates: &[Candidate]) -> Vec<u32> {
        candidates.iter().map(|candidate| candidate.file).collect()
    }

    fn received(value: &'static [u8]) -> (Bytes, u32, Bytes) {
        (Bytes::from_static(value), crc32c::crc32c(value), Bytes::from_static(b"tag"))
    }

    #[test]
    fn files_with_few_live_bytes_are_candidates_those_that_gain_most_first() {
        let (parts, relocations) = bench();
        for (file, live_bytes) in [(1, 250), (2, 251), (3, 90), (4, 0), (5, 900), (6, 901), (7, 10)] {
            add(&parts, file, live_bytes, 1_000);
        }
        let usual = relocations.candidates(25, |file| file == 7);
        assert_eq!(numbers(&usual), [3, 1], "at most a quarter is live, but something is");
        let third = Candidate { file: 3, live_bytes: 90, file_bytes: 1_000, copy_bytes: 90 };
        assert_eq!((usual[0], third.gained_bytes()), (third, 910));
        assert_eq!(numbers(&relocations.candidates(90, |file| file == 7)), [3, 1, 2, 5]);
        add(&parts, 8, 1_000, 3_000);
        assert_eq!(numbers(&relocations.candidates(90, |file| file == 7)), [8, 3, 1, 2, 5]);
    }

    #[test]
    fn a_copy_is_never_a_candidate_for_its_header_alone() {
        let (parts, relocations) = bench();
        add(&parts, 1, 10, 10);
        assert_eq!(relocations.candidates(90, |_| false), []);
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
        assert_eq!(parts.shared.files.recorded_bytes(), header + 8 + 2 * (16 + 3) + 40, "values and footer");
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
        let tag = || Bytes::from_static(b"tag");
        let values = vec![(stored(one, 3), tag()), (stored(other, 5), tag())];
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
