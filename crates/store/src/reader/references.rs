//! Walking the references to values, for whoever moves values between files.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::Reader;
use crate::index::tree::Bounds;
use crate::index::walk_chunk;
use crate::types::{Revision, ValueRef};

/// One version's reference to its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The key.
    pub key: Bytes,
    /// The version's revision.
    pub revision: Revision,
    /// Where the value is.
    pub value: ValueRef,
}

impl Reader {
    /// The references to places that are `wanted` held by keys from `from` on, looking at up to `max_keys` keys. Also
    /// returns the key to go on from, `None` at the end. Versions of one key are never split.
    pub fn live_references(
        &self,
        wanted: impl Fn(u64) -> bool,
        from: &[u8],
        max_keys: usize,
    ) -> (Vec<Reference>, Option<Bytes>) {
        let state = self.shared.state.read();
        let mut found = Vec::new();
        let rest =
            walk_chunk(&state.index, &Bounds { start: from, end: None }, max_keys.max(1), |record, _| {
                for version in record.versions() {
                    if version.value.len > 0 && wanted(version.value.address) {
                        let key = Bytes::copy_from_slice(record.key());
                        found.push(Reference { key, revision: version.revision, value: version.value });
                    }
                }
                ControlFlow::Continue(())
            });
        (found, rest.map(|key| Bytes::copy_from_slice(key.as_slice())))
    }

    /// The reference to the value that `key` got at exactly this revision, while that version is retained.
    pub fn reference(&self, key: &[u8], revision: Revision) -> Option<ValueRef> {
        let state = self.shared.state.read();
        let version = state.index.record(key)?.version_until(revision)?;
        (version.revision == revision && version.value.len > 0).then_some(version.value)
    }
}
