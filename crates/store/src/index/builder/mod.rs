//! Builds an index from keys in ascending order, as the merge of a chain of checkpoints hands them over.
//!
//! Nothing is looked up: records get ascending slots, and their keys go to the end of the tree, a leaf at a
//! time. What needs all records is made at the end:
//!
//! ```text
//! key a @5 @9 | key b @6 | key d @8      slots 0 1 2; leaves a b d
//! finish, as independent tasks           which keys are live
//!                                        revision log 5 -> 0, 6 -> 1, 7 unknown, 8 -> 2, 9 -> 0
//!                                        what the caller derives from the records
//! ```

use std::ops::Range;

use super::key_index::{KeyIndex, RecordSlab, footprint};
use super::record::KeyRecord;
use super::revision_log::RevisionLog;
use super::tree::{GatheredKeys, KeyTree};
use super::version::Version;
use crate::parallel::{Parallel, Task};
use crate::types::Revision;

#[cfg(test)]
mod tests;

/// Changes that may be missing from the history of a checkpoint, because they were purged while it was written. This is
/// far more than occurs, and still little memory: a thousand of them take less than 200 bytes of the revision log.
const MAX_MISSING_CHANGES: u64 = 1 << 28;

/// Up to this many revisions for each version, changes are ordered by counting, which is fast but takes 4 bytes for
/// each revision. A checkpoint that lacks more is unusual or forged: its changes are sorted instead.
const MAX_REVISIONS_PER_VERSION: u64 = 4;

/// An index being restored.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    records: RecordSlab,
    /// Slots below are taken, in key order.
    slots: u32,
    /// All keys but those of the next leaf. Until the end it takes them for live.
    tree: KeyTree,
    /// The keys of the next leaf: the last ones.
    next_leaf: GatheredKeys,
    /// The slot of the first of them.
    next_leaf_slot: u32,
    /// The number of versions, tombstones included.
    changes: u64,
    /// Retained versions that are not tombstones.
    versions: u64,
    referenced_bytes: u64,
    record_heap_bytes: u64,
}

impl IndexBuilder {
    /// Adds a key with its versions, oldest first, at least one. Returns its slot; `None` if keys or versions do not
    /// ascend.
    pub(crate) fn key(&mut self, key: &[u8], versions: &[Version]) -> Option<u32> {
        let ascends = self.next_leaf.last().is_none_or(|last| last < key);
        if !ascends || !versions.is_sorted_by(|one, next| one.revision < next.revision) {
            return None;
        }
        let mut record = KeyRecord::new(versions[0]);
        versions[1..].iter().for_each(|version| record.push(*version));
        for version in versions {
            self.versions += u64::from(!version.is_tombstone());
            self.referenced_bytes += footprint(key.len(), version);
        }
        self.changes += versions.len() as u64;
        self.record_heap_bytes += record.heap_bytes() as u64;
        let slot = self.records.insert(record);
        assert!(slot == self.slots, "a slab without free numbers gives ascending ones");
        self.slots += 1;
        if self.next_leaf.is_full() {
            self.append_leaf(slot);
        }
        self.next_leaf.push(key);
        Some(slot)
    }

    /// Gives the gathered keys to the tree. `slot` is that of the key after them.
    fn append_leaf(&mut self, slot: u32) {
        self.tree.append(&mut self.next_leaf, self.next_leaf_slot);
        self.next_leaf_slot = slot;
    }

    /// The index, with its revision log from `floor` to `revision`; `None` if the versions do not form one. Meanwhile
    /// gives all records to `visit`, in the order of their keys.
    pub(crate) fn finish(
        mut self,
        floor: i64,
        revision: i64,
        parallel: &dyn Parallel,
        visit: impl FnOnce(BuiltRecords<'_>) + Send,
    ) -> Option<KeyIndex> {
        self.append_leaf(self.slots);
        let IndexBuilder { records, mut tree, slots, changes, .. } = self;
        let counts = (self.versions, self.referenced_bytes, self.record_heap_bytes);
        let mut log = None;
        let all = BuiltRecords { records: &records, slots: 0..slots };
        let tasks: [Task<'_>; 3] = [
            Box::new(|| tree.set_all_live(&|slot| records.get(slot).is_live())),
            Box::new(|| log = build_log(all.clone(), changes, floor, revision)),
            Box::new(|| visit(all.clone())),
        ];
        parallel.run(tasks.into());
        log.map(|log| KeyIndex::from_parts(records, tree, log, counts))
    }
}

/// Walks the records in the order of their keys.
#[derive(Clone)]
pub(crate) struct BuiltRecords<'a> {
    records: &'a RecordSlab,
    slots: Range<u32>,
}

