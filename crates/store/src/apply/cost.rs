//! What a transaction may cost, in keys, the same on all members.
//!
//! A transaction of a few thousand operations may name each key of the store in each of them. Its cost is counted
//! before it changes anything, from the tree's counts of live keys, which are equal on all members. One that costs more
//! than the limit is refused, by all of them:
//!
//! ```text
//! 2,000 live keys; txn { then [ put a, delete [b, c), range [a, z), txn { then [ range [a, z) limit 10 ] } ] }
//! put 1 + delete 1 + keys in [b, c) + range 1 + 2,000 + txn 1 + range 1 + 11
//! ```
//!
//! The limits are part of what a transaction means: members that disagree about them diverge. Another limit therefore
//! needs another kind of command.

use api::Error;
use api::etcdserverpb as pb;

use crate::index::KeyIndex;
use crate::range::{RangePlan, bounds};

/// Keys that the operations of a transaction may read and delete, an operation counting as one more: a second of
/// applying, in slices. A range counts the keys it visits, which is none if it only counts them.
pub(crate) const MAX_TXN_KEYS: u64 = 1_000_000;

/// Keys that the compares of a transaction may visit, in all branches together: a tenth of a second of applying, in
/// slices.
pub(super) const MAX_COMPARED_KEYS: u64 = 100_000;

/// Bytes of values that the compares of a transaction may need, in all branches together. They are read and compared a
/// part at a time.
pub(crate) const MAX_COMPARED_BYTES: u64 = 64 << 20;

/// Keys counted so far.
pub(crate) struct TxnCost {
    keys: u64,
    max_keys: u64,
}

impl TxnCost {
    /// The cost of operations.
    pub(crate) fn of_operations() -> TxnCost {
        TxnCost { keys: 0, max_keys: MAX_TXN_KEYS }
    }

    /// The cost of compares.
    pub(crate) fn of_compares() -> TxnCost {
        TxnCost { keys: 0, max_keys: MAX_COMPARED_KEYS }
    }

    /// Adds an operation that touches `keys` keys.
    ///
    /// # Errors
    /// [`Error::TooManyOps`] past the limit.
    pub(crate) fn add(&mut self, keys: u64) -> Result<(), Error> {
        self.keys = self.keys.saturating_add(keys).saturating_add(1);
        if self.keys > self.max_keys { Err(Error::TooManyOps) } else { Ok(()) }
    }

    /// Adds the keys that a range visits.
    ///
    /// # Errors
    /// [`Error::TooManyOps`] past the limit.
    pub(crate) fn add_range(&mut self, index: &KeyIndex, request: &pb::RangeRequest) -> Result<(), Error> {
        let plan = RangePlan::of(request);
        let keys = match plan.count_only {
            true => 0,
            false => live_keys(index, &request.key, &request.range_end).min(plan.visits()),
        };
        self.add(keys)
    }

    /// Adds a compare, which visits each key that it names.
    ///
    /// # Errors
    /// [`Error::TooManyOps`] past the limit.
    pub(crate) fn add_compare(&mut self, index: &KeyIndex, compare: &pb::Compare) -> Result<(), Error> {
        self.add(live_keys(index, &compare.key, &compare.range_end))
    }
}

/// The number of live keys that `start` and `end` of a request name.
pub(super) fn live_keys(index: &KeyIndex, start: &[u8], end: &[u8]) -> u64 {
    if end.is_empty() { 1 } else { index.count(&bounds(start, end)) }
}
