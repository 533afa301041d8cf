//! The index as a whole: records, tree and revision log, changed together.

use std::ops::ControlFlow;

use super::key::IndexKey;
use super::record::KeyRecord;
use super::revision_log::RevisionLog;
use super::slab::Slab;
use super::tree::{KeyBounds, KeyTree, SlotKeys};
use super::version::Version;
use crate::types::Revision;
use crate::values::ValueRef;

/// The records, by slot.
pub(crate) type RecordSlab = Slab<KeyRecord>;

impl SlotKeys for RecordSlab {
    fn key(&self, slot: u32) -> &[u8] {
        self.get(slot).key()
    }
}

/// See [`crate::index`].
#[derive(Default)]
pub(crate) struct KeyIndex {
    records: RecordSlab,
    tree: KeyTree,
    log: RevisionLog,
    /// Retained versions that are not tombstones.
    versions: u64,
    /// Sum of [`footprint`] over the retained versions, tombstones included.
    referenced_bytes: u64,
    /// Sum of [`KeyRecord::heap_bytes`] over the records.
    record_heap_bytes: u64,
}

/// Bytes that a retained version counts as, besides its key and value: about what its record, its entry in the log and
/// its share of a checkpoint take. With it, a flood of tiny keys reaches the quota too.
pub const VERSION_OVERHEAD_BYTES: u64 = 64;

/// What a put replaced.
pub(crate) struct PutEffect {
    /// The key's slot.
    pub slot: u32,
    /// The key's newest version before, if the key was live.
    pub previous: Option<Version>,
    /// The revision of the key's newest version before, live or not.
    pub previous_revision: Option<Revision>,
}

impl KeyIndex {
    /// An index of parts that belong together, with its counts.
    pub(super) fn from_parts(
        records: RecordSlab,
        tree: KeyTree,
        log: RevisionLog,
        (versions, referenced_bytes, record_heap_bytes): (u64, u64, u64),
    ) -> KeyIndex {
        KeyIndex { records, tree, log, versions, referenced_bytes, record_heap_bytes }
    }

    /// The slot of `key`, if any version of it is retained.
    pub(crate) fn slot(&self, key: &[u8]) -> Option<u32> {
        let path = self.tree.seek(&self.records, key);
        path.found.then(|| self.tree.slot_at(&path))
    }

    /// The record of `key`.
    pub(crate) fn record(&self, key: &[u8]) -> Option<&KeyRecord> {
        self.slot(key).map(|slot| self.records.get(slot))
    }

    /// The record in `slot`, which must be valid.
    pub(crate) fn at_slot(&self, slot: u32) -> &KeyRecord {
        self.records.get(slot)
    }

    /// The number of live keys in `bounds`, at the newest revision.
    pub(crate) fn count(&self, bounds: &KeyBounds<'_>) -> u64 {
        self.tree.count(&self.records, bounds)
    }

