//! Counts what the index looks at, for tests of how much work something is. One count for each thread, because tests
//! run beside each other.
//!
//! | a step is | counted in |
//! |---|---|
//! | a version read from a record | `record` |
//! | an entry read from the revision log | `revision_log` |
//! | a key visited in key order | `key_index` |
//!
//! Time would depend on the machine, so tests of cost compare steps with keys:
//!
//! ```text
//! steps::of(|| reader.events(..))  ->  (events, versions and changes and keys that were looked at)
//! ```

#![cfg(test)]

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// A version, a change of the revision log or a key of the tree was looked at.
pub(crate) fn count() {
    STEPS.set(STEPS.get() + 1);
}

/// Does `work`. Returns its result, and how many steps it took on this thread. What `work` gives to other threads is
/// not counted.
pub(crate) fn of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = STEPS.get();
    let done = work();
    (done, STEPS.get() - before)
}
