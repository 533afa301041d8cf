//! What changed since the last checkpoint began: just enough to find it again when a delta is written.

use std::collections::BTreeSet;

use crate::index::Key;
use crate::state::Position;
use crate::types::Revision;

/// Where the last checkpoint began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Baseline {
    pub(crate) position: Position,
    pub(crate) revision: i64,
}

/// See the module. Until there is a baseline nothing is kept.
#[derive(Default)]
pub(crate) struct Dirty {
    baseline: Option<Baseline>,
    changes: DirtyChanges,
}

/// The changes themselves.
#[derive(Default)]
pub(crate) struct DirtyChanges {
    /// Slots of keys written since. A slot is noted at its key's first write after the baseline, and once
    /// more if it was given to another key.
    pub(crate) slots: Vec<u32>,
    /// Keys that lost their last version.
    pub(crate) removed: Vec<Key>,
    /// Versions whose value is at another place.
    pub(crate) moved: Vec<(Key, Revision, u64)>,
    /// Leases that came, went or got another remainder.
    pub(crate) leases: BTreeSet<i64>,
}

impl Dirty {
    /// The revision of the baseline; a key whose newest version is above it has been noted. Without a
    /// baseline, below every revision.
    pub(crate) fn baseline(&self) -> i64 {
        self.baseline.map_or(i64::MIN, |baseline| baseline.revision)
    }

    /// Notes the first write to a key.
    pub(crate) fn slot(&mut self, slot: u32) {
        if self.baseline.is_some() {
            self.changes.slots.push(slot);
        }
    }

    /// Notes that a key has no version left.
    pub(crate) fn removed(&mut self, key: Key) {
        if self.baseline.is_some() {
            self.changes.removed.push(key);
        }
    }

    /// Notes that a value moved.
    pub(crate) fn moved(&mut self, key: &[u8], revision: Revision, address: u64) {
        if self.baseline.is_some() {
            self.changes.moved.push((Key::new(key), revision, address));
        }
    }

    /// Notes a change of a lease.
    pub(crate) fn lease(&mut self, id: i64) {
        if self.baseline.is_some() {
            self.changes.leases.insert(id);
        }
    }

    /// Starts anew from `baseline`; returns the old one and what changed since.
    pub(crate) fn rebase(&mut self, baseline: Baseline) -> Option<(Baseline, DirtyChanges)> {
        let old = self.baseline.replace(baseline);
        let changes = std::mem::take(&mut self.changes);
        old.map(|old| (old, changes))
    }

    /// Lets no delta follow: what was noted is lost.
    pub(crate) fn forget_baseline(&mut self) {
        *self = Dirty::default();
    }
}
