//! The value cache: small values that reads fetched from files, in memory by log address.
//!
//! Clients repeat the same gets and ranges. Reading a value costs a system call even when its page is in the page
//! cache; a hit here costs a tenth of that.
//!
//! # Why no invalidation is needed
//!
//! An address names the same bytes as long as the process lives. File numbers come from one counter that only grows,
//! also when a segment is recycled, a value relocated or a snapshot installed. Within a file no address is planned
//! twice: an entry that replaces another gets an address of its own, and a repair writes the same bytes again. A cached
//! value was checked against the length and checksum that are part of its key. So files may be added, freed and damaged
//! without touching the cache; values that are not read any more are evicted.
//!
//! # What is not cached
//!
//! - Values in the [tail](super::tail): they are in memory already.
//! - Values of long scans ([`Access::Scan`]): they would evict others and are rarely read again.
//! - Large values: they cost more memory than the saved system call is worth.
//!
//! The eviction policy is the library's CLOCK-Pro: values read once are evicted before values read often.

use foldhash::fast::FixedState;
use parking_lot::RwLock;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use super::read_slots::ReadSlot;
use crate::types::StoredValue;

#[cfg(test)]
mod tests;

/// Largest cached value: a page. Copying a longer one costs as much as the system call.
const MAX_VALUE_BYTES: usize = 4 << 10;

/// Memory of a cached value beside its bytes: key, links and use count in the slab (56 bytes, twice that while the slab
/// has room to grow), the hash table (10), the rounding of the allocation (16).
const ENTRY_BYTES: u64 = 128;

/// Expected memory of a cached value. Sizes the history of recently evicted keys, which holds half as many.
const EXPECTED_ENTRY_BYTES: u64 = 512;

/// Most values that are looked up or inserted while the lock is held: more than the processor's parallel memory loads,
/// few enough that another thread waits for the lock some microseconds at most.
const MAX_HOLD_VALUES: usize = 64;

/// Why values are read, which decides whether they are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For a response of bounded length, which may be repeated.
    Query,
    /// By a scan of more values than the cache holds.
    Scan,
}

#[derive(Clone)]
struct ValueWeight;

impl Weighter<StoredValue, Box<[u8]>> for ValueWeight {
    fn weight(&self, _: &StoredValue, bytes: &Box<[u8]>) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

/// One lock guards the whole cache and is held for many values at a time: locking and reference-counting each value
/// would cost a range more than copying it.
pub(crate) struct ValueCache {
    values: RwLock<Values>,
}

/// Hashed with a fixed seed, so that equal runs cache equal values. Clients neither choose nor see log addresses.
type Values = Cache<StoredValue, Box<[u8]>, ValueWeight, FixedState>;

impl ValueCache {
    /// A cache of at most about `bytes`, its own structures included; 0 caches nothing.
    pub(crate) fn new(bytes: u64) -> ValueCache {
        let options = OptionsBuilder::new()
            .estimated_items_capacity((bytes / EXPECTED_ENTRY_BYTES) as usize)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given");
        let (hasher, lifecycle) = (FixedState::default(), DefaultLifecycle::default());
        ValueCache { values: RwLock::new(Cache::with_options(options, ValueWeight, hasher, lifecycle)) }
    }

    /// Fills the slots whose values are cached, moves the others to the front and returns how many these are.
    pub(crate) fn fill(&self, slots: &mut [ReadSlot<'_>]) -> usize {
        let (mut unfilled, mut next) = (0, 0);
        while next < slots.len() {
            let values = self.values.read();
            // The lookups do not depend on each other: while one loads from memory, the processor starts the next.
            let mut found = [None; MAX_HOLD_VALUES];
            for (found, slot) in found.iter_mut().zip(&slots[next..]).filter(|(_, slot)| is_cacheable(slot)) {
                *found = values.get(&slot.value);
            }
            for found in found.iter().take(slots.len() - next) {
                match found {
                    Some(bytes) => slots[next].into.copy_from_slice(bytes),
                    None => {
                        slots.swap(unfilled, next);
                        unfilled += 1;
                    }
                }
                next += 1;
            }
        }
        unfilled
    }

    /// Bytes of the cached values, the structures for each included.
    pub(crate) fn bytes(&self) -> u64 {
        self.values.read().weight()
    }

    /// Inserts the values that these slots were filled with, which must have been checked.
    pub(crate) fn insert(&self, filled: &[ReadSlot<'_>]) {
        for slots in filled.chunks(MAX_HOLD_VALUES) {
            let copies = slots
                .iter()
                .filter(|slot| is_cacheable(slot))
                .map(|slot| (slot.value, Box::from(&*slot.into)));
            let copies: Vec<(StoredValue, Box<[u8]>)> = copies.collect();
            if copies.is_empty() {
                continue;
            }
            let mut values = self.values.write();
            copies.into_iter().for_each(|(value, bytes)| values.insert(value, bytes));
        }
    }
}

fn is_cacheable(slot: &ReadSlot<'_>) -> bool {
    slot.into.len() <= MAX_VALUE_BYTES
}
