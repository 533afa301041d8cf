//! Builds an index from checkpoints.
//!
//! Each checkpoint contains its keys in ascending order, so a delta is merged into the sorted slots that the
//! checkpoints before it left, as in a merge sort; nothing is looked up in a tree. The tree is built once, at the end:
//!
//! ```text
//! base    a c e                 merged: a c e
//! delta   removed e; b c        before: a c e   merged: a b c     b is new, c gets a newer version
//! finish                        a b c -> full leaves, then inner nodes; the revision log, from the versions' revisions
//! ```

use std::collections::BTreeSet;

use super::key::IndexKey;
use super::key_index::{KeyIndex, RecordSlab, footprint};
use super::record::KeyRecord;
use super::revision_log::RevisionLog;
use super::tree::{KeyTree, SlotKeys};
use super::version::Version;
use crate::types::Revision;

#[cfg(test)]
mod tests;

/// Changes that may be missing from the history of a checkpoint, because they were purged while it was written. This is
/// far more than occurs, and still little memory: a thousand of them take less than 200 bytes of the revision log.
const MAX_MISSING_CHANGES: u64 = 1 << 28;

/// Up to this many revisions for each change, changes are ordered by counting, which is fast but takes 8 bytes for each
/// revision. A checkpoint that lacks more is unusual or forged: its changes are sorted instead.
const MAX_REVISIONS_PER_CHANGE: u64 = 4;

/// An index being restored.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    records: RecordSlab,
    /// Slots in key order, as far as the present checkpoint is read.
    merged: Vec<u32>,
    /// Slots in key order as the checkpoint before left them.
    before: Vec<u32>,
    /// How many of them are merged.
    taken: usize,
    /// The position in `before` where the last look-up ended.
    looked: usize,
    /// Slots in `before` whose keys are removed, unless this checkpoint writes them again.
    removed: BTreeSet<u32>,
}

impl IndexBuilder {
    /// Begins the next checkpoint.
    pub(crate) fn begin(&mut self) {
        self.complete();
        self.before = std::mem::take(&mut self.merged);
        self.merged.reserve(self.before.len());
    }

    /// Adds a version to a key. If `whole`, the checkpoint has all versions of the key, and those from before are
    /// dropped; otherwise the version must be newer than them. Returns false if keys or versions do not ascend.
    pub(crate) fn key(&mut self, key: &[u8], whole: bool, version: Version) -> bool {
        if self.merged.last().is_some_and(|last| self.records.key(*last) >= key) {
            return false;
        }
        let at = self.lower_bound(key, self.taken);
        self.merged.extend_from_slice(&self.before[self.taken..at]);
        self.taken = at;
        let Some(slot) = self.slot_at(at, key) else {
            self.merged.push(self.records.insert(KeyRecord::new(IndexKey::new(key), version)));
            return true;
        };
        self.taken += 1;
        self.merged.push(slot);
        if self.removed.remove(&slot) || whole {
            *self.records.get_mut(slot) = KeyRecord::new(IndexKey::new(key), version);
            return true;
        }
        self.version(version)
    }

    /// Adds another version to the same key. Returns false if it is not newer than those before.
    pub(crate) fn version(&mut self, version: Version) -> bool {
        let Some(slot) = self.merged.last() else { return false };
        let record = self.records.get_mut(*slot);
        let ascends = version.revision > record.newest().revision;
        if ascends {
            record.push(version);
        }
        ascends
    }

