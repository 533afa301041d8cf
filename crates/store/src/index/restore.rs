//! Building an index from checkpoints: keys come in ascending order in each of them, so each is merged into what
//! those before it left, and the tree is built at the end.

use std::collections::BTreeSet;

use super::tree::{Keys, Tree};
use super::{Index, Key, Record, Records, Version, footprint};
use crate::revlog::RevisionLog;
use crate::types::Revision;

#[cfg(test)]
mod tests;

/// Changes that may be missing from the history of a checkpoint, because they were purged while it was
/// written. Far more than can be, and still little memory: a thousand of them take less than 200 bytes of the log.
const MAX_GAPS: u64 = 1 << 28;

/// Up to so many revisions for each change, changes are brought in order by their places, which is fast, but takes
/// 8 bytes for each revision. A checkpoint with more missing is odd or forged: its changes are sorted.
const REVISIONS_PER_CHANGE: u64 = 4;

/// An index being restored.
#[derive(Default)]
pub(crate) struct Restoring {
    records: Records,
    /// Slots in key order, as far as the present checkpoint has come.
    merged: Vec<u32>,
    /// Slots in key order as the checkpoint before left them.
    before: Vec<u32>,
    /// So many of them are merged.
    taken: usize,
    /// Where in `before` the last look-up ended.
    looked: usize,
    /// Slots in `before` whose keys are taken out, unless they are written again.
    gone: BTreeSet<u32>,
}

impl Restoring {
    /// A checkpoint begins.
    pub(crate) fn begin(&mut self) {
        self.complete();
        self.before = std::mem::take(&mut self.merged);
        self.merged.reserve(self.before.len());
    }

    /// Adds a key, which must come after the one before, with a version; or to the key that is there. If these are its
    /// only versions, those it had are dropped, else it must be newer. Returns false where keys or versions do not
    /// ascend.
    pub(crate) fn key(&mut self, key: &[u8], only: bool, version: Version) -> bool {
        if self.merged.last().is_some_and(|last| self.records.key(*last) >= key) {
            return false;
        }
        let at = self.lower_bound(key, self.taken);
        self.merged.extend_from_slice(&self.before[self.taken..at]);
        self.taken = at;
        let Some(slot) = self.slot_at(at, key) else {
            self.merged.push(self.records.insert(Record::new(Key::new(key), version)));
            return true;
        };
        self.taken += 1;
        self.merged.push(slot);
        if self.gone.remove(&slot) || only {
            *self.records.get_mut(slot) = Record::new(Key::new(key), version);
            return true;
        }
        self.version(version)
    }

    /// Adds another version to the key that came last, newer than those it has. Returns false where it is not.
    pub(crate) fn version(&mut self, version: Version) -> bool {
        let Some(slot) = self.merged.last() else { return false };
        let record = self.records.get_mut(*slot);
        let ascends = version.revision > record.newest().revision;
        if ascends {
            record.push(version);
        }
        ascends
    }

    /// Takes a key out with all its versions, if the checkpoints before had it.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let slot = self.look_up(key);
        self.gone.extend(slot);
    }

    /// Points a version that the checkpoints before had to another place, if it is there.
    pub(crate) fn relocate(&mut self, key: &[u8], revision: Revision, address: u64) {
        if let Some(slot) = self.look_up(key)
            && let Some(value) = self.records.get_mut(slot).value_mut(revision)
        {
            value.address = address;
        }
    }

    /// The checkpoint's last key has been added.
    pub(crate) fn complete(&mut self) {
        self.merged.extend_from_slice(&self.before[self.taken..]);
        self.before = Vec::new();
        (self.taken, self.looked) = (0, 0);
        if !self.gone.is_empty() {
            self.merged.retain(|slot| !self.gone.contains(slot));
            for slot in std::mem::take(&mut self.gone) {
                self.records.remove(slot);
            }
        }
    }

    /// Finds a key of the checkpoints before. Whoever asks in ascending order is answered quickly.
    fn look_up(&mut self, key: &[u8]) -> Option<u32> {
        let looked = self.before.get(self.looked);
        let is_behind = looked.is_some_and(|slot| self.records.key(*slot) <= key);
        self.looked = self.lower_bound(key, if is_behind { self.looked } else { 0 });
        self.slot_at(self.looked, key)
    }

    fn slot_at(&self, at: usize, key: &[u8]) -> Option<u32> {
        self.before.get(at).copied().filter(|slot| self.records.key(*slot) == key)
    }

    /// The position in `before` of the first key not below `key`, which is not before `from`: in steps that grow, so
    /// that a near one is found in a few.
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

    /// The index, with its revision log from `floor` to `revision`; `None` when the versions do not make one.
    /// Calls `visit` for each record.
    pub(crate) fn finish(
        mut self,
        floor: i64,
        revision: i64,
        mut visit: impl FnMut(u32, &Record),
    ) -> Option<Index> {
        self.complete();
        let Restoring { records, merged, .. } = self;
        let mut changes = Vec::with_capacity(merged.len());
        let (mut versions, mut referenced_bytes) = (0, 0);
        for slot in &merged {
            let record = records.get(*slot);
            visit(*slot, record);
            for version in record.versions() {
                versions += u64::from(!version.is_tombstone());
                referenced_bytes += footprint(record.key().len(), &version);
                if version.revision.main >= floor {
                    changes.push((version.revision, *slot));
                }
            }
        }
        let tree = Tree::from_sorted(&records, &merged, |slot| records.get(slot).is_live());
        drop(merged);
        let log = build_log(changes, revision)?;
        Some(Index { records, tree, log, versions, referenced_bytes })
    }
}

/// The revision log of changes in any order, up to `revision`. Takes memory for what there is, not for what is missing.
fn build_log(changes: Vec<(Revision, u32)>, revision: i64) -> Option<RevisionLog> {
    let mains = || changes.iter().map(|(revision, _)| revision.main);
    let Some(first) = mains().min() else { return (revision == 1).then(RevisionLog::default) };
    if first < 1 || mains().max() != Some(revision) {
        return None;
    }
    let revisions = (revision - first) as u64 + 1;
    let known = changes.len() as u64;
    let mut building = Building { log: RevisionLog::default(), last: None, gaps: MAX_GAPS };
    building.take_gaps(revisions.saturating_sub(known))?;
    if revisions / REVISIONS_PER_CHANGE <= known {
        building.add_by_place(changes, first, revisions)?;
    } else {
        building.add_sorted(changes)?;
    }
    Some(building.log)
}

/// A revision log being built.
struct Building {
    log: RevisionLog,
    last: Option<Revision>,
    /// Gaps that are still allowed.
    gaps: u64,
}

impl Building {
    /// Revisions follow each other with few gaps and nearly all have one change: their places are known.
    fn add_by_place(&mut self, changes: Vec<(Revision, u32)>, first: i64, revisions: u64) -> Option<()> {
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

    /// Adds a change, which must be later than the one before.
    fn add(&mut self, at: Revision, slot: u32) -> Option<()> {
        let next_sub = match self.last {
            Some(last) if last.main == at.main => last.sub.checked_add(1)?,
            _ => 0,
        };
        self.take_gaps(u64::from(at.sub.checked_sub(next_sub)?))?;
        self.log.push_after_gaps(at, slot);
        self.last = Some(at);
        Some(())
    }

    fn take_gaps(&mut self, gaps: u64) -> Option<()> {
        self.gaps = self.gaps.checked_sub(gaps)?;
        Some(())
    }
}
