//! Selecting keys at a revision, in chunks.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::Shape;
use crate::index::tree::Bounds;
use crate::index::{Index, Record, Version, walk_chunk};
use crate::types::{KvRef, Revision};

/// A range being read: the part that is still to be walked and what was found.
pub(crate) struct Selection {
    start: Vec<u8>,
    /// `None`: to the end.
    end: Option<Vec<u8>>,
    /// Newer versions are not seen.
    at: Revision,
    shape: Shape,
    pub(crate) kvs: Vec<KvRef>,
    /// Keys that were found before and taken away.
    taken: usize,
}

impl Selection {
    /// Nothing of `bounds` walked yet.
    pub(crate) fn new(bounds: &Bounds<'_>, at: Revision, shape: Shape) -> Selection {
        let end = bounds.end.map(<[u8]>::to_vec);
        Selection { start: bounds.start.to_vec(), end, at, shape, kvs: Vec::new(), taken: 0 }
    }

    /// Takes what was found so far away.
    pub(crate) fn take(&mut self) -> Vec<KvRef> {
        self.taken += self.kvs.len();
        std::mem::take(&mut self.kvs)
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
        let (kvs, shape, at) = (&mut self.kvs, &self.shape, self.at);
        let rest = walk_chunk(index, &bounds, max_keys, |record, _| {
            if kvs.len() >= wanted {
                return ControlFlow::Break(());
            }
            kvs.extend(version_of(shape, at, record));
            ControlFlow::Continue(())
        });
        if let Some(key) = &rest {
            self.start = key.as_slice().to_vec();
        }
        rest.is_none() || self.kvs.len() >= wanted
    }

    fn advance_backwards(&mut self, index: &Index, max_keys: usize) -> bool {
        let bounds = Bounds { start: &self.start, end: self.end.as_deref() };
        let wanted = self.wanted();
        let mut walk = index.walk(&bounds).rev();
        let mut last = None;
        for _ in 0..max_keys {
            if self.kvs.len() >= wanted {
                return true;
            }
            let Some((record, _)) = walk.next() else { return true };
            self.kvs.extend(version_of(&self.shape, self.at, record));
            last = Some(record.key());
        }
        if let Some(key) = last {
            self.end = Some(key.to_vec());
        }
        self.kvs.len() >= wanted
    }
}

/// The record's version at `at`, if there is one and it passes.
fn version_of(shape: &Shape, at: Revision, record: &Record) -> Option<KvRef> {
    let version = record.live_until(at)?;
    let passes = shape.filters.pass(version.revision.main, version.create);
    passes.then(|| kv_ref(Bytes::copy_from_slice(record.key()), &version))
}

/// What is selected of a single key; also whether the key is there at all, for the count.
pub(crate) fn lone(index: &Index, key: &Bytes, at: Revision, shape: &Shape) -> (Vec<KvRef>, u64) {
    let Some(version) = index.record(key).and_then(|record| record.live_until(at)) else {
        return (Vec::new(), 0);
    };
    let passes = !shape.count_only && shape.filters.pass(version.revision.main, version.create);
    let kvs = if passes { vec![kv_ref(key.clone(), &version)] } else { Vec::new() };
    (kvs, 1)
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
