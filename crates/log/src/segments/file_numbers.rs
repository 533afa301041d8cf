//! File numbers: one counter for all files of a data directory, so that a log address never changes its meaning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Hands out file numbers, in ascending order and each one once. Clones share the counter; jobs that make files hold
/// one.
#[derive(Clone)]
pub(crate) struct FileNumbers(Arc<AtomicU32>);

impl FileNumbers {
    pub(crate) fn after(last: u32) -> FileNumbers {
        FileNumbers(Arc::new(AtomicU32::new(last + 1)))
    }

    pub(crate) fn next(&self) -> u32 {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(number < u32::MAX, "four billion files were used up");
        number
    }
}

#[cfg(test)]
mod tests {
    //! Numbers ascend across clones.
    use super::FileNumbers;

    #[test]
    fn clones_share_one_counter() {
        let numbers = FileNumbers::after(7);
        let clone = numbers.clone();
        assert_eq!([numbers.next(), clone.next(), numbers.next()], [8, 9, 10]);
    }
}
