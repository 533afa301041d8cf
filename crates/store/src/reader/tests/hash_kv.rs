//! HashKV at revisions where etcd answers something else than a hash of what is there.

use api::Error;
use bytes::Bytes;

use crate::index::steps;
use crate::testing::{TestStore, small_limits};
use crate::{CompactionHashScan, Reader, Restoration, StateReplaced};

/// CRC-32C of the bucket's name, which is all there is to hash where there are no versions.
const NOTHING: u32 = 1_084_519_789;

/// The hash, the revision it covers and the compact revision.
fn hash(reader: &Reader, revision: i64) -> Result<(u32, i64, i64), Error> {
    let mut hashing = reader.hash_kv(revision)?;
    loop {
        if let Some(reply) = hashing.step()? {
            return Ok((reply.hash, reply.hash_revision, reply.compact_revision));
        }
    }
}

#[test]
fn negative_revisions_cover_nothing() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    assert_eq!(hash(&bench.reader, -3), Ok((NOTHING, -3, -1)));
    bench.compact(2).expect("2 is the newest");
    assert_eq!(hash(&bench.reader, -1), Ok((NOTHING, -1, 2)));
}

#[test]
fn a_compaction_leaves_the_hash_of_what_it_purged() {
    let mut bench = TestStore::new();
    for (key, value) in [("a", "1"), ("b", "2"), ("a", ""), ("c", "a longer value")] {
        bench.put(key, value);
    }
    bench.delete("b", "");
    bench.put("a", "5");
    let before = hash(&bench.reader, 5).expect("not compacted").0;
    bench.compact(5).expect("5 is there");
    while !bench.store.purge_step(1) {}
    // Never compacted before: all there was up to then.
    assert_eq!(hash(&bench.reader, 5), Ok((before, 5, -1)));
    let whole = hash(&bench.reader, 7).expect("the newest").0;
    assert_eq!(hash(&bench.reader, 0), Ok((whole, 7, 5)));

    bench.compact(7).expect("7 is there");
    let unpurged = hash(&bench.reader, 7).expect("the compact revision");
    assert_eq!(unpurged.2, 7, "the hash is not noted before the purge is done");
    while !bench.store.purge_step(1) {}
    assert_eq!(hash(&bench.reader, 7), Ok((whole, 7, 5)));
    assert_eq!(
        hash(&bench.reader, 0),
        Ok((unpurged.0, 7, 7)),
        "only who asks for the revision gets the note"
    );
    assert_eq!(hash(&bench.reader, 5), Err(Error::Compacted));
}

#[test]
fn a_change_is_hashed_once_if_purging_stopped_among_those_of_its_revision() {
    let mut bench = TestStore::new();
    for key in 0..100 {
        bench.put(&format!("k{key:02}"), "value");
    }
    let deleted = bench.delete("k", "l");
    let last = bench.put("z", "later");
    let whole = hash(&bench.reader, last).expect("the newest").0;
    // Purging may go no further than the deletion at first.
    let pin = bench.reader.shared.pin(deleted);
    bench.compact(last).expect("it is the newest");
    assert!(!bench.store.purge_step(150), "fifty deletions are left");
    drop(pin);
    while !bench.store.purge_step(7) {}
    bench.store.check_all();
    assert_eq!(hash(&bench.reader, last), Ok((whole, last, -1)));
}

#[test]
fn a_compaction_before_the_last_is_purged_leaves_no_hash() {
    let mut bench = TestStore::new();
    for value in ["1", "2", "3", "4"] {
        bench.put("a", value);
    }
    bench.compact(3).expect("3 is there");
    bench.compact(5).expect("5 is there");
    while !bench.store.purge_step(1) {}
    assert_eq!(hash(&bench.reader, 5).expect("the newest").2, 5);
}

/// Compacts, purges and hashes what was kept, as a member does.
fn compact_and_keep(bench: &mut TestStore, at: i64) {
    bench.compact(at).expect("it is there");
    while !bench.store.purge_step(1) {}
    keep(bench);
}

fn keep(bench: &mut TestStore) {
    let mut scan = bench.store.begin_compaction_hash(u64::MAX).expect("a compaction was purged");
    while !step(bench, &mut scan) {}
}

