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

/// A place in the order of keys and, within a key, of revisions. The default is before all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPosition {
    /// The first key that is not passed.
    pub key: Bytes,
    /// Versions of `key` up to this revision are passed.
    pub after: Option<Revision>,
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

    /// Looks at up to `max_versions` retained versions from `from` on, in the order of keys and revisions, in one
    /// hold of the lock. Returns the references whose log addresses are `wanted`; of versions that follow each other
    /// and share a value, the first. Also returns where to go on; `None` at the end.
    pub fn live_references(
        &self,
        wanted: impl Fn(u64) -> bool,
        from: &VersionPosition,
        max_versions: usize,
    ) -> (Vec<Reference>, Option<VersionPosition>) {
        let state = self.shared.state.read();
        let (mut found, mut left, mut within) = (Vec::new(), max_versions.max(1), None);
        let bounds = KeyBounds { start: &from.key, end: None };
        // The budget ends the walk: each key has a version.
        let rest = walk_chunk(&state.index, &bounds, usize::MAX, |key, record, _| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            let after = from.after.filter(|_| from.key == key);
            let seen = after.map_or(0, |after| record.versions_until(after));
            let mut before = after.and_then(|after| record.version_until(after)).map(|version| version.value);
            let mut shared_key = None;
            let mut last = None;
            for version in record.versions().skip(seen).take(left) {
                last = Some(version.revision);
                left -= 1;
                let is_shared = before.replace(version.value) == Some(version.value);
                if version.value.len > 0 && !is_shared && wanted(version.value.address) {
                    let key = shared_key.get_or_insert_with(|| Bytes::copy_from_slice(key)).clone();
                    found.push(Reference { key, revision: version.revision, value: version.value });
                }
            }
            within = last.filter(|last| *last < record.newest().revision);
            if within.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let rest =
            rest.map(|key| VersionPosition { key: Bytes::copy_from_slice(key.as_slice()), after: within });
        (found, rest)
    }

    /// The reference of the version of `key` at exactly this revision; `None` if it is not retained or has an empty
    /// value.
    pub fn reference(&self, key: &[u8], revision: Revision) -> Option<ValueRef> {
        let state = self.shared.state.read();
        let version = state.index.record(key)?.version_until(revision)?;
        (version.revision == revision && version.value.len > 0).then_some(version.value)
    }
}
