//! The state that a backup captures, and its versions: in order however small the windows are, and unchanged by what is
//! applied, compacted and purged meanwhile.

use super::*;
use crate::{CapturedState, RetainedVersion, Slice, VersionWalk};

/// All versions of a walk, taken `max` at a time.
fn rest(walk: &mut VersionWalk, max: usize) -> Vec<RetainedVersion> {
    let mut all = Vec::new();
    loop {
        let chunk = walk.next_chunk(max).expect("nothing is installed");
        if chunk.is_empty() {
            return all;
        }
        all.extend(chunk);
    }
}

/// Thirty keys, each written up to three times in a scattered order, some deleted; compacted at a revision with a
/// deletion in it.
fn bench() -> TestStore {
    let mut bench = TestStore::new();
    for n in 0..60_u32 {
        bench.put(&format!("k{:02}", n * 7 % 30), &n.to_string());
    }
    bench.delete("k03", "k06");
    bench.put("k04", "again");
    bench.delete("k10", "k12");
    let at = bench.reader.current_revision();
    bench.put("k10", "again");
    bench.put("k00", "newer");
    bench.compact(at).unwrap();
    bench
}

#[test]
fn versions_are_sorted_in_windows() {
    let mut bench = bench();
    for purged in [false, true] {
        assert!(!purged || bench.store.purge_step(1_000));
        let mut walk = bench.reader.versions();
        let all = rest(&mut walk, 2);
        let revisions: Vec<_> = all.iter().map(|one| (one.kv.mod_revision, one.tombstone)).collect();
        assert!(revisions.is_sorted());
        // Of 30 keys two were deleted before the compaction and two at it, whose tombstones stay; two puts follow.
        assert_eq!(all.iter().filter(|one| !one.tombstone).count(), 30 - 2 - 2 + 2);
        assert_eq!(all.iter().filter(|one| one.tombstone).count(), 2);
        for taken in [0, 1, 4, 20] {
            walk.rewind();
            walk.next_chunk(taken).unwrap();
            walk.rewind();
            assert_eq!(rest(&mut walk, 5), all, "a second pass after {taken} versions of another");
        }
    }
}

#[test]
fn a_captured_state_stays_while_the_store_goes_on() {
    let mut bench = bench();
    bench.outcome(grant(-2, 60)).unwrap();
    bench.outcome(grant(7, 90)).unwrap();
    let mut captured = bench.reader.capture().expect("no batch is in progress");
    let all = rest(&mut captured.versions, 3);
    let CapturedState { applied, revision, compacted, ref leases, .. } = captured;
    assert_eq!((applied, revision), (bench.reader.applied(), bench.reader.current_revision()));
    assert_eq!(compacted, bench.reader.compacted());
    assert_eq!(leases.iter().map(|lease| (lease.id, lease.ttl)).collect::<Vec<_>>(), [(-2, 60), (7, 90)]);
    assert_eq!(captured.cluster_version, bench.reader.cluster_version());
    for n in 0..30 {
        bench.put(&format!("k{n:02}"), "later");
        if n == 15 {
            bench.delete("k00", "k20");
            bench.compact(bench.reader.current_revision()).unwrap();
            assert!(bench.store.purge_step(1_000));
        }
    }
    captured.versions.rewind();
    assert_eq!(rest(&mut captured.versions, 3), all);
    drop(captured);
    assert!(bench.store.purge_step(1_000));
    bench.store.check_all();
}

#[test]
fn nothing_is_captured_between_two_slices() {
    let mut bench = TestStore::with_slices_of(2);
    for n in 0..10 {
        bench.put(&format!("k{n}"), "v");
    }
    let (ctx, commands) = bench.entry(vec![Command::DeleteRange(delete_request("k", "l"))]);
    let index = ctx.index;
    bench.store.begin_batch(ctx, commands);
    let mut refused = 0;
    while !matches!(bench.store.apply_slice(&mut 0), Slice::Last(_)) {
        assert!(bench.reader.capture().is_none());
        refused += 1;
    }
    assert!(refused > 0, "it takes several slices");
    assert_eq!(bench.reader.capture().expect("the entry is applied").applied.index, index);
}
