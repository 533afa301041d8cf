//! The index as a whole: records, tree and revision log, changed together.

use std::ops::{ControlFlow, Deref};

use super::key::IndexKey;
use super::key_bytes::KeyBytes;
use super::record::KeyRecord;
use super::revision_log::RevisionLog;
use super::slab::Slab;
use super::tree::{KeyBounds, KeyTree, TreeEntry, TreePath};
use super::version::Version;
use crate::types::Revision;
use crate::values::ValueRef;

/// Live keys whose records are fetched together: as many reads from memory as a processor core carries out at once.
const MAX_LIVE_AHEAD: usize = 8;

/// The records, by slot.
pub(crate) type RecordSlab = Slab<KeyRecord>;

/// A key of the index with its versions, as a walk finds it; used like the record.
#[derive(Clone, Copy)]
pub(crate) struct KeyEntry<'a> {
    entry: TreeEntry<'a>,
    record: &'a KeyRecord,
}

impl<'a> KeyEntry<'a> {
    /// The key.
    #[inline]
    pub(crate) fn key(&self) -> KeyBytes<'a> {
        self.entry.key()
    }

    /// The length of the key.
    pub(crate) fn key_len(&self) -> usize {
        self.entry.key_len()
    }

    /// Its versions.
    pub(crate) fn record(&self) -> &'a KeyRecord {
        self.record
    }

    /// The key's slot.
    pub(crate) fn slot(&self) -> u32 {
        self.entry.slot
    }
}

