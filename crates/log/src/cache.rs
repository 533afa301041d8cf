//! Values that were read from files, kept in memory by place.
//!
//! The same lists and gets come again and again. Reading a value costs a system call even when its page is in the
//! system's cache; finding it here costs a tenth of that.
//!
//! # Why nothing here is ever out of date
//!
//! A place names the same bytes for as long as the process lives. Files draw their numbers from one counter that only
//! grows, also when a segment is recycled, a value relocated or a snapshot installed, and within a file no place is
//! planned twice: an entry that replaces another gets a place of its own, and healing writes again what stood there.
//! What is kept was checked against the length and checksum that it is found by. So files may come, go and be damaged:
//! there is nothing to throw out, what is not asked for any more is pushed out by what is.
//!
//! # What is not kept
//!
//! What the [tail](crate::tail) has is in memory already; long walks ([`Access::Scan`]) pass by, they would pay for
//! keeping what they never find again; large values cost more memory than their system call is worth. Among the rest
//! the library's CLOCK-Pro lets what was asked for once go before what was asked for more often.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::gaps::Gap;
use crate::types::Stored;

#[cfg(test)]
mod tests;

/// Largest value kept, in bytes: a page. Copying a longer one costs as much as asking the system for it.
const VALUE_BYTES_MAX: usize = 4 << 10;

/// What keeping a value costs beside its bytes: key, links and count of uses in the slab (56 bytes, and up to as much
/// again while the slab has room to grow), the hash table (10), the allocation's own count and rounding (32).
const ENTRY_BYTES: u64 = 128;

/// What a value is expected to cost, to size the memory of what was pushed out lately: the half of as many.
const EXPECTED_ENTRY_BYTES: u64 = 512;

/// Parts with locks of their own. Fixed, not by the machine's cores: what is pushed out when depends on it.
const SHARDS: usize = 16;

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

impl Weighter<Stored, Arc<[u8]>> for Weight {
    fn weight(&self, _: &Stored, bytes: &Arc<[u8]>) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

/// See the module.
pub(crate) struct ValueCache {
    /// Hashed without a seed: the same reads keep the same values in every run. Clients do not choose places.
    values: Cache<Stored, Arc<[u8]>, Weight, BuildHasherDefault<DefaultHasher>>,
}

impl ValueCache {
    /// A cache of at most about `bytes`, its own structures included; 0 keeps nothing.
    pub(crate) fn new(bytes: u64) -> ValueCache {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity((bytes / EXPECTED_ENTRY_BYTES) as usize)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given");
        let (hasher, lifecycle) = (BuildHasherDefault::default(), DefaultLifecycle::default());
        ValueCache { values: Cache::with_options(options, Weight, hasher, lifecycle) }
    }

    /// Fills the gap, if its value is kept.
    pub(crate) fn fill(&self, gap: &mut Gap<'_>) -> bool {
        let kept = if may_be_kept(gap) { self.values.get(&gap.value) } else { None };
        kept.is_some_and(|bytes| {
            gap.into.copy_from_slice(&bytes);
            true
        })
    }

    /// Keeps the values that these gaps were filled with, which must have been checked.
    pub(crate) fn keep(&self, filled: &[Gap<'_>]) {
        for gap in filled.iter().filter(|gap| may_be_kept(gap)) {
            self.values.insert(gap.value, Arc::from(&*gap.into));
        }
    }
}

fn may_be_kept(gap: &Gap<'_>) -> bool {
    gap.into.len() <= VALUE_BYTES_MAX
}
