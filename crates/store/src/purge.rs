//! Purging: drops, in small steps, the versions that compaction has put out of reach.
//!
//! Compaction only raises the compact revision. Purging walks the revision log from its oldest entry up to the target
//! (the compact revision, or the oldest pinned revision if that is lower). An entry supersedes all older versions of
//! its key for any read at the target or later, so those versions are dropped; a tombstone below the target is dropped
//! too, and a key without versions is removed:
//!
//! ```text
//! revision log    2:a  3:b  4:a  5:a(delete)  6:b  7:c         compacted at 6
//!   entry 2       nothing older                                 a: 2 4 5x   b: 3 6   c: 7
//!   entry 3       nothing older
//!   entry 4       drops a@2                                     a: 4 5x
//!   entry 5       drops a@4, then the tombstone; a is removed            b: 3 6   c: 7
//!   entry 6       is the target: drops b@3, stays in the log             b: 6     c: 7
//! ```
//!
//! Entries *at* the target stay, with their versions and tombstones: a watch may start there. They may be a million, if
//! one request made them, so purging notes how far it got among them. The cost is one step for each change, independent
//! of the number of keys. On its way purging adds each change to the [`CompactionHash`].

use crate::index::RevisionLogEntry;
#[cfg(doc)]
use crate::state::CompactionHash;
use crate::state::{StoreCounters, StoreShared, StoreState};
use crate::types::Revision;
use crate::values::{ValueRef, Values, release};

/// Entries of the revision log handled in one hold of the write lock.
const MAX_STEPS_LOCKED: usize = 256;

/// Adds a change to the hash of the compaction being carried out, if there is one.
fn hash_change(state: &mut StoreState, revision: Revision, slot: Option<u32>) {
    // Entries at the revision of the last purge stayed in the log and were hashed then; so did those that were handled
    // of a target that has moved since.
    if revision.main <= state.purged || state.purged_at_target.is_some_and(|last| revision <= last) {
        return;
    }
    let Some(hash) = &mut state.compaction_hash else { return };
    if !hash.add(&state.index, revision, slot) {
        state.compaction_hash = None;
    }
}

/// See [`Store::purge_step`](crate::Store::purge_step).
pub(crate) fn step(shared: &StoreShared, max_steps: usize) -> bool {
    let mut left = max_steps;
    while left > 0 {
        let steps = left.min(MAX_STEPS_LOCKED);
        left -= steps;
        let mut dropped = Vec::new();
        let (done, is_counted) = {
            let mut state = shared.state.write();
            let is_counted = state.purged >= shared.found_compacted();
            let pinned = shared.oldest_pin().unwrap_or(i64::MAX);
            let target = state.compacted.min(pinned);
            (purge(&mut state, target, steps, &mut |value| dropped.push(*value)), is_counted)
        };
        if is_counted {
            StoreCounters::add(&shared.counters.purged, dropped.len() as u64);
        }
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

/// Purges below `target`, in at most `max_steps` steps; hands each dropped reference to `dropped`. Returns whether
/// nothing is left to do.
pub(crate) fn purge(
    state: &mut StoreState,
    target: i64,
    max_steps: usize,
    dropped: &mut impl FnMut(&ValueRef),
) -> bool {
    assert!(target <= state.compacted, "only compacted history is purged");
    if target <= state.purged {
        return true;
    }
    // Which versions the compaction before has kept is not known any more from here on.
    state.purged_hash = None;
    for step in 0..max_steps {
        let Some(entry) = state.index.log().front() else { break };
        if entry.revision.main >= target {
            return purge_target(state, target, max_steps - step, dropped);
        }
        purge_change(state, &entry, target, dropped);
        state.index.log_mut().pop_front();
    }
    if state.index.log().front().is_some() {
        return false;
    }
    end_at(state, target);
    true
}

/// Everything up to `target` is purged. If that is where a compaction was, its changes are hashed.
fn end_at(state: &mut StoreState, target: i64) {
    state.purged = target;
    state.purged_at_target = None;
    state.purged_hash = state.compaction_hash.take_if(|hash| hash.until == target);
}

/// The last steps: entries at the target supersede older versions, and stay in the log. As [`purge`] otherwise.
fn purge_target(
    state: &mut StoreState,
    target: i64,
    max_steps: usize,
    dropped: &mut impl FnMut(&ValueRef),
) -> bool {
    let last = state.purged_at_target.filter(|last| last.main == target);
    let next = Revision { main: target, sub: last.map_or(0, |last| last.sub + 1) };
    let at_target = |entry: &RevisionLogEntry| entry.revision.main == target;
    let mut changes: Vec<_> =
        state.index.log().iter_at(next).take_while(at_target).take(max_steps + 1).collect();
    let goes_on = changes.len() > max_steps;
    changes.truncate(max_steps);
    for entry in &changes {
        purge_change(state, entry, target, dropped);
    }
    if goes_on {
        state.purged_at_target = changes.last().map(|entry| entry.revision);
        return false;
    }
    end_at(state, target);
    true
}

/// Purges what one change supersedes.
fn purge_change(
    state: &mut StoreState,
    entry: &RevisionLogEntry,
    target: i64,
    dropped: &mut impl FnMut(&ValueRef),
) {
    hash_change(state, entry.revision, entry.slot);
    let Some(slot) = entry.slot else { return };
    let removed =
        state.index.purge_entry(entry.revision, slot, target, &mut |version| dropped(&version.value));
    if let Some(key) = removed {
        state.changes.note_removed(key);
    }
}

#[cfg(test)]
mod tests {
    use crate::index::steps;
    use crate::testing::TestStore;

    /// Keys that one request deletes.
    const KEYS: usize = 1_000;

    /// As many keys, all deleted at the newest revision, which is compacted.
    fn compacted_at_a_deletion() -> TestStore {
        let mut bench = TestStore::new();
        for key in 0..KEYS {
            bench.put(&format!("k{key:04}"), "value");
        }
        let deleted = bench.delete("k", "l");
        bench.compact(deleted).expect("it is the newest");
        bench
    }

    #[test]
    fn a_revision_of_many_changes_is_purged_in_steps() {
        let mut bench = compacted_at_a_deletion();
        let mut calls = 0;
        loop {
            let (done, looked_at) = steps::of(|| bench.store.purge_step(10));
            assert!(looked_at < 200, "{looked_at} keys, versions and changes in ten steps");
            bench.store.check_all();
            if done {
                break;
            }
            calls += 1;
        }
        assert!(calls >= 2 * KEYS / 10 - 1, "each put and each deletion takes a step: {calls} calls of ten");
        assert_eq!(bench.reader.counts().purged, KEYS as u64);
    }
}