impl Deref for KeyEntry<'_> {
    type Target = KeyRecord;

    #[inline]
    fn deref(&self) -> &KeyRecord {
        self.record
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
        let path = self.tree.seek(key);
        path.found.then(|| self.tree.slot_at(&path))
    }

    /// The record of `key`.
    pub(crate) fn record(&self, key: &[u8]) -> Option<&KeyRecord> {
        self.slot(key).map(|slot| self.records.get(slot))
    }

    /// Reads a byte of each record, so that the processor fetches all of them at once. Where much is done for each
    /// record, it would otherwise fetch one after the other.
    #[inline]
    fn touch(&self, slots: &[u32]) {
        for slot in slots {
            std::hint::black_box(self.records.get(*slot).is_alone());
        }
    }

    /// The record in `slot`, which must be valid.
    pub(crate) fn at_slot(&self, slot: u32) -> &KeyRecord {
        self.records.get(slot)
    }

    /// The key in `slot`, which must be valid.
    pub(crate) fn key(&self, slot: u32) -> KeyBytes<'_> {
        self.tree.key(slot)
    }

    /// Whether `slot` has a key: a slot that was noted may have lost it since.
    pub(crate) fn is_valid(&self, slot: u32) -> bool {
        self.tree.is_valid(slot)
    }

    /// Whether the key in `slot`, which must be valid, is in `bounds`; faster than to ask for the key.
    pub(crate) fn is_in(&self, slot: u32, bounds: &KeyBounds<'_>) -> bool {
        self.tree.is_in(slot, bounds)
    }

    /// The number of live keys in `bounds`, at the newest revision.
    pub(crate) fn count(&self, bounds: &KeyBounds<'_>) -> u64 {
        self.tree.count(bounds)
    }

    /// All keys in `bounds`, dead ones too, each with whether it is live; in key order, or from the end.
    pub(crate) fn walk<'a>(
        &'a self,
        bounds: &KeyBounds<'_>,
    ) -> impl DoubleEndedIterator<Item = (KeyEntry<'a>, bool)> + use<'a> {
        let with_record = |entry: TreeEntry<'a>| KeyEntry { entry, record: self.records.get(entry.slot) };
        let with_record = move |entry| {
            #[cfg(test)]
            crate::index::steps::count();
            with_record(entry)
        };
        self.tree.walk(bounds).map(move |entry| (with_record(entry), entry.is_live))
    }

    /// Slots of the first `max` live keys in `bounds`, in key order, and how many live keys follow them.
    pub(crate) fn live_slots(&self, bounds: &KeyBounds<'_>, max: usize) -> (Vec<u32>, u64) {
        let mut walk = self.tree.walk_live(bounds);
        let slots = walk.by_ref().take(max).collect();
        (slots, walk.left())
    }

    /// Visits the newest versions of the live keys in `bounds`, in key order, until `visit` breaks. Returns the key at
    /// which it broke, where a later visit resumes.
    pub(crate) fn visit_live(
        &self,
        bounds: &KeyBounds<'_>,
        mut visit: impl FnMut(&Version) -> ControlFlow<()>,
    ) -> Option<IndexKey> {
        let mut walk = self.tree.walk_live(bounds);
        let mut ahead = Vec::with_capacity(MAX_LIVE_AHEAD);
        loop {
            ahead.clear();
            ahead.extend(walk.by_ref().take(MAX_LIVE_AHEAD));
            if ahead.is_empty() {
                return None;
            }
            self.touch(&ahead);
            for slot in &ahead {
                #[cfg(test)]
                crate::index::steps::count();
                if visit(&self.records.get(*slot).newest()).is_break() {
                    return Some(IndexKey::new(&self.tree.key(*slot)));
                }
            }
        }
    }

    /// Adds a version to `key`; its `create` and `version` follow from the version before.
    pub(crate) fn put(&mut self, key: &[u8], revision: Revision, value: ValueRef, lease: i64) -> PutEffect {
        let path = self.tree.seek(key);
        self.referenced_bytes += key.len() as u64 + u64::from(value.len) + VERSION_OVERHEAD_BYTES;
        self.versions += 1;
        if !path.found {
            let first = Version { revision, create: revision.main, version: 1, lease, value };
            let record = KeyRecord::new(first);
            self.record_heap_bytes += record.heap_bytes() as u64;
            let slot = self.records.insert(record);
            self.tree.insert(&path, key, slot);
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

    /// The path of the key in `slot`, which must be valid; see [`KeyTree::move_to`].
    pub(crate) fn move_to<'p>(&self, slot: u32, path: &'p mut Option<TreePath>) -> &'p TreePath {
        self.tree.move_to(slot, path)
    }

    /// The key at `path`.
    pub(crate) fn key_at(&self, path: &TreePath) -> KeyBytes<'_> {
        self.tree.key_at(path)
    }

    /// Deletes the live key at `path`: its newest version becomes a tombstone. Returns the version that it had.
    pub(crate) fn tombstone(&mut self, path: &TreePath, revision: Revision) -> Version {
        assert!(path.found, "the tree contains every valid slot");
        let slot = self.tree.slot_at(path);
        let record = self.records.get_mut(slot);
        let newest = record.newest();
        assert!(!newest.is_tombstone(), "only a live key is deleted");
        let heap_before = record.heap_bytes();
        record.push(Version::tombstone(revision));
        resize(&mut self.record_heap_bytes, heap_before, record.heap_bytes());
        self.referenced_bytes += self.tree.key_at(path).len() as u64 + VERSION_OVERHEAD_BYTES;
        self.tree.set_live(path, false);
        self.log.push(revision, slot);
        newest
    }

    /// Adds a version that was made elsewhere. It must be newer than the other versions of its key; only the revision
    /// log is left out. Returns the key's slot, and its newest version before.
    pub(crate) fn import(&mut self, key: &[u8], version: Version) -> (u32, Option<Version>) {
        let path = self.tree.seek(key);
        self.referenced_bytes += footprint(key.len(), &version);
        self.versions += u64::from(!version.is_tombstone());
        if !path.found {
            let record = KeyRecord::new(version);
            self.record_heap_bytes += record.heap_bytes() as u64;
            let slot = self.records.insert(record);
            self.tree.insert(&path, key, slot);
            if version.is_tombstone() {
                self.tree.set_live(&self.tree.seek(key), false);
            }
            return (slot, None);
        }
        let slot = self.tree.slot_at(&path);
        let record = self.records.get_mut(slot);
        let newest = record.newest();
        let heap_before = record.heap_bytes();
        record.push(version);
        resize(&mut self.record_heap_bytes, heap_before, record.heap_bytes());
        if newest.is_tombstone() != version.is_tombstone() {
            self.tree.set_live(&path, !version.is_tombstone());
        }
        (slot, Some(newest))
    }

    /// Replaces the revision log by one that knows nothing but the newest revision.
    pub(crate) fn begin_log_at(&mut self, main: i64) {
        self.log = RevisionLog::default();
        self.log.push_unknown(main);
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
        let (versions, bytes, tree) = (&mut self.versions, &mut self.referenced_bytes, &self.tree);
        let heap_before = record.heap_bytes();
        let mut key_bytes = None;
        let mut forget = |version: &Version| {
            *versions -= u64::from(!version.is_tombstone());
            *bytes -= footprint(*key_bytes.get_or_insert_with(|| tree.key_len(slot)), version);
            dropped(version);
        };
        record.drop_before(revision, &mut forget);
        let is_empty = revision.main < at && record.drop_tombstone(revision, &mut forget);
        resize(&mut self.record_heap_bytes, heap_before, record.heap_bytes());
        is_empty.then(|| self.remove(slot))
    }

    /// Removes a key and its record. The key must be dead.
    fn remove(&mut self, slot: u32) -> IndexKey {
        let key = IndexKey::new(&self.tree.key(slot));
        let path = self.tree.seek(key.as_slice());
        assert!(path.found, "the tree contains every valid slot");
        self.tree.remove(&path);
        let record = self.records.remove(slot);
        self.record_heap_bytes -= record.heap_bytes() as u64;
        key
    }

    /// The live keys, in key order.
    pub(crate) fn live_keys_in_order(&self) -> impl Iterator<Item = KeyEntry<'_>> {
        self.walk(&KeyBounds::ALL).filter(|(_, live)| *live).map(|(entry, _)| entry)
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
        let mut last: Option<KeyBytes<'_>> = None;
        for (record, live) in self.walk(&KeyBounds::ALL) {
            let key = record.key();
            assert!(last.is_none_or(|last| *last < *key), "keys ascend");
            assert_eq!(*self.key(record.slot()), *key, "the way back from a slot leads to its key");
            last = Some(key);
            assert_eq!(live, record.is_live(), "the tree knows which keys are live");
            live_keys += u64::from(live);
            memory += size_of::<KeyRecord>() + record.heap_bytes();
            let mut before = None;
            for version in record.versions() {
                assert!(before < Some(version.revision), "versions ascend");
                assert!(version.value.is_consistent(), "only a value with bytes has an address");
                before = Some(version.revision);
                versions += u64::from(!version.is_tombstone());
                bytes += footprint(record.key_len(), &version);
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
    mut visit: impl FnMut(&[u8], &'a KeyRecord, bool) -> ControlFlow<()>,
) -> Option<IndexKey> {
    visit_chunk(index, bounds, max_keys, |slot, key, live| visit(key, index.records.get(slot), live))
}

/// As [`walk_chunk`], for a walk that wants the slots.
pub(crate) fn walk_slots(
    index: &KeyIndex,
    bounds: &KeyBounds<'_>,
    max_keys: usize,
    mut visit: impl FnMut(u32),
) -> Option<IndexKey> {
    visit_chunk(index, bounds, max_keys, |slot, _, _| {
        visit(slot);
        ControlFlow::Continue(())
    })
}

fn visit_chunk(
    index: &KeyIndex,
    bounds: &KeyBounds<'_>,
    max_keys: usize,
    mut visit: impl FnMut(u32, &[u8], bool) -> ControlFlow<()>,
) -> Option<IndexKey> {
    let (mut seen, mut rest) = (0, None);
    let ahead = |slots: &[u32]| index.touch(slots);
    index.tree.visit(bounds, ahead, |slot, key, live| {
        #[cfg(test)]
        crate::index::steps::count();
        if seen == max_keys || visit(slot, key, live).is_break() {
            rest = Some(IndexKey::new(key));
            return ControlFlow::Break(());
        }
        seen += 1;
        ControlFlow::Continue(())
    });
    rest
}
