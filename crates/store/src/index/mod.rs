//! The key index: every retained version of every key, ordered by key, in memory.
//!
//! Three parts share small integers called *slots*:
//!
//! - [`Records`] is a slab of 64-byte [`Record`]s, one for each key: the key, its newest version inline and,
//!   only when there is a need, a box with its [`history`]. The number of a record in the slab is its slot.
//! - [`tree::Tree`] is a counted B+ tree of slots in key order. It knows which keys are live, so the number
//!   of live keys in any range costs one descent for each end.
//! - [`RevisionLog`] lists the slot of each change in revision order.
//!
//! A slot stays valid for as long as its key has any version, thus for as long as the revision log names it;
//! nobody else may keep one across a release of the lock. What walks in steps remembers the *key* it stopped
//! at.
//!
//! The index does not know leases, requests or values: only references to values pass through it.

mod history;
mod key;
mod record;
mod restore;
mod slab;
pub(crate) mod tree;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

pub(crate) use key::Key;
pub(crate) use record::{Record, Version};
pub(crate) use restore::Restoring;
pub(crate) use slab::Slab;
use tree::{Bounds, Keys, Tree};

use crate::revlog::RevisionLog;
use crate::types::{Revision, ValueRef};

/// The records by slot.
pub(crate) type Records = Slab<Record>;

