//! The keys of a lease, collected while the store changes.

use super::*;
use crate::LeaseKeyScan;
use crate::checkpoint::{CheckpointKind, Restoration};
use crate::testing::small_limits;

/// A store with ten keys of lease 7.
fn bench() -> TestStore {
    let mut bench = TestStore::new();
    bench.outcome(grant(7, 60)).unwrap();
    (0..10).for_each(|number| attach(&mut bench, &format!("k{number}"), 7));
    bench
}

fn attach(bench: &mut TestStore, key: &str, lease: i64) {
    bench.outcome(Command::Put(pb::PutRequest { lease, ..put_request(key, "v") })).unwrap();
}

/// The keys at the end, and the steps it took.
fn finish(scan: &mut LeaseKeyScan) -> (Vec<Bytes>, usize) {
    for steps in 1.. {
        if let Some(keys) = scan.step() {
            return (keys, steps);
        }
    }
    unreachable!("the range of steps has no end")
}

#[test]
fn a_step_examines_no_more_keys_than_the_limit() {
    let bench = bench();
    let (keys, steps) = finish(&mut bench.reader.lease_keys(7));
    assert_eq!(keys, (0..10).map(|number| format!("k{number}")).collect::<Vec<_>>());
    assert_eq!(steps, 10_usize.div_ceil(small_limits().chunk_keys));
    assert_eq!(finish(&mut bench.reader.lease_keys(8)), (vec![], 1));
}

#[test]
fn keys_that_stay_are_found_whatever_happens_between_the_steps() {
    let mut bench = bench();
    let mut scan = bench.reader.lease_keys(7);
    assert!(scan.step().is_none());
    bench.delete("k5", "");
    attach(&mut bench, "k6", 0);
    attach(&mut bench, "k4", 7);
    let (keys, _) = finish(&mut scan);
    assert_eq!(keys, ["k0", "k1", "k2", "k3", "k4", "k7", "k8", "k9"]);
    let mut scan = bench.reader.lease_keys(7);
    assert!(scan.step().is_none());
    let revoke = Command::LeaseRevoke { request: pb::LeaseRevokeRequest { id: 7 }, expiry_term: None };
    bench.outcome(revoke).unwrap();
    let (keys, _) = finish(&mut scan);
    assert!(keys.len() <= small_limits().chunk_keys, "what was found before the lease ended");
}

#[test]
fn keys_that_a_command_in_progress_has_detached_are_found_in_steps() {
    let mut bench = TestStore::with_slices_of(9);
    bench.outcome(grant(7, 60)).unwrap();
    (0..10).for_each(|number| attach(&mut bench, &format!("k{number}"), 7));
    let (ctx, commands) = bench.entry(vec![crate::testing::delete("k", "l")]);
    bench.store.begin_batch(ctx, commands);
    assert!(matches!(bench.store.apply_slice(&mut 0), crate::Slice::Partial { .. }));
    assert!(bench.reader.lease_keys_len(7) < 4, "most keys are detached");
    let (keys, steps) = finish(&mut bench.reader.lease_keys(7));
    assert_eq!((keys.len(), steps), (10, 10_usize.div_ceil(small_limits().chunk_keys)));
    let mut scan = bench.reader.lease_keys(7);
    assert!(scan.step().is_none());
    assert!(matches!(bench.store.apply_slice(&mut 0), crate::Slice::Last(_)));
    assert_eq!(finish(&mut scan).0.len(), small_limits().chunk_keys, "the others are gone");
}

#[test]
fn a_snapshot_between_the_steps_begins_the_walk_again() {
    let mut from = TestStore::new();
    from.outcome(grant(7, 60)).unwrap();
    attach(&mut from, "other", 7);
    let chunks: Vec<Bytes> = from.store.begin_checkpoint(CheckpointKind::Base).collect();
    let mut bench = bench();
    let mut scan = bench.reader.lease_keys(7);
    assert!(scan.step().is_none());
    let mut restoration = Restoration::default();
    chunks.iter().try_for_each(|chunk| restoration.push(chunk)).unwrap();
    bench.install(restoration.finish().unwrap());
    assert_eq!(finish(&mut scan).0, ["other"], "nothing of the former state, all of the new one");
}
