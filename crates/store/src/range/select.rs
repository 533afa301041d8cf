//! Selecting keys at a revision, in chunks.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::Shape;
use crate::encode::Found;
use crate::index::tree::Bounds;
use crate::index::{Index, Record, Version, walk_chunk};
use crate::types::{KvRef, Revision};

/// Where a selection puts what it finds.
pub(crate) trait Findings {
    fn push(&mut self, key: &[u8], version: &Version);

    fn len(&self) -> usize;
}

impl Findings for Vec<KvRef> {
    fn push(&mut self, key: &[u8], version: &Version) {
        Vec::push(self, kv_ref(Bytes::copy_from_slice(key), version));
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }
}

/// A range being read: the part that is still to be walked and what was found.
pub(crate) struct Selection<F = Vec<KvRef>> {
    start: Vec<u8>,
    /// `None`: to the end.
    end: Option<Vec<u8>>,
    /// Newer versions are not seen.
    at: Revision,
    shape: Shape,
    pub(crate) found: F,
    /// Keys that were found before and taken away.
    taken: usize,
}

impl Selection {
    /// Takes what was found so far away.
    pub(crate) fn take(&mut self) -> Vec<KvRef> {
        self.taken += self.found.len();
        std::mem::take(&mut self.found)
    }
}

impl Selection<Found> {
    /// Forgets what was found so far.
    pub(crate) fn clear(&mut self) {
        self.taken += self.found.len();
        self.found.clear();
    }
}

impl<F: Findings> Selection<F> {
    /// Nothing of `bounds` walked yet; what is found goes to `found`.
    pub(crate) fn new(bounds: &Bounds<'_>, at: Revision, shape: Shape, found: F) -> Selection<F> {
        let end = bounds.end.map(<[u8]>::to_vec);
        Selection { start: bounds.start.to_vec(), end, at, shape, found, taken: 0 }
    }

    /// Keys still to be found.
    fn wanted(&self) -> usize {
        self.shape.fetch - self.taken
    }

    /// Looks at up to `max_keys` keys. Returns whether the selection is complete.
    pub(crate) fn advance(&mut self, index: &Index, max_keys: usize) -> bool {
        if self.shape.backwards {
            self.advance_backwards(index, max_keys)
        } else {
            self.advance_forwards(index, max_keys)
        }
    }

    fn advance_forwards(&mut self, index: &Index, max_keys: usize) -> bool {
        let bounds = Bounds { start: &self.start, end: self.end.as_deref() };
        let wanted = self.wanted();
        let (found, shape, at) = (&mut self.found, &self.shape, self.at);
        let rest = walk_chunk(index, &bounds, max_keys, |record, _| {
            if found.len() >= wanted {
                return ControlFlow::Break(());
            }
            if let Some(version) = version_of(shape, at, record) {
                found.push(record.key(), &version);
            }
            ControlFlow::Continue(())
        });
        if let Some(key) = &rest {
            self.start = key.as_slice().to_vec();
        }
        rest.is_none() || self.found.len() >= wanted
    }

    fn advance_backwards(&mut self, index: &Index, max_keys: usize) -> bool {
        let bounds = Bounds { start: &self.start, end: self.end.as_deref() };
        let wanted = self.wanted();
        let mut walk = index.walk(&bounds).rev();
        let mut last = None;
        for _ in 0..max_keys {
            if self.found.len() >= wanted {
                return true;
            }
            let Some((record, _)) = walk.next() else { return true };
            if let Some(version) = version_of(&self.shape, self.at, record) {
                self.found.push(record.key(), &version);
            }
            last = Some(record.key());
        }
        if let Some(key) = last {
            self.end = Some(key.to_vec());
        }
        self.found.len() >= wanted
    }
}

/// The record's version at `at`, if there is one and it passes.
#[inline]
fn version_of(shape: &Shape, at: Revision, record: &Record) -> Option<Version> {
    record.live_until(at).filter(|version| shape.filters.pass(version.revision.main, version.create))
}

/// What is selected of a single key; also whether the key is there at all, for the count.
pub(crate) fn lone<F: Findings>(
    index: &Index,
    key: &[u8],
    at: Revision,
    shape: &Shape,
    found: &mut F,
) -> u64 {
    let Some(version) = index.record(key).and_then(|record| record.live_until(at)) else { return 0 };
    if !shape.count_only && shape.filters.pass(version.revision.main, version.create) {
        found.push(key, &version);
    }
    1
}

/// A version as it leaves the index.
pub(crate) fn kv_ref(key: Bytes, version: &Version) -> KvRef {
    KvRef {
        key,
        create_revision: version.create,
        mod_revision: version.revision,
        version: version.version,
        lease: version.lease,
        value: version.value,
    }
}