fn step(bench: &mut TestStore, scan: &mut CompactionHashScan) -> bool {
    let kept = scan.advance(1).expect("the same state");
    kept.map(|kept| bench.store.keep_hash(kept)).is_some()
}

#[test]
fn the_hashes_of_the_last_ten_compactions_are_kept() {
    let mut bench = TestStore::new();
    let mut answers = Vec::new();
    for n in 0..12_i64 {
        bench.put("a", &n.to_string());
        bench.put(&format!("b{n}"), "x");
        let at = bench.reader.current_revision() - n % 2;
        compact_and_keep(&mut bench, at);
        answers.push((at, hash(&bench.reader, at).expect("the compact revision")));
        assert!(bench.store.begin_compaction_hash(u64::MAX).is_none(), "it is hashed once");
    }
    bench.put("a", "later");
    for (at, _) in &answers[..2] {
        assert_eq!(hash(&bench.reader, *at), Err(Error::Compacted), "forgotten");
    }
    for (at, answer) in &answers[2..] {
        assert_eq!(hash(&bench.reader, *at), Ok(*answer));
    }
    let kept: Vec<i64> = bench.reader.kept_hashes().iter().map(|kept| kept.revision).collect();
    let newest_first: Vec<i64> = answers[2..].iter().rev().map(|(at, _)| *at).collect();
    assert_eq!(kept, newest_first);
}

/// A HashKV and the job find the same, and the next compaction is not purged before the job is done.
#[test]
fn what_a_compaction_kept_is_hashed_before_the_next_is_purged() {
    let mut bench = TestStore::new();
    for key in ["a", "b", "c", "a"] {
        bench.put(key, "1");
    }
    compact_and_keep(&mut bench, 4);
    bench.put("b", "2");
    bench.compact(6).expect("6 is there");
    while !bench.store.purge_step(1) {}
    let asked = hash(&bench.reader, 6);
    let mut scan = bench.store.begin_compaction_hash(u64::MAX).expect("6 was purged");
    bench.delete("a", "");
    bench.compact(7).expect("7 is there");
    assert!(bench.store.purge_step(100), "nothing can be purged now");
    assert_eq!(bench.reader.purged(), 6);
    assert_eq!(hash(&bench.reader, 6), asked, "although it is compacted");
    while !step(&mut bench, &mut scan) {}
    drop(scan);
    while !bench.store.purge_step(1) {}
    assert_eq!((bench.reader.purged(), hash(&bench.reader, 6)), (7, asked));
    bench.store.check_all();
}

/// Nothing waits for a job that was not begun, and a hash that cannot be known any more is not answered.
#[test]
fn a_hash_that_was_not_begun_is_given_up() {
    let mut bench = TestStore::new();
    for value in ["1", "2", "3"] {
        bench.put("a", value);
    }
    bench.compact(3).expect("3 is there");
    while !bench.store.purge_step(1) {}
    bench.compact(4).expect("4 is there");
    while !bench.store.purge_step(1) {}
    assert_eq!(hash(&bench.reader, 3), Err(Error::Compacted));
    keep(&mut bench);
    assert_eq!(bench.reader.kept_hashes().len(), 1);
}

/// The thread that begins it has other work, and other jobs wait for each part.
#[test]
fn the_hash_of_a_compaction_takes_few_steps_at_a_time() {
    const KEYS: usize = 200;
    let mut bench = TestStore::new();
    (0..KEYS).for_each(|number| _ = bench.put(&format!("k{number:04}"), "v"));
    let revision = bench.reader.current_revision();
    compact_and_keep(&mut bench, revision);
    bench.put("other", "v");
    bench.compact(revision + 1).expect("it is there");
    while !bench.store.purge_step(1) {}
    let asked = hash(&bench.reader, revision + 1).expect("the compact revision").0;
    let (scan, steps) = steps::of(|| bench.store.begin_compaction_hash(u64::MAX));
    let mut scan = scan.expect("a compaction was purged");
    assert_eq!(steps, 0, "beginning looks at nothing");
    let limits = small_limits();
    let (mut parts, mut all) = (0, 0);
    let kept = loop {
        let (kept, steps) = steps::of(|| scan.advance(1).expect("the same state"));
        assert!(steps <= 2 * limits.chunk_keys + 1, "{steps} steps in part {parts}");
        (parts, all) = (parts + 1, all + steps);
        if let Some(kept) = kept {
            break kept;
        }
    };
    assert_eq!(kept.hash, asked);
    // Each window costs a walk that looks at each key and its version, then each version and the one before it.
    let walks = KEYS.div_ceil(limits.sorted_versions);
    let part_of_walk = KEYS.div_ceil(limits.chunk_keys);
    assert!(all <= walks * (2 * KEYS + part_of_walk + 3) + 2 * KEYS, "{all} steps in {parts} parts");
}

