//! Counts at older revisions that are known already, so that a page of a long list costs what the page costs.
//!
//! Each page of a list names the count of what is left of the range, at the revision of the first page. That count
//! would be made by undoing all changes since, for each page again. But the answer to a page says it for the next:
//!
//! ```text
//! page 1   [a, z) at 6, limit 2   counted: 5   found a, b   noted: [b\0, z) at 6 has 3
//! page 2   [b\0, z) at 6, limit 2 known:   3   found c, d   noted: [d\0, z) at 6 has 1
//! page 3   [d\0, z) at 6, limit 2 known:   1   found e
//! ```
//!
//! The past does not change, so a note stays true for as long as its revision can be read; also in a state that a
//! snapshot brings, which has the same past. The oldest note goes first. A list whose note has gone is counted again.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::index::KeyBounds;

/// Counts kept: lists that clients read page by page at the same time. A look-up compares as many revisions.
const MAX_KNOWN_COUNTS: usize = 256;

/// Longest start and end of a range, together, of which the count is kept.
const MAX_NOTED_BYTES: usize = 2 << 10;

/// A range that its owner keeps: the first key, and the key after the last; `None` without an end.
pub(crate) type OwnedBounds = (Vec<u8>, Option<Vec<u8>>);

struct KnownCount {
    revision: i64,
    bounds: OwnedBounds,
    keys: u64,
}

/// See the head of this module.
#[derive(Default)]
pub(crate) struct KnownCounts {
    notes: Mutex<VecDeque<KnownCount>>,
}

impl KnownCounts {
    /// The number of keys in `bounds` at `revision`, if it is known.
    pub(crate) fn get(&self, revision: i64, bounds: &KeyBounds<'_>) -> Option<u64> {
        let notes = self.notes.lock();
        let is_same = |(start, end): &OwnedBounds| start == bounds.start && end.as_deref() == bounds.end;
        let mut newest_first = notes.iter().rev();
        newest_first.find(|note| note.revision == revision && is_same(&note.bounds)).map(|note| note.keys)
    }

    /// Notes the number of keys in `bounds` at `revision`.
    pub(crate) fn note(&self, revision: i64, bounds: OwnedBounds, keys: u64) {
        let (start, end) = &bounds;
        if start.len() + end.as_ref().map_or(0, Vec::len) > MAX_NOTED_BYTES {
            return;
        }
        let mut notes = self.notes.lock();
        if notes.len() == MAX_KNOWN_COUNTS {
            notes.pop_front();
        }
        notes.push_back(KnownCount { revision, bounds, keys });
    }
}

#[cfg(test)]
mod tests {
    //! How much is known.
    use super::*;

    fn bounds(start: &[u8]) -> OwnedBounds {
        (start.to_vec(), Some(b"z".to_vec()))
    }

    #[test]
    fn the_oldest_of_too_many_counts_goes() {
        let counts = KnownCounts::default();
        let known = |revision| counts.get(revision, &KeyBounds { start: b"a", end: Some(b"z") });
        (0..256).for_each(|revision| counts.note(revision, bounds(b"a"), revision as u64));
        assert_eq!((known(0), known(255)), (Some(0), Some(255)));
        counts.note(256, bounds(b"a"), 7);
        assert_eq!((known(0), known(1), known(256)), (None, Some(1), Some(7)));
    }

    #[test]
    fn the_count_of_long_ends_is_not_kept() {
        let counts = KnownCounts::default();
        for (bytes, is_kept) in [((2 << 10) - 1, true), (2 << 10, false)] {
            let start = vec![b'a'; bytes];
            counts.note(5, bounds(&start), 7);
            assert_eq!(counts.get(5, &KeyBounds { start: &start, end: Some(b"z") }).is_some(), is_kept);
        }
    }
}