    /// The records of all keys in `bounds`, dead ones too, each with whether it is live; in key order, or from the end.
    pub(crate) fn walk<'a>(
        &'a self,
        bounds: &KeyBounds<'_>,
    ) -> impl DoubleEndedIterator<Item = (&'a KeyRecord, bool)> + use<'a> {
        self.tree.walk(&self.records, bounds).map(|(slot, live)| (self.records.get(slot), live))
    }

    /// Slots of the first `max` live keys in `bounds`, in key order, and how many live keys follow them.
    pub(crate) fn live_slots(&self, bounds: &KeyBounds<'_>, max: usize) -> (Vec<u32>, u64) {
        let mut walk = self.tree.walk_live(&self.records, bounds);
        let slots = walk.by_ref().take(max).collect();
        (slots, walk.left())
    }

    /// The records of the live keys in `bounds`, in key order.
    pub(crate) fn walk_live(&self, bounds: &KeyBounds<'_>) -> impl Iterator<Item = &KeyRecord> {
        self.tree.walk_live(&self.records, bounds).map(|slot| self.records.get(slot))
    }

    /// Adds a version to `key`; its `create` and `version` follow from the version before.
    pub(crate) fn put(&mut self, key: &[u8], revision: Revision, value: ValueRef, lease: i64) -> PutEffect {
        let path = self.tree.seek(&self.records, key);
        self.referenced_bytes += key.len() as u64 + u64::from(value.len) + VERSION_OVERHEAD_BYTES;
        self.versions += 1;
        if !path.found {
            let first = Version { revision, create: revision.main, version: 1, lease, value };
            let record = KeyRecord::new(IndexKey::new(key), first);
            self.record_heap_bytes += record.heap_bytes() as u64;
            let slot = self.records.insert(record);
            self.tree.insert(&self.records, &path, slot);
            self.log.push(revision, slot);
            return PutEffect { slot, previous: None, previous_revision: None };
        }
        let slot = self.tree.slot_at(&path);
        let record = self.records.get_mut(slot);
        let newest = record.newest();
        let live = !newest.is_tombstone();
        let (create, version) = if live { (newest.create, newest.version + 1) } else { (revision.main, 1) };
        let heap_before = record.heap_bytes();
        record.push(Version { revision, create, version, lease, value });
        resize(&mut self.record_heap_bytes, heap_before, record.heap_bytes());
        if !live {
            self.tree.set_live(&path, true);
        }
        self.log.push(revision, slot);
        PutEffect { slot, previous: live.then_some(newest), previous_revision: Some(newest.revision) }
    }

    /// Deletes the live key in `slot`: its newest version becomes a tombstone.
    pub(crate) fn tombstone(&mut self, slot: u32, revision: Revision) -> Version {
        let path = self.tree.seek(&self.records, self.records.get(slot).key());
        assert!(path.found, "the tree contains every valid slot");
        let record = self.records.get_mut(slot);
        let newest = record.newest();
        assert!(!newest.is_tombstone(), "only a live key is deleted");
        let heap_before = record.heap_bytes();
        record.push(Version::tombstone(revision));
        resize(&mut self.record_heap_bytes, heap_before, record.heap_bytes());
        self.referenced_bytes += record.key().len() as u64 + VERSION_OVERHEAD_BYTES;
        self.tree.set_live(&path, false);
        self.log.push(revision, slot);
        newest
    }

    /// Gives the version of `key` at `revision`, and those that share its value, a new log address, if it still has the
    /// value `old`. Calls `changed` with the revision of each.
    pub(crate) fn relocate(
        &mut self,
        key: &[u8],
        revision: Revision,
        old: &ValueRef,
        address: u64,
        changed: impl FnMut(Revision),
    ) -> bool {
        let slot = self.slot(key);
        slot.is_some_and(|slot| self.records.get_mut(slot).relocate(revision, old, address, changed))
    }

    /// Drops what an entry of the revision log supersedes, for a compaction at `at`: all versions of its key older than
    /// the entry, and the entry's own version if it is a tombstone below `at`. Hands each dropped version to `dropped`.
    /// Returns the key if it has no version left and was removed.
    pub(crate) fn purge_entry(
        &mut self,
        revision: Revision,
        slot: u32,
        at: i64,
        dropped: &mut impl FnMut(&Version),
    ) -> Option<IndexKey> {
        let record = self.records.get_mut(slot);
        let (versions, bytes) = (&mut self.versions, &mut self.referenced_bytes);
        let (key_bytes, heap_before) = (record.key().len(), record.heap_bytes());
        let mut forget = |version: &Version| {
            *versions -= u64::from(!version.is_tombstone());
            *bytes -= footprint(key_bytes, version);
            dropped(version);
        };
        record.drop_before(revision, &mut forget);
        let is_empty = revision.main < at && record.drop_tombstone(revision, &mut forget);
        resize(&mut self.record_heap_bytes, heap_before, record.heap_bytes());
        is_empty.then(|| self.remove(slot))
    }

    /// Removes a key and its record. The key must be dead.
    fn remove(&mut self, slot: u32) -> IndexKey {
        let path = self.tree.seek(&self.records, self.records.get(slot).key());
        assert!(path.found, "the tree contains every valid slot");
        self.tree.remove(&self.records, &path);
        let record = self.records.remove(slot);
        self.record_heap_bytes -= record.heap_bytes() as u64;
        record.into_key()
    }

    /// Slots and records of the live keys, in key order.
    pub(crate) fn live_records(&self) -> impl Iterator<Item = (u32, &KeyRecord)> {
        let live = self.tree.walk(&self.records, &KeyBounds::ALL).filter(|(_, live)| *live);
        live.map(|(slot, _)| (slot, self.records.get(slot)))
    }

    /// The revision log.
    pub(crate) fn log(&self) -> &RevisionLog {
        &self.log
    }

    /// The revision log, for purging.
    pub(crate) fn log_mut(&mut self) -> &mut RevisionLog {
        &mut self.log
    }

    /// The number of live keys.
    pub(crate) fn live_keys(&self) -> u64 {
        self.tree.live()
    }

    /// The number of retained versions that are not tombstones.
    pub(crate) fn versions(&self) -> u64 {
        self.versions
    }

    /// Bytes of keys, values and [overhead](VERSION_OVERHEAD_BYTES) of all retained versions, tombstones included.
    pub(crate) fn referenced_bytes(&self) -> u64 {
        self.referenced_bytes
    }

    /// [Accounted](crate::memory) bytes of the records and the tree, without the revision log.
    pub(crate) fn accounted_bytes(&self) -> u64 {
        self.record_heap_bytes + (self.records.used_bytes() + self.tree.accounted_bytes()) as u64
    }

    /// Checks the counts against each other.
    pub(crate) fn check(&self) {
        assert!(self.live_keys() <= self.versions, "a live key has a version");
        assert!(
            self.versions * VERSION_OVERHEAD_BYTES <= self.referenced_bytes,
            "each version has its overhead"
        );
    }

    /// Walks all keys and the revision log, and recomputes what is derived from them. History up to `purged` may be
    /// incomplete.
    pub(crate) fn check_all(&self, purged: i64) {
        let (mut live_keys, mut versions, mut bytes, mut logged) = (0, 0, 0, 0);
        let mut memory = self.tree.walk_accounted_bytes();
        let floor = self.log.front().map_or(Revision::default(), |entry| entry.revision);
        let mut last: Option<&[u8]> = None;
        for (record, live) in self.walk(&KeyBounds::ALL) {
            assert!(last.is_none_or(|last| last < record.key()), "keys ascend");
            last = Some(record.key());
            assert_eq!(live, record.is_live(), "the tree knows which keys are live");
            live_keys += u64::from(live);
            memory += size_of::<KeyRecord>() + record.heap_bytes();
            let mut before = None;
            for version in record.versions() {
                assert!(before < Some(version.revision), "versions ascend");
                assert!(version.value.is_consistent(), "only a value with bytes has an address");
                before = Some(version.revision);
                versions += u64::from(!version.is_tombstone());
                bytes += footprint(record.key().len(), &version);
                logged += usize::from(version.revision >= floor && version.revision.main > purged);
            }
        }
        assert_eq!(self.live_keys(), live_keys, "live keys are counted");
        assert_eq!(self.versions, versions, "versions are counted");
        assert_eq!(self.referenced_bytes, bytes, "referenced bytes are counted");
        assert_eq!(self.accounted_bytes(), memory as u64, "the memory of records and tree is accounted");
        self.check_log(purged, logged);
    }

    /// Each entry above `purged` names a key that has a version of exactly that revision; `versions` have one.
    fn check_log(&self, purged: i64, versions: usize) {
        let mut named = 0;
        for entry in self.log.iter_from(purged + 1) {
            let Some(slot) = entry.slot else { continue };
            let version = self.at_slot(slot).version_exactly(entry.revision);
            assert!(version.is_some(), "the revision log names the key changed at {:?}", entry.revision);
            named += 1;
        }
        assert_eq!(named, versions, "the revision log names every version above {purged}");
    }

    /// Bytes of memory that the index takes, without what rounding costs.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        let histories = self.walk(&KeyBounds::ALL).map(|(record, _)| record.heap_bytes()).sum::<usize>();
        histories + self.records.resident_bytes() + self.tree.resident_bytes() + self.log.accounted_bytes()
    }
}

