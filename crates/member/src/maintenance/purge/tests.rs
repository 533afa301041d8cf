//! How fast history is purged, and which compactions are answered.
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use super::*;
use crate::jobs::{Done, JobLane, MAX_HASH_STEPS};
use crate::proposals::batch::CommandKind;
use crate::tests::LogAndStore;

/// A store with this many changes of one key below its compact revision, which is returned.
fn compacted(changes: usize) -> (LogAndStore, i64) {
    let mut state = LogAndStore::new(&[1]);
    (0..=changes).for_each(|_| state.put("key", "value"));
    let revision = state.compact();
    (state, revision)
}

fn outcome() -> Outcome {
    Err(api::Error::Corrupt)
}

fn tokens(answers: Vec<(u64, Outcome)>) -> Vec<u64> {
    answers.into_iter().map(|(token, _)| token).collect()
}

#[test]
fn history_is_purged_in_steps_with_a_pause_after_each() {
    let (mut state, _) = compacted(2 * STEP_CHANGES);
    let mut purge = Purge::default();
    assert_eq!(purge.next_due_ns(), None);
    purge.start();
    for (now_ns, left) in [(0, 2 + STEP_CHANGES), (PAUSE_NS, 2)] {
        assert!(purge.is_due(now_ns));
        purge.step(now_ns, &mut state.store);
        assert_eq!(state.references().len(), left);
        assert!(!purge.is_due(now_ns + PAUSE_NS - 1));
        assert_eq!(purge.next_due_ns(), Some(now_ns + PAUSE_NS));
        assert_eq!(purge.take_finished(now_ns), None);
    }
    purge.step(2 * PAUSE_NS, &mut state.store);
    assert_eq!(state.references().len(), 1);
    assert_eq!(purge.next_due_ns(), None, "nothing is left");
    assert_eq!(purge.take_finished(2 * PAUSE_NS), Some(2 * PAUSE_NS));
    assert_eq!(purge.take_finished(3 * PAUSE_NS), None);
}

/// Many short jobs make one hash, and nothing is purged before the last: behind a copy or a checkpoint each they
/// would take half a minute for a million keys.
#[test]
fn the_hash_of_a_compaction_does_not_wait_for_relocation_and_checkpoints() {
    let (mut state, _) = compacted(2);
    let mut purge = Purge::default();
    purge.start();
    purge.step(0, &mut state.store);
    let job = purge.begin_hash(&mut state.store, false).expect("a compaction was purged");
    assert_eq!((job.kind(), job.lane()), ("hash_compaction", JobLane::Repair));
}

#[test]
fn a_large_compaction_is_hashed_only_where_it_is_wanted() {
    let mut state = LogAndStore::new(&[1]);
    (0..10).for_each(|number| state.put(&format!("key{number}"), "value"));
    state.compact();
    let mut purge = Purge { max_hashed_versions: 8, ..Purge::default() };
    purge.step(0, &mut state.store);
    let job = purge.begin_hash(&mut state.store, true).expect("a compaction was purged");
    let Done::CompactionHashed(Ok(hash)) = job.run() else { panic!("ten versions are hashed at once") };
    state.store.keep_hash(hash);
    purge.hashed();
    // All ten are kept unchanged by the next one, too many by one.
    state.put("key0", "new");
    state.compact();
    purge.step(0, &mut state.store);
    assert!(purge.begin_hash(&mut state.store, false).is_none(), "it kept nine unchanged");
    assert!(purge.begin_hash(&mut state.store, true).is_some());
    assert!(purge.begin_hash(&mut state.store, true).is_none(), "one at a time");
}

#[test]
fn a_physical_compaction_is_answered_when_its_history_is_purged() {
    let (mut state, revision) = compacted(STEP_CHANGES);
    let mut purge = Purge::default();
    purge.start();
    purge.answer_after(1, revision, outcome()).expect("there is room");
    purge.answer_after(2, revision + 1, outcome()).expect("there is room");
    assert!(purge.step(0, &mut state.store).is_empty());
    assert_eq!(tokens(purge.step(0, &mut state.store)), [1]);
    state.put("key", "value");
    assert_eq!(state.compact(), revision + 1);
    assert_eq!(tokens(purge.step(0, &mut state.store)), [2]);
}

#[test]
fn a_pinned_revision_holds_up_the_answer_until_purging_starts_again() {
    let mut state = LogAndStore::new(&[1]);
    state.put("key", "old");
    let pin = state.store.begin_snapshot();
    state.put("key", "new");
    let revision = state.compact();
    let mut purge = Purge::default();
    purge.start();
    purge.answer_after(1, revision, outcome()).expect("there is room");
    assert!(purge.step(0, &mut state.store).is_empty());
    assert_eq!(purge.next_due_ns(), None, "there is nothing to do while the pin lasts");
    drop(pin);
    purge.start();
    assert_eq!(tokens(purge.step(0, &mut state.store)), [1]);
}

#[test]
fn a_bounded_number_of_physical_compactions_waits() {
    let mut purge = Purge::default();
    assert!(!purge.is_awaited());
    for token in 0..MAX_WAITING as u64 {
        purge.answer_after(token, 1, Err(api::Error::Compacted)).expect("there is room");
    }
    assert!(purge.is_awaited());
    let refused = purge.answer_after(u64::MAX, 1, Err(api::Error::Compacted));
    assert_eq!(refused, Err(api::Error::TooManyRequests));
}

/// The lane of repairs is free again between the jobs, and the history stays until the last of them is done.
#[test]
fn the_versions_of_a_large_compaction_are_hashed_by_several_jobs() {
    const KEYS: usize = MAX_HASH_STEPS * 3 / 2;
    let mut state = LogAndStore::new(&[1]);
    for from in (0..KEYS).step_by(1_000) {
        let put = |number: usize| pb::PutRequest { key: number.to_string().into(), ..Default::default() };
        let op = |number| pb::RequestOp { request: Some(Request::RequestPut(put(number))) };
        let success = (from..KEYS.min(from + 1_000)).map(op).collect();
        state.commit(CommandKind::Txn, &pb::TxnRequest { success, ..Default::default() });
    }
    assert_eq!(state.reader.counts().keys, KEYS as u64);
    // What a compaction leaves unchanged is hashed after it.
    state.drop_history();
    state.put("key", "value");
    state.drop_history();
    let mut purge = Purge::default();
    let mut job = purge.begin_hash(&mut state.store, true).expect("a compaction was purged");
    let mut jobs = 1;
    while let Done::CompactionHashed(Err(Some(scan))) = job.run() {
        assert!(purge.begin_hash(&mut state.store, true).is_none(), "it goes on");
        (job, jobs) = (Job::HashCompaction(scan), jobs + 1);
    }
    assert_eq!(jobs, 4, "all are looked for, then hashed, and the last job finds the end");
}
