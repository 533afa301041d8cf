//! Which value files have an open handle, and which of them was used longest ago.
//!
//! A read stamps its file with the next number of one counter, without a lock. The set below holds for each open file
//! a stamp that it had at some time, so a lower bound of its newest one. Only when a handle must be closed are the
//! lowest bounds compared with the newest stamps; the first one that is still true belongs to the file that was used
//! longest ago:
//!
//! ```text
//!   set        (3, file a)  (5, file b)  (6, file c)      newest stamps: a 9, b 5, c 6
//!   a was used after 3: its place is taken up to date     (5, file b)  (6, file c)  (9, file a)
//!   b was not used after 5: it is closed
//! ```
//!
//! Handles that a reader uses at that time stay open until it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The open files. It knows numbers and stamps; the handles are with their files.
pub(super) struct OpenHandles {
    next_stamp: AtomicU64,
    order: Mutex<UseOrder>,
    max_open: usize,
}

#[derive(Default)]
struct UseOrder {
    /// (a stamp, file), one for each open file.
    by_stamp: BTreeSet<(u64, u32)>,
    /// The stamp above, by file.
    stamps: BTreeMap<u32, u64>,
}

impl OpenHandles {
    /// At most `max_open` files, at least one.
    pub(super) fn new(max_open: usize) -> OpenHandles {
        OpenHandles { next_stamp: AtomicU64::new(1), order: Mutex::default(), max_open: max_open.max(1) }
    }

    /// The stamp of a use that happens now.
    pub(super) fn stamp(&self) -> u64 {
        self.next_stamp.fetch_add(1, Ordering::Relaxed)
    }

    /// A file was opened, and used at `stamp`. Returns a file to close, if too many are open. `newest` says when a file
    /// was used last.
    pub(super) fn opened(&self, file: u32, stamp: u64, newest: impl Fn(u32) -> u64) -> Option<u32> {
        let mut order = self.order.lock();
        order.insert(file, stamp);
        if order.stamps.len() > self.max_open { order.take_oldest(newest) } else { None }
    }

    /// A file is gone, with its handle.
    pub(super) fn forget(&self, file: u32) {
        self.order.lock().remove(file);
    }

    /// The half of the open files that was used longest ago, at least one if there is any; they are to be closed.
    pub(super) fn take_older_half(&self, newest: impl Fn(u32) -> u64) -> Vec<u32> {
        let mut order = self.order.lock();
        let count = order.stamps.len().div_ceil(2);
        (0..count).filter_map(|_| order.take_oldest(&newest)).collect()
    }
}

impl UseOrder {
    fn insert(&mut self, file: u32, stamp: u64) {
        self.remove(file);
        self.stamps.insert(file, stamp);
        self.by_stamp.insert((stamp, file));
    }

    fn remove(&mut self, file: u32) {
        if let Some(stamp) = self.stamps.remove(&file) {
            self.by_stamp.remove(&(stamp, file));
        }
    }

    fn take_oldest(&mut self, newest: impl Fn(u32) -> u64) -> Option<u32> {
        // Readers go on meanwhile: each file is brought up to date once at most.
        for _ in 0..self.stamps.len() {
            let (stamp, file) = *self.by_stamp.first()?;
            let newest = newest(file);
            if newest <= stamp {
                break;
            }
            self.insert(file, newest);
        }
        let (_, oldest) = *self.by_stamp.first()?;
        self.remove(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    //! The file that was used longest ago is closed first.
    use super::*;

    #[test]
    fn the_file_used_longest_ago_is_closed_not_the_one_opened_first() {
        let handles = OpenHandles::new(3);
        let mut used = BTreeMap::new();
        for file in [7, 8, 9] {
            used.insert(file, handles.stamp());
            assert_eq!(handles.opened(file, used[&file], |file| used[&file]), None);
        }
        used.insert(7, handles.stamp());
        used.insert(10, handles.stamp());
        assert_eq!(handles.opened(10, used[&10], |file| used[&file]), Some(8), "7 was used since");
        used.insert(9, handles.stamp());
        used.insert(11, handles.stamp());
        assert_eq!(handles.opened(11, used[&11], |file| used[&file]), Some(7));
        assert_eq!(handles.take_older_half(|file| used[&file]), [10, 9]);
        handles.forget(11);
        assert_eq!(handles.take_older_half(|file| used[&file]), [0; 0]);
    }

    #[test]
    fn a_file_that_was_opened_again_counts_once() {
        let handles = OpenHandles::new(2);
        let stamps = [handles.stamp(), handles.stamp(), handles.stamp()];
        assert_eq!(handles.opened(1, stamps[0], |_| 0), None);
        assert_eq!(handles.opened(2, stamps[1], |_| 0), None);
        assert_eq!(handles.opened(1, stamps[2], |_| 0), None, "two files are open");
        assert_eq!(handles.take_older_half(|_| 0), [2]);
    }
}
