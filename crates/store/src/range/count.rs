//! Counting keys, now and at older revisions.
//!
//! The tree counts live keys of any range in one descent. For an older revision that count is corrected by
//! what the revision log says happened since: births taken off, deaths put back. When more happened than
//! there are keys in the range, walking the range is cheaper.

use crate::index::tree::Bounds;
use crate::index::{Index, walk_chunk};
use crate::types::Revision;
use std::ops::ControlFlow;

/// A walk of one key costs about as much as this many entries of the log.
const ENTRIES_PER_KEY: u64 = 2;

/// A count being made.
pub(crate) struct Count {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    at: i64,
    way: Way,
    total: i64,
}

enum Way {
    /// Undo the changes from this revision to the one the count started from.
    Undo {
        from: Revision,
        until: i64,
    },
    /// Look at every key.
    Walk,
    Done,
}

impl Count {
    /// Starts to count the keys of `bounds` at revision `at`, with `current` the newest one.
    pub(crate) fn new(index: &Index, bounds: &Bounds<'_>, at: i64, current: i64) -> Count {
        let now = index.count(bounds);
        let (way, total) = if at == current {
            (Way::Done, now)
        } else if index.log().len_from(at + 1) as u64 <= now * ENTRIES_PER_KEY {
            (Way::Undo { from: Revision { main: at + 1, sub: 0 }, until: current }, now)
        } else {
            (Way::Walk, 0)
        };
        let total = total as i64;
        Count { start: bounds.start.to_vec(), end: bounds.end.map(<[u8]>::to_vec), at, way, total }
    }

    /// The count, if at most `max_steps` more keys or changes give it; else `None`, and it is to be called
    /// again.
    pub(crate) fn advance(&mut self, index: &Index, max_steps: usize) -> Option<u64> {
        match self.way {
            Way::Undo { from, until } => self.undo(index, from, until, max_steps),
            Way::Walk => self.walk(index, max_steps),
            Way::Done => {}
        }
        // Negative only if another state was installed meanwhile: then no number is right.
        matches!(self.way, Way::Done).then(|| self.total.max(0) as u64)
    }

    fn undo(&mut self, index: &Index, from: Revision, until: i64, max_steps: usize) {
        let bounds = Bounds { start: &self.start, end: self.end.as_deref() };
        for (steps, entry) in index.log().iter_at(from).enumerate() {
            if entry.revision.main > until {
                break;
            }
            if steps == max_steps {
                self.way = Way::Undo { from: entry.revision, until };
                return;
            }
            let Some(slot) = entry.slot else { continue };
            let record = index.at_slot(slot);
            let key = record.key();
            if key < bounds.start || bounds.end.is_some_and(|end| key >= end) {
                continue;
            }
            match record.version_exactly(entry.revision) {
                Some((version, _)) if version.is_tombstone() => self.total += 1,
                Some((version, _)) if version.version == 1 => self.total -= 1,
                _ => {}
            }
        }
        self.way = Way::Done;
    }

    fn walk(&mut self, index: &Index, max_steps: usize) {
        let bounds = Bounds { start: &self.start, end: self.end.as_deref() };
        let at = Revision { main: self.at, sub: u32::MAX };
        let total = &mut self.total;
        let rest = walk_chunk(index, &bounds, max_steps, |record, _| {
            *total += i64::from(record.live_until(at).is_some());
            ControlFlow::Continue(())
        });
        match rest {
            Some(key) => self.start = key.as_slice().to_vec(),
            None => self.way = Way::Done,
        }
    }
}