impl<'a> Iterator for BuiltRecords<'a> {
    type Item = &'a KeyRecord;

    fn next(&mut self) -> Option<&'a KeyRecord> {
        self.slots.next().map(|slot| self.records.get(slot))
    }
}

/// The revision log from `floor` to `revision`, of so many changes at most. Its memory grows with the changes, not with
/// those missing.
fn build_log(records: BuiltRecords<'_>, changes: u64, floor: i64, revision: i64) -> Option<RevisionLog> {
    let mut log = ChangesByRevision::new(changes, floor, revision)?;
    for (slot, record) in (0..).zip(records) {
        for version in record.versions().rev().take_while(|version| version.revision.main >= floor) {
            log.add(version.revision, slot)?;
        }
    }
    log.finish()
}

/// The changes of a revision log, in any order.
struct ChangesByRevision {
    floor: i64,
    revision: i64,
    known: u64,
    /// The oldest revision of a change so far.
    first: i64,
    /// By revision from `floor` on: the slot of its first change, and 1; 0 if that is not known. Empty if all changes
    /// are in `others`.
    firsts: Vec<u32>,
    /// All other changes.
    others: Vec<(Revision, u32)>,
}

impl ChangesByRevision {
    fn new(changes: u64, floor: i64, revision: i64) -> Option<ChangesByRevision> {
        let floor = floor.max(1);
        let revisions = u64::try_from(revision.checked_sub(floor)?.checked_add(1)?).ok()?;
        let is_dense = revisions / MAX_REVISIONS_PER_VERSION <= changes;
        let firsts = if is_dense { vec![0; usize::try_from(revisions).ok()?] } else { Vec::new() };
        Some(ChangesByRevision { floor, revision, known: 0, first: i64::MAX, firsts, others: Vec::new() })
    }

    /// Adds a change. Returns `None` if it is not one of this log.
    fn add(&mut self, at: Revision, slot: u32) -> Option<()> {
        if at.main < self.floor || at.main > self.revision {
            return None;
        }
        self.known += 1;
        self.first = self.first.min(at.main);
        match self.firsts.get_mut((at.main - self.floor) as usize).filter(|_| at.sub == 0) {
            Some(first) if *first == 0 => *first = slot + 1,
            Some(_) => return None,
            None => self.others.push((at, slot)),
        }
        Some(())
    }

    /// The log; `None` if a change occurs twice, the last revision has none, or too many are missing.
    fn finish(self) -> Option<RevisionLog> {
        let ChangesByRevision { floor, revision, known, first, firsts, mut others } = self;
        if known == 0 {
            return log_without_changes(floor, revision);
        }
        let mut building =
            RevisionLogBuilder { log: RevisionLog::default(), last: None, missing: MAX_MISSING_CHANGES };
        building.count_missing(((revision - first) as u64 + 1).saturating_sub(known))?;
        others.sort_unstable();
        let mut others = others.into_iter().peekable();
        for (main, slot) in (floor..).zip(firsts) {
            if let Some(slot) = slot.checked_sub(1) {
                building.add(Revision { main, sub: 0 }, slot)?;
            }
            while let Some((at, slot)) = others.next_if(|(at, _)| at.main == main) {
                building.add(at, slot)?;
            }
        }
        others.try_for_each(|(at, slot)| building.add(at, slot))?;
        building.last.is_some_and(|last| last.main == revision).then_some(building.log)
    }
}

/// The log of a store without a change from `floor` on. Only a state that was restored from etcd's has one: there a
/// compaction may drop the tombstone of its revision, and a restore may raise the revision.
fn log_without_changes(floor: i64, revision: i64) -> Option<RevisionLog> {
    let mut log = RevisionLog::default();
    if revision > 1 {
        log.push_unknown(revision);
    }
    (floor == revision || revision == 1).then_some(log)
}

/// A revision log being built.
struct RevisionLogBuilder {
    log: RevisionLog,
    last: Option<Revision>,
    /// Missing changes that are still allowed.
    missing: u64,
}

impl RevisionLogBuilder {
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
