//! Purging: dropping, in small steps, what compaction has put out of reach.
//!
//! The revision log drives it. Its entries up to the target are taken in order; an entry hides all older
//! versions of its key from whoever reads at the target or later, so they go; a tombstone below the target
//! goes too, and with the last version the key. Entries *at* the compact revision stay with their versions,
//! tombstones included: a watch may start there. The cost is one step for each change ever made, not one for
//! each key there is.
//!
//! On its way it notes the hash of what it walks over, which HashKV needs later: [`CompactionHash`].

use crate::state::{Shared, State, release};
use crate::types::{Revision, ValueRef, Values};
use crate::version_hash::VersionHash;

/// Entries handled in one hold of the write lock.
const LOCK_STEPS: usize = 256;

/// The hash of all changes between two compactions, made while purging them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionHash {
    /// The compact revision before: changes after it count.
    pub(crate) after: i64,
    /// The compact revision: its changes are the last to count.
    pub(crate) until: i64,
    /// The hash, complete when purging has reached `until`.
    pub(crate) hash: VersionHash,
}

impl CompactionHash {
    /// Begins the hash of a compaction at `until`. As in etcd there is none if the one before is still being
    /// carried out.
    pub(crate) fn begin(state: &State, until: i64) -> Option<CompactionHash> {
        let after = state.compacted;
        (state.purged == after).then_some(CompactionHash { after, until, hash: VersionHash::default() })
    }
}

/// Adds the change to the hash of its compaction. Without its version, which a restored log may miss, there
/// is no hash.
fn note(state: &mut State, revision: Revision, slot: Option<u32>) {
    // Entries at the revision that purging reached stay in the log, and come by again.
    if revision.main <= state.purged {
        return;
    }
    let Some(note) = &mut state.compaction_hash else { return };
    let record = slot.map(|slot| state.index.at_slot(slot));
    match record.and_then(|record| Some((record.key(), record.version_exactly(revision)?.0))) {
        Some((key, version)) => note.hash.push(key, &version),
        None => state.compaction_hash = None,
    }
}

/// See [`Store::purge_step`](crate::Store::purge_step).
pub(crate) fn step(shared: &Shared, max_steps: usize) -> bool {
    let mut left = max_steps;
    while left > 0 {
        let steps = left.min(LOCK_STEPS);
        left -= steps;
        let mut dropped = Vec::new();
        let done = {
            let mut state = shared.state.write();
            let pinned = shared.oldest_pin().unwrap_or(i64::MAX);
            let target = state.compacted.min(pinned);
            purge(&mut state, target, steps, &mut |value| dropped.push(*value))
        };
        release_values(&*shared.values, &dropped);
        if done {
            return true;
        }
    }
    false
}

fn release_values(values: &dyn Values, dropped: &[ValueRef]) {
    for value in dropped {
        release(values, value);
    }
}

/// Purges below `target`, in at most `max_steps` steps. Returns whether it is done.
pub(crate) fn purge(
    state: &mut State,
    target: i64,
    max_steps: usize,
    dropped: &mut impl FnMut(&ValueRef),
) -> bool {
    if target <= state.purged {
        return true;
    }
    for _ in 0..max_steps {
        let Some(entry) = state.index.log().front() else { break };
        if entry.revision.main >= target {
            return purge_target(state, target, dropped);
        }
        note(state, entry.revision, entry.slot);
        if let Some(slot) = entry.slot {
            purge_entry(state, entry.revision, slot, target, dropped);
        }
        state.index.log_mut().pop_front();
    }
    if state.index.log().front().is_some() {
        return false;
    }
    state.purged = target;
    true
}

/// The last step: entries at the target itself hide older versions, but stay.
fn purge_target(state: &mut State, target: i64, dropped: &mut impl FnMut(&ValueRef)) -> bool {
    let at_target: Vec<_> =
        state.index.log().iter_from(target).take_while(|entry| entry.revision.main == target).collect();
    for entry in at_target {
        note(state, entry.revision, entry.slot);
        if let Some(slot) = entry.slot {
            purge_entry(state, entry.revision, slot, target, dropped);
        }
    }
    state.purged = target;
    true
}

fn purge_entry(
    state: &mut State,
    revision: Revision,
    slot: u32,
    target: i64,
    dropped: &mut impl FnMut(&ValueRef),
) {
    let removed = state.index.purge_entry(revision, slot, target, &mut |version| dropped(&version.value));
    if let Some(key) = removed {
        state.dirty.removed(key);
    }
}
