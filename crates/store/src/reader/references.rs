//! Walking the references to values, for relocation and repair.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::handle::Reader;
use crate::index::{KeyBounds, walk_chunk};
use crate::types::Revision;
use crate::values::ValueRef;

/// One version's reference to its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The key.
    pub key: Bytes,
    /// The version's revision.
    pub revision: Revision,
    /// The reference; its length is above 0.
    pub value: ValueRef,
}

impl Reader {
    /// The references whose log addresses are `wanted`, of up to `max_keys` keys from `from` on, all versions of a key
    /// at once. Also returns the key to continue from; `None` at the end.
    pub fn live_references(
        &self,
        wanted: impl Fn(u64) -> bool,
        from: &[u8],
        max_keys: usize,
    ) -> (Vec<Reference>, Option<Bytes>) {
        let state = self.shared.state.read();
        let mut found = Vec::new();
        let rest =
            walk_chunk(&state.index, &KeyBounds { start: from, end: None }, max_keys.max(1), |record, _| {
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

    /// The reference of the version of `key` at exactly this revision; `None` if it is not retained or has an empty
    /// value.
    pub fn reference(&self, key: &[u8], revision: Revision) -> Option<ValueRef> {
        let state = self.shared.state.read();
        let version = state.index.record(key)?.version_until(revision)?;
        (version.revision == revision && version.value.len > 0).then_some(version.value)
    }
}
