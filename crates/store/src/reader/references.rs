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
    /// The references into `file` (the upper half of a place) held by keys from `from` on, looking at up to
    /// `max_keys` keys. Also returns the key to go on from, `None` at the end. Versions of one key are never
    /// split.
    pub fn live_references(
        &self,
        file: u32,
        from: &[u8],
        max_keys: usize,
    ) -> (Vec<Reference>, Option<Bytes>) {
        let state = self.shared.state.read();
        let mut found = Vec::new();
        let rest =
            walk_chunk(&state.index, &Bounds { start: from, end: None }, max_keys.max(1), |record, _| {
                for version in record.versions() {
                    if version.value.len > 0 && version.value.place >> 32 == u64::from(file) {
                        let key = Bytes::copy_from_slice(record.key());
                        found.push(Reference { key, revision: version.revision, value: version.value });
                    }
                }
                ControlFlow::Continue(())
            });
        (found, rest.map(|key| Bytes::copy_from_slice(key.as_slice())))
    }
}
