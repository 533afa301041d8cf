//! Building an index from checkpoints: in bulk from a sorted base, then key by key from deltas.

use super::tree::{Bounds, Tree};
use super::{Index, Key, Record, Records, Version, footprint};
use crate::revlog::RevisionLog;
use crate::types::Revision;

/// Changes that may be missing from the history of a checkpoint, because they were purged while it was
/// written. Far more than can be, and still little memory.
const GAPS_MAX: u64 = 1 << 28;

/// An index being restored.
#[derive(Default)]
pub(crate) struct Restoring {
    records: Records,
    /// Slots of the base, in key order, until it is complete.
    base: Vec<u32>,
    tree: Option<Tree>,
}

impl Restoring {
    /// Adds a version. In a base, keys must ascend; each key's versions must ascend, and come after those it
    /// has. Returns false where they do not.
    pub(crate) fn push(&mut self, key: &[u8], version: Version) -> bool {
        if self.tree.is_some() { self.push_delta(key, version) } else { self.push_base(key, version) }
    }

    fn push_base(&mut self, key: &[u8], version: Version) -> bool {
        if let Some(slot) = self.base.last() {
            let record = self.records.get_mut(*slot);
            if record.key() == key {
                return push_version(record, version);
            }
            if record.key() > key {
                return false;
            }
        }
        self.base.push(self.records.insert(Record::new(Key::new(key), version)));
        true
    }

    fn push_delta(&mut self, key: &[u8], version: Version) -> bool {
        let tree = self.tree.get_or_insert_default();
        let live = !version.is_tombstone();
        let mut path = tree.seek(&self.records, key);
        if path.found {
            let record = self.records.get_mut(tree.slot_at(&path));
            let was_live = record.is_live();
            if !push_version(record, version) {
                return false;
            }
            if live != was_live {
                tree.set_live(&path, live);
            }
            return true;
        }
        let slot = self.records.insert(Record::new(Key::new(key), version));
        tree.insert(&self.records, &path, slot);
        if !live {
            path = tree.seek(&self.records, key);
            tree.set_live(&path, false);
        }
        true
    }

    /// The base's last key has been added.
    pub(crate) fn complete_base(&mut self) {
        if self.tree.is_some() {
            return;
        }
        let slots: Vec<_> = self.base.iter().map(|slot| (*slot, self.records.get(*slot).is_live())).collect();
        self.base = Vec::new();
        self.tree = Some(Tree::from_sorted(&self.records, &slots));
    }

    /// Takes a key out with all its versions, if it is there.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let Some(tree) = &mut self.tree else { return };
        let path = tree.seek(&self.records, key);
        if !path.found {
            return;
        }
        let slot = tree.slot_at(&path);
        if self.records.get(slot).is_live() {
            tree.set_live(&path, false);
        }
        tree.remove(&self.records, &path);
        self.records.remove(slot);
    }

    /// Points a version to another place, if it is there.
    pub(crate) fn relocate(&mut self, key: &[u8], revision: Revision, place: u64) {
        let Some(tree) = &self.tree else { return };
        let path = tree.seek(&self.records, key);
        if path.found
            && let Some(value) = self.records.get_mut(tree.slot_at(&path)).value_mut(revision)
        {
            value.place = place;
        }
    }

    /// The index, with its revision log from `floor` to `revision`; `None` when the versions do not make one.
    /// Calls `visit` for each record.
    pub(crate) fn finish(
        mut self,
        floor: i64,
        revision: i64,
        mut visit: impl FnMut(u32, &Record),
    ) -> Option<Index> {
        self.complete_base();
        let tree = self.tree.unwrap_or_default();
        let mut changes = Vec::new();
        let (mut versions, mut referenced_bytes) = (0, 0);
        for (slot, _) in tree.walk(&self.records, &Bounds::ALL) {
            let record = self.records.get(slot);
            visit(slot, record);
            for version in record.versions() {
                versions += u64::from(!version.is_tombstone());
                referenced_bytes += footprint(record.key().len(), &version);
                if version.revision.main >= floor {
                    changes.push(pack(version.revision, slot));
                }
            }
        }
        changes.sort_unstable();
        let log = build_log(&changes, revision)?;
        Some(Index { records: self.records, tree, log, versions, referenced_bytes })
    }
}

fn push_version(record: &mut Record, version: Version) -> bool {
    let ascends = version.revision > record.newest().revision;
    if ascends {
        record.push(version);
    }
    ascends
}

/// A change as one number that sorts by revision: sorting is most of the work of a restore.
fn pack(revision: Revision, slot: u32) -> u128 {
    (revision.main as u128) << 64 | u128::from(revision.sub) << 32 | u128::from(slot)
}

fn unpack(change: u128) -> (Revision, u32) {
    (Revision { main: (change >> 64) as i64, sub: (change >> 32) as u32 }, change as u32)
}

fn build_log(changes: &[u128], revision: i64) -> Option<RevisionLog> {
    let mut log = RevisionLog::default();
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
        return (revision == 1).then_some(log);
    };
    let (first, last) = (unpack(*first).0, unpack(*last).0);
    if first.main < 1 || last.main != revision {
        return None;
    }
    let mut entries = (last.main - first.main) as u64 + 1;
    let mut before = Revision::default();
    for change in changes {
        let (revision, _) = unpack(*change);
        if revision == before {
            return None;
        }
        entries += u64::from(revision.sub - if revision.main == before.main { before.sub } else { 0 });
        before = revision;
    }
    if entries - changes.len() as u64 > GAPS_MAX {
        return None;
    }
    for change in changes {
        let (revision, slot) = unpack(*change);
        log.push_after_gaps(revision, slot);
    }
    Some(log)
}