    /// Removes a key with all its versions, if the checkpoints before had it.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let slot = self.look_up(key);
        self.removed.extend(slot);
    }

    /// Gives a version from the checkpoints before a new log address, if it exists and has a value.
    pub(crate) fn relocate(&mut self, key: &[u8], revision: Revision, address: u64) {
        if let Some(slot) = self.look_up(key)
            && let Some(value) = self.records.get_mut(slot).value_of_mut(revision)
            && value.len > 0
        {
            value.address = address;
        }
    }

    /// Ends the checkpoint: keys of those before that follow its last key are kept.
    pub(crate) fn complete(&mut self) {
        self.merged.extend_from_slice(&self.before[self.taken..]);
        self.before = Vec::new();
        (self.taken, self.looked) = (0, 0);
        if !self.removed.is_empty() {
            self.merged.retain(|slot| !self.removed.contains(slot));
            for slot in std::mem::take(&mut self.removed) {
                self.records.remove(slot);
            }
        }
    }

    /// Finds a key of the checkpoints before. Fast when called in ascending order of keys.
    fn look_up(&mut self, key: &[u8]) -> Option<u32> {
        let looked = self.before.get(self.looked);
        let is_behind = looked.is_some_and(|slot| self.records.key(*slot) <= key);
        self.looked = self.lower_bound(key, if is_behind { self.looked } else { 0 });
        self.slot_at(self.looked, key)
    }

    fn slot_at(&self, at: usize, key: &[u8]) -> Option<u32> {
        self.before.get(at).copied().filter(|slot| self.records.key(*slot) == key)
    }

    /// The position in `before` of the first key not below `key`, searched from `from` on by galloping: a near position
    /// is found in a few steps.
    fn lower_bound(&self, key: &[u8], from: usize) -> usize {
        let is_below = |slot: &u32| self.records.key(*slot) < key;
        let (mut low, mut step) = (from, 1);
        while self.before.get(low + step - 1).is_some_and(is_below) {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(self.before.len());
        low + self.before[low..high].partition_point(is_below)
    }

    /// The index, with its revision log from `floor` to `revision`; `None` if the versions do not form one. Calls
    /// `visit` for each slot and record.
    pub(crate) fn finish(
        mut self,
        floor: i64,
        revision: i64,
        mut visit: impl FnMut(u32, &KeyRecord),
    ) -> Option<KeyIndex> {
        self.complete();
        let IndexBuilder { records, merged, .. } = self;
        let mut changes = Vec::with_capacity(merged.len());
        let (mut versions, mut referenced_bytes, mut record_heap_bytes) = (0, 0, 0);
        for slot in &merged {
            let record = records.get(*slot);
            visit(*slot, record);
            record_heap_bytes += record.heap_bytes() as u64;
            for version in record.versions() {
                versions += u64::from(!version.is_tombstone());
                referenced_bytes += footprint(record.key().len(), &version);
                if version.revision.main >= floor {
                    changes.push((version.revision, *slot));
                }
            }
        }
        let tree = KeyTree::from_sorted(&records, &merged, |slot| records.get(slot).is_live());
        drop(merged);
        let log = build_log(changes, revision)?;
        Some(KeyIndex::from_parts(records, tree, log, (versions, referenced_bytes, record_heap_bytes)))
    }
}

/// The revision log of changes in any order, up to `revision`. Its memory grows with the changes, not with those
/// missing.
fn build_log(changes: Vec<(Revision, u32)>, revision: i64) -> Option<RevisionLog> {
    let mains = || changes.iter().map(|(revision, _)| revision.main);
    let Some(first) = mains().min() else { return (revision == 1).then(RevisionLog::default) };
    if first < 1 || mains().max() != Some(revision) {
        return None;
    }
    let revisions = (revision - first) as u64 + 1;
    let known = changes.len() as u64;
    let mut building =
        RevisionLogBuilder { log: RevisionLog::default(), last: None, missing: MAX_MISSING_CHANGES };
    building.count_missing(revisions.saturating_sub(known))?;
    if revisions / MAX_REVISIONS_PER_CHANGE <= known {
        building.add_by_counting(changes, first, revisions)?;
    } else {
        building.add_sorted(changes)?;
    }
    Some(building.log)
}

/// A revision log being built.
struct RevisionLogBuilder {
    log: RevisionLog,
    last: Option<Revision>,
    /// Missing changes that are still allowed.
    missing: u64,
}

impl RevisionLogBuilder {
    /// For revisions of which few are missing and nearly all have one change: orders them by counting.
    fn add_by_counting(&mut self, changes: Vec<(Revision, u32)>, first: i64, revisions: u64) -> Option<()> {
        let mut firsts = vec![None; usize::try_from(revisions).ok()?];
        let mut others = Vec::new();
        for (at, slot) in changes {
            match at.sub {
                0 => firsts[(at.main - first) as usize].replace(slot).is_none().then_some(())?,
                _ => others.push((at, slot)),
            }
        }
        others.sort_unstable();
        let mut others = others.into_iter().peekable();
        for (main, slot) in (first..).zip(firsts) {
            if let Some(slot) = slot {
                self.add(Revision { main, sub: 0 }, slot)?;
            }
            while let Some((at, slot)) = others.next_if(|(at, _)| at.main == main) {
                self.add(at, slot)?;
            }
        }
        Some(())
    }

    fn add_sorted(&mut self, mut changes: Vec<(Revision, u32)>) -> Option<()> {
        changes.sort_unstable();
        changes.into_iter().try_for_each(|(at, slot)| self.add(at, slot))
    }

    /// Adds a change, which must be newer than the one before.
    fn add(&mut self, at: Revision, slot: u32) -> Option<()> {
        let next_sub = match self.last {
            Some(last) if last.main == at.main => last.sub.checked_add(1)?,
            _ => 0,
        };
        self.count_missing(u64::from(at.sub.checked_sub(next_sub)?))?;
        self.log.push_after_unknown(at, slot);
        self.last = Some(at);
        Some(())
    }

    fn count_missing(&mut self, missing: u64) -> Option<()> {
        self.missing = self.missing.checked_sub(missing)?;
        Some(())
    }
}
