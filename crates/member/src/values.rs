//! The log as the store's place of values.
//!
//! A read pins the log for its own duration. Whoever looks a reference up first must hold a pin from before the
//! look-up, or the file could be given back in between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use log::{ReadError, Reader, Stored};
use store::{Access, Damaged, Gap, ValueRef, Values};

/// Places remembered whose values were healed elsewhere. Replies, pieces of lists and events that were made before
/// still name the old ones; each lives for seconds.
const HEALED_MAX: usize = 4_096;

/// Reads values from the log and keeps its count of references.
pub(crate) struct LogValues {
    reader: Reader,
    healed: RwLock<Healed>,
}

/// From a damaged place to the one that stands in for it.
#[derive(Default)]
struct Healed {
    places: BTreeMap<u64, u64>,
    oldest: VecDeque<u64>,
}

impl LogValues {
    /// Values of the log that `reader` reads.
    pub(crate) fn new(reader: Reader) -> LogValues {
        LogValues { reader, healed: RwLock::default() }
    }

    /// The value at `old` is damaged; a copy of it is at `new`.
    pub(crate) fn healed(&self, old: u64, new: u64) {
        let mut healed = self.healed.write().unwrap_or_else(PoisonError::into_inner);
        if healed.places.insert(old, new).is_none() {
            healed.oldest.push_back(old);
        }
        if healed.oldest.len() > HEALED_MAX
            && let Some(oldest) = healed.oldest.pop_front()
        {
            healed.places.remove(&oldest);
        }
    }

    /// A value that could not be read where its reference says, from where it was healed.
    fn read_healed(&self, value: &ValueRef, error: &ReadError) -> Result<Bytes, Damaged> {
        let place =
            self.healed.read().unwrap_or_else(PoisonError::into_inner).places.get(&value.place).copied();
        let read = place.map(|place| self.reader.pin().read(place, value.len, value.checksum));
        read.and_then(Result::ok).ok_or_else(|| damaged(value, error))
    }
}

/// The reference as the log has it.
pub(crate) fn stored(value: &ValueRef) -> Stored {
    Stored { place: value.place, len: value.len, checksum: value.checksum }
}

fn damaged(value: &ValueRef, error: &ReadError) -> Damaged {
    Damaged { place: value.place, len: value.len, reason: Arc::from(error.to_string()) }
}

impl Values for LogValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let read = self.reader.pin().read(value.place, value.len, value.checksum);
        read.or_else(|error| self.read_healed(value, &error))
    }

    fn read_many(&self, values: &[ValueRef]) -> Result<Vec<Bytes>, Damaged> {
        let wanted: Vec<Stored> = values.iter().map(stored).collect();
        let read = self.reader.pin().read_many(&wanted);
        let read = read.into_iter().zip(values);
        read.map(|(bytes, value)| bytes.or_else(|error| self.read_healed(value, &error))).collect()
    }

    fn read_into(&self, gaps: &mut [Gap<'_>], access: Access) -> Result<(), Damaged> {
        let wanted = gaps.iter_mut().map(|gap| log::Gap { value: stored(&gap.value), into: &mut *gap.into });
        let access = match access {
            Access::Query => log::Access::Query,
            Access::Scan => log::Access::Scan,
        };
        if self.reader.pin().read_into(&mut wanted.collect::<Vec<_>>(), access).is_ok() {
            return Ok(());
        }
        // Something is damaged. One by one, each is found where it was healed, or named.
        gaps.iter_mut().try_for_each(|gap| {
            gap.into.copy_from_slice(&self.read(&gap.value)?);
            Ok(())
        })
    }

    fn retain(&self, value: &ValueRef) {
        self.reader.retain(value.place, value.len);
    }

    fn retain_all(&self, values: &mut dyn Iterator<Item = ValueRef>) {
        self.reader.retain_all(values.map(|value| (value.place, value.len)));
    }

    fn release(&self, value: &ValueRef) {
        self.reader.release(value.place, value.len);
    }
}
