//! Reads the store's values from the log.
//!
//! A read pins the log for its own duration. A reader that looks a reference up first should hold a pin from
//! before the look-up; without one, the file could be freed in between, and the value would count as damaged.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use log::{ReadError, Reader, StoredValue};
use store::{Access, Damaged, ValueRef, ValueSlot, Values};

/// Damaged addresses remembered after their values were written elsewhere. Replies, chunks of ranges and events that
/// were made before still name the old ones; each lives for seconds.
const MAX_REPAIRED: usize = 4_096;

/// Reads values from the log and keeps its count of references.
pub(crate) struct LogValues {
    reader: Reader,
    repaired: RwLock<Repaired>,
}

/// From a damaged address to the one that replaces it.
#[derive(Default)]
struct Repaired {
    addresses: BTreeMap<u64, u64>,
    oldest: VecDeque<u64>,
}

impl LogValues {
    /// Values of the log that `reader` reads.
    pub(crate) fn new(reader: Reader) -> LogValues {
        LogValues { reader, repaired: RwLock::default() }
    }

    /// The value at `old` is damaged; a copy of it is at `new`.
    pub(crate) fn repaired(&self, old: u64, new: u64) {
        let mut repaired = self.repaired.write().unwrap_or_else(PoisonError::into_inner);
        if repaired.addresses.insert(old, new).is_none() {
            repaired.oldest.push_back(old);
        }
        if repaired.oldest.len() > MAX_REPAIRED
            && let Some(oldest) = repaired.oldest.pop_front()
        {
            repaired.addresses.remove(&oldest);
        }
    }

    /// A value that could not be read where its reference says, from where it was repaired.
    fn read_repaired(&self, value: &ValueRef, error: &ReadError) -> Result<Bytes, Damaged> {
        let address = self
            .repaired
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .addresses
            .get(&value.address)
            .copied();
        let read = address.map(|address| self.reader.pin().read(address, value.len, value.checksum));
        read.and_then(Result::ok).ok_or_else(|| damaged(value, error))
    }
}

/// The reference as the log has it.
pub(crate) fn stored(value: &ValueRef) -> StoredValue {
    StoredValue { address: value.address, len: value.len, checksum: value.checksum }
}

fn damaged(value: &ValueRef, error: &ReadError) -> Damaged {
    Damaged {
        key: None,
        address: value.address,
        len: value.len,
        reason: Arc::from(error.to_string()),
        is_transient: error.is_out_of_descriptors(),
    }
}

impl Values for LogValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let read = self.reader.pin().read(value.address, value.len, value.checksum);
        read.or_else(|error| self.read_repaired(value, &error))
    }

    fn read_in_memory(&self, value: &ValueRef) -> Option<Bytes> {
        self.reader.read_in_memory(value.address, value.len, value.checksum)
    }

    fn read_many(&self, values: &[ValueRef]) -> Result<Vec<Bytes>, Damaged> {
        let wanted: Vec<StoredValue> = values.iter().map(stored).collect();
        let read = self.reader.pin().read_many(&wanted);
        let read = read.into_iter().zip(values);
        read.map(|(bytes, value)| bytes.or_else(|error| self.read_repaired(value, &error))).collect()
    }

    fn read_into(&self, slots: &mut [ValueSlot<'_>], access: Access) -> Result<(), Damaged> {
        let wanted =
            slots.iter_mut().map(|slot| log::ReadSlot { value: stored(&slot.value), into: &mut *slot.into });
        let access = match access {
            Access::Query => log::Access::Query,
            Access::Scan => log::Access::Scan,
        };
        if self.reader.pin().read_into(&mut wanted.collect::<Vec<_>>(), access).is_ok() {
            return Ok(());
        }
        // Something is damaged. One by one, each is found where it was repaired, or named.
        slots.iter_mut().try_for_each(|slot| {
            slot.into.copy_from_slice(&self.read(&slot.value)?);
            Ok(())
        })
    }

    fn retain(&self, value: &ValueRef) {
        self.reader.retain(value.address, value.len);
    }

    fn retain_all(&self, values: &mut dyn Iterator<Item = ValueRef>) {
        self.reader.retain_all(&values.map(|value| (value.address, value.len)).collect());
    }

    fn release(&self, value: &ValueRef) {
        self.reader.release(value.address, value.len);
    }
}

#[cfg(test)]
mod tests {
    //! For how many repaired values the new place is remembered.
    use super::*;
    use crate::tests::LogAndStore;

    #[test]
    fn the_newest_repaired_values_are_found_where_their_replies_say() {
        let mut state = LogAndStore::new(&[1]);
        state.put("key", "value");
        let value = state.reference("key").value;
        // Places in a file that is gone.
        let old = |number: usize| (1 << 50) + 8 * number as u64;
        (0..=MAX_REPAIRED).for_each(|number| state.values.repaired(old(number), value.address));
        let read = |number| state.values.read(&ValueRef { address: old(number), ..value });
        assert_eq!(read(0).map_err(|damaged| damaged.address), Err(old(0)), "it is forgotten");
        for number in [1, MAX_REPAIRED] {
            assert_eq!(read(number).ok().as_deref(), Some(&b"value"[..]));
        }
    }
}