impl Keys for Records {
    fn key(&self, slot: u32) -> &[u8] {
        self.get(slot).key()
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Index {
    records: Records,
    tree: Tree,
    log: RevisionLog,
    /// Retained versions that are not tombstones.
    versions: u64,
    /// Bytes that the retained versions stand for, see [`VERSION_OVERHEAD_BYTES`].
    referenced_bytes: u64,
}

/// What one retained version is counted as beside its key and value: about what its record, its place in the
/// log and its share of a checkpoint take. It makes a flood of tiny keys reach the quota too.
pub const VERSION_OVERHEAD_BYTES: u64 = 64;

/// What a write replaced.
pub(crate) struct Written {
    /// The key's slot.
    pub slot: u32,
    /// The key's newest version before, when it lived.
    pub previous: Option<Version>,
    /// The revision of the newest version before, live or not.
    pub previous_revision: Option<Revision>,
}

impl Index {
    /// The slot of `key`, if any version of it is retained.
    pub(crate) fn slot(&self, key: &[u8]) -> Option<u32> {
        let path = self.tree.seek(&self.records, key);
        path.found.then(|| self.tree.slot_at(&path))
    }

    /// The record of `key`.
    pub(crate) fn record(&self, key: &[u8]) -> Option<&Record> {
        self.slot(key).map(|slot| self.records.get(slot))
    }

    /// The record in `slot`, which must be in use.
    pub(crate) fn at_slot(&self, slot: u32) -> &Record {
        self.records.get(slot)
    }

    /// Live keys in `bounds` now.
    pub(crate) fn count(&self, bounds: &Bounds<'_>) -> u64 {
        self.tree.count(&self.records, bounds)
    }

    /// Records of all keys in `bounds`, dead ones too, in key order (or from its end).
    pub(crate) fn walk<'a>(
        &'a self,
        bounds: &Bounds<'_>,
    ) -> impl DoubleEndedIterator<Item = (&'a Record, bool)> + use<'a> {
        self.tree.walk(&self.records, bounds).map(|(slot, live)| (self.records.get(slot), live))
    }

    /// Slots of the live keys in `bounds`, in key order.
    pub(crate) fn live_slots(&self, bounds: &Bounds<'_>) -> Vec<u32> {
        self.tree.walk(&self.records, bounds).filter(|(_, live)| *live).map(|(slot, _)| slot).collect()
    }

    /// Writes a new version of `key`; `create` and `version` follow from what was there.
    pub(crate) fn put(&mut self, key: &[u8], revision: Revision, value: ValueRef, lease: i64) -> Written {
        let path = self.tree.seek(&self.records, key);
        self.referenced_bytes += key.len() as u64 + u64::from(value.len) + VERSION_OVERHEAD_BYTES;
        self.versions += 1;
        if !path.found {
            let first = Version { revision, create: revision.main, version: 1, lease, value };
            let slot = self.records.insert(Record::new(Key::new(key), first));
            self.tree.insert(&self.records, &path, slot);
            self.log.push(revision, slot);
            return Written { slot, previous: None, previous_revision: None };
        }
        let slot = self.tree.slot_at(&path);
        let record = self.records.get_mut(slot);
        let newest = record.newest();
        let live = !newest.is_tombstone();
        let (create, version) = if live { (newest.create, newest.version + 1) } else { (revision.main, 1) };
        record.push(Version { revision, create, version, lease, value });
        if !live {
            self.tree.set_live(&path, true);
        }
        self.log.push(revision, slot);
        Written { slot, previous: live.then_some(newest), previous_revision: Some(newest.revision) }
    }

    /// Deletes the live key in `slot`: its newest version becomes a tombstone.
    pub(crate) fn tombstone(&mut self, slot: u32, revision: Revision) -> Version {
        let path = self.tree.seek(&self.records, self.records.get(slot).key());
        assert!(path.found, "a slot in use is in the tree");
        let record = self.records.get_mut(slot);
        let newest = record.newest();
        assert!(!newest.is_tombstone(), "only a live key is deleted");
        record.push(Version::tombstone(revision));
        self.referenced_bytes += record.key().len() as u64 + VERSION_OVERHEAD_BYTES;
        self.tree.set_live(&path, false);
        self.log.push(revision, slot);
        newest
    }

    /// Points the version of `key` at `revision` to another place, if it still has the value `old`.
    pub(crate) fn relocate(&mut self, key: &[u8], revision: Revision, old: &ValueRef, address: u64) -> bool {
        let Some(slot) = self.slot(key) else { return false };
        match self.records.get_mut(slot).value_mut(revision) {
            Some(value) if value == old => {
                value.address = address;
                true
            }
            _ => false,
        }
    }

    /// Takes the oldest entry from the revision log, and drops what it supersedes, as if compacted at `at`.
    ///
    /// All versions of the entry's key that are older than the entry are dropped (the entry hides them from
    /// anyone who reads at `at` or later), and so is the entry's own version when it is a tombstone below
    /// `at`. Each dropped version goes to `dropped`; a key that has no version left is returned. Entries *at*
    /// `at` stay in the log.
    pub(crate) fn purge_entry(
        &mut self,
        revision: Revision,
        slot: u32,
        at: i64,
        dropped: &mut impl FnMut(&Version),
    ) -> Option<Key> {
        let record = self.records.get_mut(slot);
        let (versions, bytes) = (&mut self.versions, &mut self.referenced_bytes);
        let key_bytes = record.key().len();
        let mut forget = |version: &Version| {
            *versions -= u64::from(!version.is_tombstone());
            *bytes -= footprint(key_bytes, version);
            dropped(version);
        };
        record.drop_before(revision, &mut forget);
        if revision.main >= at {
            return None;
        }
        if !record.drop_tombstone(revision, &mut forget) {
            return None;
        }
        Some(self.remove(slot))
    }

    /// Takes a key and its record out. The key must be dead: live keys are counted.
    fn remove(&mut self, slot: u32) -> Key {
        let path = self.tree.seek(&self.records, self.records.get(slot).key());
        assert!(path.found, "a slot in use is in the tree");
        self.tree.remove(&self.records, &path);
        self.records.remove(slot).into_key()
    }

    /// The revision log.
    pub(crate) fn log(&self) -> &RevisionLog {
        &self.log
    }

    /// The revision log, to trim it.
    pub(crate) fn log_mut(&mut self) -> &mut RevisionLog {
        &mut self.log
    }

    /// Live keys.
    pub(crate) fn live_keys(&self) -> u64 {
        self.tree.live()
    }

    /// Retained versions that are not tombstones.
    pub(crate) fn versions(&self) -> u64 {
        self.versions
    }

    /// Bytes of keys, values and named overhead over all retained versions, tombstones included.
    pub(crate) fn referenced_bytes(&self) -> u64 {
        self.referenced_bytes
    }

    /// Bytes of memory the index takes, without what long keys have on the heap.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        let histories = self.walk(&Bounds::ALL).map(|(record, _)| record.resident_bytes()).sum::<usize>();
        histories + self.records.resident_bytes() + self.tree.resident_bytes() + self.log.resident_bytes()
    }
}

/// What a version counts for in [`Index::referenced_bytes`].
fn footprint(key_bytes: usize, version: &Version) -> u64 {
    key_bytes as u64 + u64::from(version.value.len) + VERSION_OVERHEAD_BYTES
}

/// Walks the keys of `bounds` until `visit` breaks or `max_keys` were seen. Returns the key to go on from.
///
/// This is how every long walk is cut: the caller holds the read lock for one call, and hands the returned
/// key in as the start of the next. Keys that come or go in between are no concern of a walk pinned at a
/// revision.
pub(crate) fn walk_chunk<'a>(
    index: &'a Index,
    bounds: &Bounds<'_>,
    max_keys: usize,
    mut visit: impl FnMut(&'a Record, bool) -> ControlFlow<()>,
) -> Option<Key> {
    for (seen, (record, live)) in index.walk(bounds).enumerate() {
        if seen == max_keys {
            return Some(Key::new(record.key()));
        }
        if visit(record, live).is_break() {
            return Some(Key::new(record.key()));
        }
    }
    None
}
