//! Selecting the keys of a range at a revision, in chunks.
//!
//! A selection walks a bounded number of keys under one hold of the lock, remembers the key at which it stopped, and
//! continues there after other threads had the lock. It stays consistent because it reads at one revision, which is
//! pinned if one chunk is not enough.

use std::ops::ControlFlow;

use super::known_counts::OwnedBounds;
use super::plan::RangePlan;
use super::sink::RangeSink;
use crate::index::{KeyBounds, KeyIndex, KeyRecord, Version, walk_chunk};
use crate::types::{KvRef, Revision};

/// A range being selected: the part that is still to be walked, and what was found.
pub(crate) struct RangeSelection<F = Vec<KvRef>> {
    /// First key of the part that is left.
    start: Vec<u8>,
    /// Key after that part; `None` if it has no end.
    end: Option<Vec<u8>>,
    /// Newer versions are invisible.
    at: Revision,
    shape: RangePlan,
    pub(crate) found: F,
    /// Keys that were found before and taken or cleared.
    taken: usize,
}

impl RangeSelection {
    /// Takes what was found so far.
    pub(crate) fn take(&mut self) -> Vec<KvRef> {
        self.taken += self.found.len();
        std::mem::take(&mut self.found)
    }
}

impl<F: RangeSink> RangeSelection<F> {
    /// Begins a selection; found versions go to `found`.
    pub(crate) fn new(bounds: &KeyBounds<'_>, at: Revision, shape: RangePlan, found: F) -> RangeSelection<F> {
        let end = bounds.end.map(<[u8]>::to_vec);
        RangeSelection { start: bounds.start.to_vec(), end, at, shape, found, taken: 0 }
    }

    /// Keys still wanted.
    fn wanted(&self) -> usize {
        self.shape.fetch - self.taken
    }

    /// Whether each key of the range that exists is found.
    pub(crate) fn finds_all(&self) -> bool {
        self.shape.finds_all()
    }

    /// What is left of the range behind `key`, one of those that were found.
    pub(crate) fn rest_behind(&self, key: &[u8]) -> OwnedBounds {
        match self.shape.backwards {
            true => (self.start.clone(), Some(key.to_vec())),
            false => ([key, &[0]].concat(), self.end.clone()),
        }
    }

    /// Forgets what was found so far, and continues with the limit that is left.
    pub(crate) fn clear(&mut self) {
        self.taken += self.found.len();
        self.found.clear();
    }

    /// Examines up to `max_keys` keys. Returns whether the selection is complete.
    pub(crate) fn advance(&mut self, index: &KeyIndex, max_keys: usize) -> bool {
        if self.shape.backwards {
            self.advance_backwards(index, max_keys)
        } else {
            self.advance_forwards(index, max_keys)
        }
    }

    fn advance_forwards(&mut self, index: &KeyIndex, max_keys: usize) -> bool {
        let bounds = KeyBounds { start: &self.start, end: self.end.as_deref() };
        let wanted = self.wanted();
        let (found, shape, at) = (&mut self.found, &self.shape, self.at);
        let rest = walk_chunk(index, &bounds, max_keys, |key, record, _| {
            if found.len() >= wanted {
                return ControlFlow::Break(());
            }
            if let Some(version) = version_of(shape, at, record) {
                found.push(key, &version);
            }
            ControlFlow::Continue(())
        });
        if let Some(key) = &rest {
            self.start = key.as_slice().to_vec();
        }
        rest.is_none() || self.found.len() >= wanted
    }

    fn advance_backwards(&mut self, index: &KeyIndex, max_keys: usize) -> bool {
        let bounds = KeyBounds { start: &self.start, end: self.end.as_deref() };
        let wanted = self.wanted();
        let mut walk = index.walk(&bounds).rev();
        let mut last = None;
        for _ in 0..max_keys {
            if self.found.len() >= wanted {
                return true;
            }
            let Some((record, _)) = walk.next() else { return true };
            if let Some(version) = version_of(&self.shape, self.at, &record) {
                self.found.push(&record.key(), &version);
            }
            last = Some(record);
        }
        if let Some(record) = last {
            self.end = Some(record.key().to_vec());
        }
        self.found.len() >= wanted
    }
}

/// The record's version at `at`, if the key existed then and passes the filters.
#[inline]
fn version_of(shape: &RangePlan, at: Revision, record: &KeyRecord) -> Option<Version> {
    record.live_until(at).filter(|version| shape.filters.pass(version.revision.main, version.create))
}

/// Selects a single key. Returns 1 if the key exists at `at`, else 0: the count of the range.
pub(crate) fn select_key<F: RangeSink>(
    index: &KeyIndex,
    key: &[u8],
    at: Revision,
    shape: &RangePlan,
    found: &mut F,
) -> u64 {
    let Some(version) = index.record(key).and_then(|record| record.live_until(at)) else { return 0 };
    if !shape.count_only && shape.filters.pass(version.revision.main, version.create) {
        found.push(key, &version);
    }
    1
}
