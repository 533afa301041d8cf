//! Finding the references to values, for relocation and repair: by key where it is known, otherwise by a walk.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::handle::Reader;
use crate::index::{KeyBounds, walk_chunk};
use crate::types::Revision;
use crate::values::ValueRef;

/// Versions looked at in one lock hold of [`Reader::references_to`].
const HOLD_VERSIONS: usize = 1_000;

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
    /// For each of these keys and log addresses, the reference of the key's first retained version whose value is at
    /// that address; `None` if it has none. The lock is held for about a thousand versions at a time.
    pub fn references_to(&self, wanted: &[(Bytes, u64)]) -> Vec<Option<Reference>> {
        let mut found = vec![None; wanted.len()];
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_unstable_by(|one, other| wanted[*one].cmp(&wanted[*other]));
        for same_key in order.chunk_by(|one, other| wanted[*one].0 == wanted[*other].0) {
            self.references_of_key(wanted, same_key, &mut found);
        }
        found
    }

    /// Looks for the `wanted` addresses at the positions `same_key`, which are in the order of the addresses.
    fn references_of_key(
        &self,
        wanted: &[(Bytes, u64)],
        same_key: &[usize],
        found: &mut [Option<Reference>],
    ) {
        let key = &wanted[same_key[0]].0;
        let mut after = Revision { main: i64::MIN, sub: 0 };
        loop {
            let state = self.shared.state.read();
            let Some(record) = state.index.record(key) else { return };
            let seen = record.versions_until(after);
            for version in record.versions().skip(seen).take(HOLD_VERSIONS) {
                after = version.revision;
                let address = version.value.address;
                let first = same_key.partition_point(|at| wanted[*at].1 < address);
                let positions = &same_key[first..];
                for at in positions.iter().take_while(|at| wanted[**at].1 == address) {
                    if version.value.len > 0 && found[*at].is_none() {
                        let (revision, value) = (version.revision, version.value);
                        found[*at] = Some(Reference { key: key.clone(), revision, value });
                    }
                }
            }
            if record.newest().revision <= after {
                return;
            }
        }
    }

    /// The references whose log addresses are `wanted`, of up to `max_keys` keys from `from` on, all versions of a key
    /// at once; of versions that share a value, the first. Also returns the key to continue from; `None` at the end.
    pub fn live_references(
        &self,
        wanted: impl Fn(u64) -> bool,
        from: &[u8],
        max_keys: usize,
    ) -> (Vec<Reference>, Option<Bytes>) {
        let state = self.shared.state.read();
        let mut found = Vec::new();
        let rest = walk_chunk(
            &state.index,
            &KeyBounds { start: from, end: None },
            max_keys.max(1),
            |key, record, _| {
                let mut before = None;
                for version in record.versions() {
                    let is_shared = before.replace(version.value) == Some(version.value);
                    if version.value.len > 0 && !is_shared && wanted(version.value.address) {
                        let key = Bytes::copy_from_slice(key);
                        found.push(Reference { key, revision: version.revision, value: version.value });
                    }
                }
                ControlFlow::Continue(())
            },
        );
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