/// The hash of a large store would keep compacted history in place for several walks over all keys.
#[test]
fn a_compaction_that_keeps_too_many_versions_is_not_hashed() {
    let mut bench = TestStore::new();
    (0..10).for_each(|number| _ = bench.put(&format!("k{number}"), "v"));
    let revision = bench.reader.current_revision();
    compact_and_keep(&mut bench, revision);
    bench.put("k0", "new");
    bench.compact(revision + 1).expect("it is there");
    while !bench.store.purge_step(1) {}
    let (scan, steps) = steps::of(|| bench.store.begin_compaction_hash(8));
    assert!(scan.is_none(), "nine versions were kept unchanged");
    assert_eq!(steps, 0);
    assert!(bench.store.begin_compaction_hash(9).is_some());
}

/// A state that a snapshot brings has no hash of a compaction; those that were kept stay.
#[test]
fn a_replaced_state_ends_the_hash_of_a_compaction() {
    let mut bench = TestStore::new();
    for key in ["kept", "a", "a"] {
        bench.put(key, "1");
    }
    compact_and_keep(&mut bench, 3);
    bench.compact(4).expect("4 is there");
    while !bench.store.purge_step(1) {}
    let mut scan = bench.store.begin_compaction_hash(u64::MAX).expect("4 was purged");
    let mut restoration = Restoration::default();
    let chunks: Vec<Bytes> = bench.store.begin_snapshot().collect();
    chunks.iter().try_for_each(|chunk| restoration.push(chunk)).expect("a whole snapshot");
    bench.install(restoration.finish().expect("a whole snapshot"));
    assert_eq!(scan.advance(1), Err(StateReplaced));
    assert!(bench.store.begin_compaction_hash(u64::MAX).is_none());
    assert_eq!(bench.reader.kept_hashes().len(), 1);
    assert_eq!(hash(&bench.reader, 4).expect("the compact revision").2, 4, "hashed as it is now");
}

/// A restart, or a snapshot, in the middle of a purge: a part of what is hashed was dropped before. That compaction has
/// no hash, and the next one has.
#[test]
fn the_compaction_after_one_that_was_interrupted_is_hashed_again() {
    let run = |is_interrupted: bool| {
        let mut bench = TestStore::new();
        for key in ["a", "b", "a", "a"] {
            bench.put(key, "1");
        }
        bench.compact(4).expect("4 is there");
        assert!(!bench.store.purge_step(1), "it is under way");
        if is_interrupted {
            let mut restoration = Restoration::default();
            let chunks: Vec<Bytes> = bench.store.begin_snapshot().collect();
            chunks.iter().try_for_each(|chunk| restoration.push(chunk)).expect("a whole snapshot");
            bench.install(restoration.finish().expect("a whole snapshot"));
        }
        while !bench.store.purge_step(1) {}
        if is_interrupted {
            assert!(bench.store.begin_compaction_hash(u64::MAX).is_none());
        } else {
            keep(&mut bench);
        }
        bench.put("b", "2");
        compact_and_keep(&mut bench, 6);
        bench.reader.kept_hashes()
    };
    let (undisturbed, interrupted) = (run(false), run(true));
    assert_eq!((undisturbed.len(), interrupted.len()), (2, 1));
    assert_eq!(interrupted[0], undisturbed[0], "peers that were not interrupted find the same");
}