/// Changes a sum of which one part changed.
fn resize(sum: &mut u64, before: usize, after: usize) {
    *sum = *sum + after as u64 - before as u64;
}

/// The bytes that a version counts as in [`KeyIndex::referenced_bytes`].
pub(super) fn footprint(key_bytes: usize, version: &Version) -> u64 {
    key_bytes as u64 + u64::from(version.value.len) + VERSION_OVERHEAD_BYTES
}

/// Visits the keys of `bounds` until `visit` breaks or `max_keys` were visited. Returns the key to continue from, or
/// `None` at the end.
///
/// Every long walk is divided in this way: the caller holds the read lock for one call, and passes the returned key as
/// the start of the next. Keys that are created or removed in between do not affect a walk at a pinned revision.
pub(crate) fn walk_chunk<'a>(
    index: &'a KeyIndex,
    bounds: &KeyBounds<'_>,
    max_keys: usize,
    mut visit: impl FnMut(&'a KeyRecord, bool) -> ControlFlow<()>,
) -> Option<IndexKey> {
    for (seen, (record, live)) in index.walk(bounds).enumerate() {
        if seen == max_keys {
            return Some(IndexKey::new(record.key()));
        }
        if visit(record, live).is_break() {
            return Some(IndexKey::new(record.key()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shuffled sequence of `0..len` without a source of randomness: a full-period walk of an odd stride.
    fn shuffled(len: u64) -> impl Iterator<Item = u64> {
        (0..len)
            .map(move |n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % len.next_power_of_two())
            .filter(move |n| *n < len)
    }

    fn value(address: u64) -> ValueRef {
        ValueRef { address, len: 256, checksum: address as u32 }
    }

    #[test]
    fn a_key_of_eight_bytes_takes_about_eighty_bytes() {
        const KEYS: u64 = 1 << 17;
        for random in [false, true] {
            let mut index = KeyIndex::default();
            let order: Vec<u64> = if random { shuffled(KEYS).collect() } else { (0..KEYS).collect() };
            for (main, n) in order.iter().enumerate() {
                index.put(&n.to_be_bytes(), Revision { main: main as i64 + 2, sub: 0 }, value(*n), 0);
            }
            let per_key = index.resident_bytes() as f64 / index.live_keys() as f64;
            let accounted = (index.accounted_bytes() as usize + index.log().accounted_bytes()) as f64;
            let exactness = accounted / index.resident_bytes() as f64;
            assert!((0.95..1.05).contains(&exactness), "{exactness} of what is resident is accounted");
            assert!(
                per_key < if random { 84.0 } else { 78.0 },
                "{per_key} bytes a key, random order: {random}"
            );
        }
    }

    /// Resident memory includes the allocator's rounding, so this is below the figures in the operators' documents.
    #[test]
    fn a_retained_older_version_takes_about_fifty_bytes() {
        const KEYS: u64 = 1 << 12;
        let mut index = KeyIndex::default();
        let mut main = 1;
        let mut write_all = |index: &mut KeyIndex| {
            for n in 0..KEYS {
                main += 1;
                index.put(&n.to_be_bytes(), Revision { main, sub: 0 }, value(n), 0);
            }
        };
        write_all(&mut index);
        let alone = index.resident_bytes() as f64;
        for older in 1..=20 {
            write_all(&mut index);
            let per_version = (index.resident_bytes() as f64 - alone) / (older * KEYS) as f64;
            assert!(
                per_version < 70.0,
                "{per_version} bytes a version with {older} older versions of each key"
            );
            assert!(
                older != 1 || per_version < 53.0,
                "{per_version} bytes for the only older version of a key"
            );
        }
    }
}
