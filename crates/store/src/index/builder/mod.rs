//! Builds an index from checkpoints.
//!
//! Each checkpoint contains its keys in ascending order. The keys of a base go to the end of the tree, one leaf after
//! the other, and nothing is looked up; those of a delta are looked up where they come between others. The revision log
//! is made at the end, from the revisions of all versions:
//!
//! ```text
//! base    a c e                 a, c, e at the end, each above the one before
//! delta   removed e; b c; f     e goes, b comes between a and c, c gets a newer version, f goes to the end
//! finish                        which keys are live; the revision log
//! ```

use std::ops::ControlFlow;

use super::key_index::{KeyIndex, RecordSlab, footprint};
use super::record::KeyRecord;
use super::revision_log::RevisionLog;
use super::tree::{KeyBounds, KeyTree, TreePath};
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
    /// All keys. Until the end it takes them for live.
    tree: KeyTree,
    /// The end of the tree, behind the last key of the checkpoint, as long as keys go there.
    end: Option<TreePath>,
    /// The last key of the present checkpoint.
    last_key: Vec<u8>,
    /// Its slot; `None` if there is no key yet.
    last: Option<u32>,
}

impl IndexBuilder {
    /// Begins the next checkpoint.
    pub(crate) fn begin(&mut self) {
        self.complete();
    }

    /// Adds a version to a key. If `whole`, the checkpoint has all versions of the key, and those from before are
    /// dropped; otherwise the version must be newer than them. Returns false if keys or versions do not ascend.
    pub(crate) fn key(&mut self, key: &[u8], whole: bool, version: Version) -> bool {
        if self.last.is_some() && self.last_key.as_slice() >= key {
            return false;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let path = self.end.take().unwrap_or_else(|| self.tree.seek(key));
        if path.found {
            let slot = self.tree.slot_at(&path);
            self.last = Some(slot);
            if whole {
                *self.records.get_mut(slot) = KeyRecord::new(version);
            }
            return whole || self.version(version);
        }
        let slot = self.records.insert(KeyRecord::new(version));
        self.last = Some(slot);
        let is_end = self.tree.is_end(&path);
        let is_split = self.tree.insert(&path, key, slot);
        self.end = (is_end && !is_split).then(|| path.after());
        true
    }

    /// Adds another version to the same key. Returns false if it is not newer than those before.
    pub(crate) fn version(&mut self, version: Version) -> bool {
        let Some(slot) = self.last else { return false };
        let record = self.records.get_mut(slot);
        let ascends = version.revision > record.newest().revision;
        if ascends {
            record.push(version);
        }
        ascends
    }

    /// Removes a key with all its versions, if the checkpoints before had it.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let path = self.tree.seek(key);
        if path.found {
            (self.last, self.end) = (None, None);
            self.records.remove(self.tree.slot_at(&path));
            self.tree.set_live(&path, false);
            self.tree.remove(&path);
        }
    }

    /// Gives a version from the checkpoints before a new log address, if it exists and has a value.
    pub(crate) fn relocate(&mut self, key: &[u8], revision: Revision, address: u64) {
        let path = self.tree.seek(key);
        if path.found {
            self.records.get_mut(self.tree.slot_at(&path)).set_address(revision, address);
        }
    }

    /// Ends the checkpoint.
    pub(crate) fn complete(&mut self) {
        (self.last, self.end) = (None, None);
    }

    /// The index, with its revision log from `floor` to `revision`; `None` if the versions do not form one. Calls
    /// `visit` for each slot, key and record.
    pub(crate) fn finish(
        self,
        floor: i64,
        revision: i64,
        mut visit: impl FnMut(u32, &[u8], &KeyRecord),
    ) -> Option<KeyIndex> {
        let IndexBuilder { records, mut tree, .. } = self;
        let mut changes = Vec::with_capacity(tree.keys());
        let (mut versions, mut referenced_bytes, mut record_heap_bytes) = (0, 0, 0);
        tree.visit(
            &KeyBounds::ALL,
            |_| {},
            |slot, key, _| {
                let record = records.get(slot);
                visit(slot, key, record);
                record_heap_bytes += record.heap_bytes() as u64;
                for version in record.versions() {
                    versions += u64::from(!version.is_tombstone());
                    referenced_bytes += footprint(key.len(), &version);
                    if version.revision.main >= floor {
                        changes.push((version.revision, slot));
                    }
                }
                ControlFlow::Continue(())
            },
        );
        tree.set_all_live(&|slot| records.get(slot).is_live());
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
