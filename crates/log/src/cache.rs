//! Values that were read from files, kept in memory by place.
//!
//! The same lists and gets come again and again. Reading a value costs a system call even when its page is in the
//! system's cache; finding it here costs a tenth of that.
//!
//! # Why nothing here is ever out of date
//!
//! A place names the same bytes for as long as the process lives. Files draw their numbers from one counter that only
//! grows, also when a segment is recycled, a value relocated or a snapshot installed, and within a file no place is
//! planned twice: an entry that replaces another gets a place of its own, and repair writes again what stood there.
//! What is kept was checked against the length and checksum that it is found by. So files may come, go and be damaged:
//! there is nothing to throw out, what is not asked for any more is pushed out by what is.
//!
//! # What is not kept
//!
//! What the [tail](crate::tail) has is in memory already; long walks ([`Access::Scan`]) pass by, they would pay for
//! keeping what they never find again; large values cost more memory than their system call is worth. Among the rest
//! the library's CLOCK-Pro lets what was asked for once go before what was asked for more often.

use foldhash::fast::FixedState;
use parking_lot::RwLock;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::read_slots::ReadSlot;
use crate::types::StoredValue;

#[cfg(test)]
mod tests;

/// Largest value kept, in bytes: a page. Copying a longer one costs as much as asking the system for it.
const MAX_VALUE_BYTES: usize = 4 << 10;

/// What keeping a value costs beside its bytes: key, links and count of uses in the slab (56 bytes, and up to as much
/// again while the slab has room to grow), the hash table (10), the allocation's rounding (16).
const ENTRY_BYTES: u64 = 128;

/// What a value is expected to cost, to size the memory of what was pushed out lately: the half of as many.
const EXPECTED_ENTRY_BYTES: u64 = 512;

/// Most values that are found, or kept, in one hold of the lock: more than the processor looks for at once, few enough
/// that whoever waits for the lock, waits for some microseconds.
const HOLD_VALUES: usize = 64;

/// How values are read, which decides whether they are kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For an answer of bounded length, which may well be asked for again.
    Query,
    /// By a walk over more than would be kept.
    Scan,
}

#[derive(Clone)]
struct Weight;

impl Weighter<StoredValue, Box<[u8]>> for Weight {
    fn weight(&self, _: &StoredValue, bytes: &Box<[u8]>) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

/// See the module.
///
/// One lock for all of it, held for many values at a time: taking it for each, and counting a reference, would cost a
/// list more than copying.
pub(crate) struct ValueCache {
    values: RwLock<Values>,
}

/// Hashed with a fixed seed: the same reads keep the same values in every run. Clients neither choose nor see places.
type Values = Cache<StoredValue, Box<[u8]>, Weight, FixedState>;

impl ValueCache {
    /// A cache of at most about `bytes`, its own structures included; 0 keeps nothing.
    pub(crate) fn new(bytes: u64) -> ValueCache {
        let options = OptionsBuilder::new()
            .estimated_items_capacity((bytes / EXPECTED_ENTRY_BYTES) as usize)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given");
        let (hasher, lifecycle) = (FixedState::default(), DefaultLifecycle::default());
        ValueCache { values: RwLock::new(Cache::with_options(options, Weight, hasher, lifecycle)) }
    }

    /// Fills the slots whose values are kept, moves the others to the front and returns how many they are.
    pub(crate) fn fill(&self, slots: &mut [ReadSlot<'_>]) -> usize {
        let (mut unfilled, mut next) = (0, 0);
        while next < slots.len() {
            let values = self.values.read();
            // None of these waits for another: while one comes from memory, the processor asks for the next.
            let mut kept = [None; HOLD_VALUES];
            for (kept, slot) in kept.iter_mut().zip(&slots[next..]).filter(|(_, slot)| may_be_kept(slot)) {
                *kept = values.get(&slot.value);
            }
            for kept in kept.iter().take(slots.len() - next) {
                match kept {
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

    /// Keeps the values that these slots were filled with, which must have been checked.
    pub(crate) fn keep(&self, filled: &[ReadSlot<'_>]) {
        for slots in filled.chunks(HOLD_VALUES) {
            let copies = slots
                .iter()
                .filter(|slot| may_be_kept(slot))
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

fn may_be_kept(slot: &ReadSlot<'_>) -> bool {
    slot.into.len() <= MAX_VALUE_BYTES
}
