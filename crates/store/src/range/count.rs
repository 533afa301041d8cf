//! Counting the keys of a range, at the newest revision and at older ones.
//!
//! The tree counts the live keys of any range in one descent per end. For an older revision, that count is corrected by
//! the changes since, which the revision log names: a key created since is subtracted, a key deleted since is added.
//!
//! ```text
//! now, revision 9: 5 live keys in [a, z)     changes since 6:  7 put a (version 1)   8 put b (version 4)   9 delete c
//! at revision 6:   5 - 1 + 1 = 5                               -1                     0                     +1
//! ```
//!
//! If there are more changes than keys in the range, walking the range is cheaper.

use std::ops::ControlFlow;

use super::known_counts::KnownCounts;
use crate::index::{KeyBounds, KeyIndex, walk_chunk};
use crate::types::Revision;

/// Walking one key costs about as much as reading this many entries of the revision log.
const ENTRIES_PER_KEY: u64 = 2;

/// A count in progress.
pub(crate) struct RangeCount {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    at: i64,
    way: CountMethod,
    total: i64,
}

enum CountMethod {
    /// Undo the changes from this revision to the newest one when the count started.
    Undo {
        from: Revision,
        until: Revision,
    },
    /// Examine every key.
    Walk,
    Done,
}

impl RangeCount {
    /// Starts to count the keys of `bounds` at revision `at`. The index may already have a part of the changes of the
    /// next revision: those of a command in progress.
    pub(crate) fn new(index: &KeyIndex, bounds: &KeyBounds<'_>, at: i64) -> RangeCount {
        let now = index.count(bounds);
        let (way, total) = match index.log().newest().filter(|newest| newest.main > at) {
            None => (CountMethod::Done, now),
            Some(until) if index.log().len_from(at + 1) as u64 <= now * ENTRIES_PER_KEY => {
                (CountMethod::Undo { from: Revision { main: at + 1, sub: 0 }, until }, now)
            }
            Some(_) => (CountMethod::Walk, 0),
        };
        let total = total as i64;
        RangeCount { start: bounds.start.to_vec(), end: bounds.end.map(<[u8]>::to_vec), at, way, total }
    }

    /// As [`RangeCount::new`], but done at once if `known` has the count.
    pub(crate) fn with_known(
        index: &KeyIndex,
        bounds: &KeyBounds<'_>,
        at: i64,
        known: &KnownCounts,
    ) -> RangeCount {
        let mut count = RangeCount::new(index, bounds, at);
        if !matches!(count.way, CountMethod::Done)
            && let Some(keys) = known.get(at, bounds)
        {
            (count.way, count.total) = (CountMethod::Done, keys as i64);
        }
        count
    }

    /// Examines up to `max_steps` more keys or changes of the same state. Returns the count once it is known, else
    /// `None`: call again.
    pub(crate) fn advance(&mut self, index: &KeyIndex, max_steps: usize) -> Option<u64> {
        match self.way {
            CountMethod::Undo { from, until } => self.undo(index, from, until, max_steps),
            CountMethod::Walk => self.walk(index, max_steps),
            CountMethod::Done => {}
        }
        let is_done = matches!(self.way, CountMethod::Done);
        assert!(!is_done || self.total >= 0, "a range has no fewer than no keys");
        is_done.then_some(self.total as u64)
    }

    fn undo(&mut self, index: &KeyIndex, from: Revision, until: Revision, max_steps: usize) {
        let bounds = KeyBounds { start: &self.start, end: self.end.as_deref() };
        for (steps, entry) in index.log().iter_at(from).enumerate() {
            if entry.revision > until {
                break;
            }
            if steps == max_steps {
                self.way = CountMethod::Undo { from: entry.revision, until };
                return;
            }
            let Some(slot) = entry.slot else { continue };
            let record = index.at_slot(slot);
            if !index.is_in(slot, &bounds) {
                continue;
            }
            match record.version_exactly(entry.revision) {
                Some((version, _)) if version.is_tombstone() => self.total += 1,
                Some((version, _)) if version.version == 1 => self.total -= 1,
                _ => {}
            }
        }
        self.way = CountMethod::Done;
    }

    fn walk(&mut self, index: &KeyIndex, max_steps: usize) {
        let bounds = KeyBounds { start: &self.start, end: self.end.as_deref() };
        let at = Revision { main: self.at, sub: u32::MAX };
        let total = &mut self.total;
        let rest = walk_chunk(index, &bounds, max_steps, |_, record, _| {
            *total += i64::from(record.live_until(at).is_some());
            ControlFlow::Continue(())
        });
        match rest {
            Some(key) => self.start = key.as_slice().to_vec(),
            None => self.way = CountMethod::Done,
        }
    }
}
