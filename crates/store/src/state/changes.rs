//! What changed since the last checkpoint began: enough to find it again when a delta is written.
//!
//! A delta holds the versions written after its *baseline*, the revision at which the checkpoint before began. The
//! tracker does not copy versions. It notes *where* something changed, and the delta reads it from the index later:
//!
//! ```text
//! baseline 100:  put a @101 | put a @102 | delete b @103 | purge drops key c | value of d relocated
//! noted:         slots [a, b]              removed [c]                         relocated [(d, 99, new address)]
//! ```
//!
//! A slot is noted at its key's first write after the baseline only: the caller compares the key's newest revision with
//! [`ChangeTracker::baseline`]. Without a baseline (before the first checkpoint) nothing is noted, and the next
//! checkpoint is a base.
//!
//! A checkpoint may fail, most likely on a full disk, where a base would be the last thing to write instead. So what it
//! took over stays here until it is known to be written; otherwise the next delta holds it, too:
//!
//! ```text
//! baseline 100, noted [a, b]   checkpoint begins at 103   baseline 103, noted [c]
//!                              it fails                   baseline 100, noted [a, b, c]
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::index::IndexKey;
use crate::types::{AppliedId, Revision};

/// Where the last checkpoint began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointBaseline {
    pub(crate) applied: AppliedId,
    pub(crate) revision: i64,
}

/// The baseline and the changes noted since.
#[derive(Default)]
pub(crate) struct ChangeTracker {
    baseline: Option<CheckpointBaseline>,
    changes: TrackedChanges,
    /// What the checkpoint that is being written took over, and the baseline before it.
    taken: Option<ChangesTaken>,
}

/// The changes that a checkpoint writes, and the baseline that they were noted since.
pub(crate) type ChangesTaken = (CheckpointBaseline, Arc<TrackedChanges>);

/// The changes since the baseline.
#[derive(Clone, Default)]
pub(crate) struct TrackedChanges {
    /// Slots of keys that were written. A slot occurs twice if it was freed and given to another key.
    pub(crate) slots: Vec<u32>,
    /// Keys whose last version was purged.
    pub(crate) removed: Vec<IndexKey>,
    /// Versions whose value has a new address.
    pub(crate) relocated: Vec<(IndexKey, Revision, u64)>,
    /// Leases that were granted, ended or got another remainder.
    pub(crate) leases: BTreeSet<i64>,
    /// Bytes of memory that the keys above take besides their place in the lists.
    key_heap_bytes: usize,
}

/// Accounted memory of a changed lease: a place in a B-tree whose nodes are hardly more than half full.
const CHANGED_LEASE_BYTES: usize = 16;

impl TrackedChanges {
    /// [Accounted](crate::memory) bytes.
    fn accounted_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
            + self.removed.capacity() * size_of::<IndexKey>()
            + self.relocated.capacity() * size_of::<(IndexKey, Revision, u64)>()
            + self.leases.len() * CHANGED_LEASE_BYTES
            + self.key_heap_bytes
    }

    /// Bytes of memory that the keys take besides their place in the lists, by a walk.
    fn walk_key_heap_bytes(&self) -> usize {
        let keys = self.removed.iter().chain(self.relocated.iter().map(|(key, ..)| key));
        keys.map(IndexKey::heap_bytes).sum()
    }

    /// Adds what changed after these.
    fn append(&mut self, later: TrackedChanges) {
        let TrackedChanges { slots, removed, relocated, leases, key_heap_bytes } = later;
        self.key_heap_bytes += key_heap_bytes;
        self.slots.extend(slots);
        self.removed.extend(removed);
        self.relocated.extend(relocated);
        self.leases.extend(leases);
    }
}

impl ChangeTracker {
    /// The revision of the baseline; `i64::MIN` if there is none. A key whose newest version is above it is noted.
    pub(crate) fn baseline(&self) -> i64 {
        self.baseline.map_or(i64::MIN, |baseline| baseline.revision)
    }

    /// Notes a key's first write after the baseline.
    pub(crate) fn note_written(&mut self, slot: u32) {
        if self.baseline.is_some() {
            self.changes.slots.push(slot);
        }
    }

    /// Notes that a key's last version was purged.
    pub(crate) fn note_removed(&mut self, key: IndexKey) {
        if self.baseline.is_some() {
            self.changes.key_heap_bytes += key.heap_bytes();
            self.changes.removed.push(key);
        }
    }

    /// Notes the new address of a version's value.
    pub(crate) fn note_relocated(&mut self, key: &[u8], revision: Revision, address: u64) {
        if self.baseline.is_some() {
            let key = IndexKey::new(key);
            self.changes.key_heap_bytes += key.heap_bytes();
            self.changes.relocated.push((key, revision, address));
        }
    }

    /// Notes that a lease was granted, ended or got another remainder.
    pub(crate) fn note_lease(&mut self, id: i64) {
        if self.baseline.is_some() {
            self.changes.leases.insert(id);
        }
    }

    /// [Accounted](crate::memory) bytes of what was noted.
    pub(crate) fn accounted_bytes(&self) -> u64 {
        self.changes.accounted_bytes() as u64
    }

    /// Walks what was noted, and checks what is accounted for it.
    pub(super) fn check_all(&self) {
        let bytes = self.changes.walk_key_heap_bytes();
        assert_eq!(self.changes.key_heap_bytes, bytes, "the memory of changed keys is accounted");
    }

    /// Begins at a new baseline; returns the old one and what changed since. The checkpoint before is written.
    pub(crate) fn rebase(&mut self, baseline: CheckpointBaseline) -> Option<ChangesTaken> {
        let old = self.baseline.replace(baseline);
        assert!(
            old.is_none_or(|old| old.revision <= baseline.revision),
            "checkpoints begin in the order of revisions"
        );
        let changes = Arc::new(std::mem::take(&mut self.changes));
        self.taken = old.map(|old| (old, changes));
        self.taken.clone()
    }

    /// The checkpoint that began at the baseline is written.
    pub(crate) fn checkpoint_written(&mut self) {
        self.taken = None;
    }

    /// The checkpoint that began at the baseline is not written: goes back to the baseline before it, with all changes
    /// since. If it was the first, there is none.
    pub(crate) fn checkpoint_abandoned(&mut self) {
        let Some((baseline, taken)) = self.taken.take() else {
            *self = ChangeTracker::default();
            return;
        };
        self.baseline = Some(baseline);
        let later = std::mem::take(&mut self.changes);
        // The source is gone as a rule, and with it the other handle.
        self.changes = Arc::try_unwrap(taken).unwrap_or_else(|taken| TrackedChanges::clone(&taken));
        self.changes.append(later);
    }
}
