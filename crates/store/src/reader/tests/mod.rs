//! Reading: HashKV against etcd, streams, history, walks.

mod between_holds;
mod captured;
mod cost;
mod damage;
mod hash_kv;
mod keeping;
mod lease_keys;
mod parallel;
mod replaced;
mod sorted_stream;
mod txn;

use api::etcdserverpb as pb;
use bytes::Bytes;

use crate::testing::{TestStore, delete_request, grant, op, put_request, range_request};
use crate::{Command, EventKind, History, KeyRange, RangeReply, VersionPosition};

/// Runs a HashKV to its end.
fn hash(bench: &TestStore, revision: i64) -> (u32, i64, i64, i64) {
    let mut hash = bench.reader.hash_kv(revision).expect("the revision can be read");
    loop {
        if let Some(reply) = hash.step().expect("the revision can be read") {
            return (reply.hash, reply.hash_revision, reply.compact_revision, reply.revision);
        }
    }
}

/// One line of the script of `testdata/hash_kv.txt`.
fn run_line(bench: &mut TestStore, words: &[&str]) {
    use pb::request_op::Request;
    let number = |word: &str| word.parse::<i64>().expect("a number");
    match words {
        ["put", triples @ ..] => {
            let mut success = Vec::new();
            for triple in triples.chunks(3) {
                let value = if triple[1] == "-" { "" } else { triple[1] };
                let lease = number(triple[2]);
                if lease != 0 {
                    let _ = bench.outcome(grant(lease, 100));
                }
                let put = pb::PutRequest { lease, ..put_request(triple[0], value) };
                success.push(op(Request::RequestPut(put)));
            }
            bench.outcome(Command::Txn(pb::TxnRequest { success, ..Default::default() })).unwrap();
        }
        ["del", key] => drop(bench.delete(key, "")),
        ["del", key, end] => drop(bench.delete(key, end)),
        ["compact", revision] => {
            bench.compact(number(revision)).unwrap();
            // With and without the purge it must be the same, so purge only half of the time.
            if number(revision) % 8 == 0 {
                while !bench.store.purge_step(1) {}
            }
        }
        ["hash", revision, "=", expected @ ..] => {
            let (hash, at, compacted, current) = hash(bench, number(revision));
            let found = [i64::from(hash), at, compacted, current];
            let expected: Vec<i64> = expected.iter().map(|word| number(word)).collect();
            assert_eq!(found, expected[..], "{words:?}");
        }
        other => panic!("no such line: {other:?}"),
    }
}

#[test]
fn hash_kv_is_that_of_etcd() {
    let mut bench = TestStore::new();
    let script = include_str!("../../../testdata/hash_kv.txt");
    for line in script.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        run_line(&mut bench, &line.split_whitespace().collect::<Vec<_>>());
    }
}

fn keys(reply: &RangeReply) -> Vec<Bytes> {
    reply.kvs.iter().map(|kv| kv.key.clone()).collect()
}

#[test]
fn a_stream_stays_at_its_revision_while_history_goes() {
    let mut bench = TestStore::new();
    for n in 0..20 {
        bench.put(&format!("k{n:02}"), "v");
    }
    let request = pb::RangeRequest { limit: 15, ..range_request("k", "l") };
    let whole = bench.reader.range(&request).unwrap();
    let mut stream = bench.reader.range_stream(&request).unwrap();
    let mut merged: Vec<Bytes> = Vec::new();
    let mut chunks = 0;
    while let Some(chunk) = stream.next_chunk(4, usize::MAX).unwrap().unwrap() {
        merged.extend(keys(&chunk.reply));
        chunks += 1;
        bench.apply(vec![Command::DeleteRange(delete_request(&format!("k1{chunks}"), ""))]);
        let now = bench.reader.current_revision();
        bench.compact(now).unwrap();
        assert!(bench.store.purge_step(1_000));
        assert_eq!(chunk.last, chunks == 4);
        if chunk.last {
            assert_eq!((chunk.reply.revision, chunk.reply.count, chunk.reply.more), (21, 20, true));
        } else {
            assert_eq!((chunk.reply.revision, chunk.reply.count, chunk.reply.more), (0, 0, false));
        }
    }
    assert_eq!(merged, keys(&whole));
    assert_eq!(bench.reader.purged(), 21, "the stream holds its revision");
    drop(stream);
    assert!(bench.store.purge_step(1_000));
    assert_eq!(bench.reader.purged(), bench.reader.compacted());
}

#[test]
fn a_stream_is_cut_by_bytes_and_always_ends() {
    let mut bench = TestStore::new();
    for n in 0..4 {
        bench.put(&format!("k{n}"), "0123456789");
    }
    let mut stream = bench.reader.range_stream(&range_request("k", "l")).unwrap();
    let sizes: Vec<_> = std::iter::from_fn(|| stream.next_chunk(10, 24).unwrap().unwrap())
        .map(|chunk| (chunk.reply.kvs.len(), chunk.last))
        .collect();
    assert_eq!(sizes, [(2, false), (2, true)]);
    let mut empty = bench.reader.range_stream(&range_request("x", "")).unwrap();
    assert!(
        empty
            .next_chunk(10, 10)
            .unwrap()
            .unwrap()
            .is_some_and(|chunk| chunk.last && chunk.reply.kvs.is_empty())
    );
    assert!(empty.next_chunk(10, 10).unwrap().unwrap().is_none());
    let sorted = pb::RangeRequest { sort_order: 2, ..range_request("k", "l") };
    assert_eq!(bench.reader.range_stream(&sorted).err(), Some(api::Error::StreamSortUnsupported));
    let filtered = pb::RangeRequest { min_mod_revision: 2, ..range_request("k", "l") };
    assert_eq!(bench.reader.range_stream(&filtered).err(), Some(api::Error::StreamFilterUnsupported));
}

#[test]
fn history_starts_at_the_compact_revision_with_its_tombstones() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    bench.put("b", "1");
    bench.delete("a", "");
    bench.put("b", "2");
    bench.compact(4).unwrap();
    assert!(bench.store.purge_step(100));
    let range = |start: &'static str, end: &'static str| KeyRange { start: start.into(), end: end.into() };
    assert_eq!(bench.reader.events(&range("a", ""), 3, 10, 10).unwrap_err().at, 4);
    for all in [range("a", "c"), range("a", "\0")] {
        let (events, next) = bench.reader.events(&all, 4, 10, 10).unwrap();
        let found: Vec<_> =
            events.iter().map(|event| (event.kind.clone(), event.kv.mod_revision.main)).collect();
        assert_eq!(found, [(EventKind::Delete, 4), (EventKind::Put, 5)]);
        assert!(events[0].prev.is_none(), "what came before the compact revision is gone");
        assert_eq!(events[1].prev.as_ref().unwrap().mod_revision.main, 3);
        assert_eq!(next, 6);
    }
    let (events, next) = bench.reader.events(&range("a", ""), 4, 10, 10).unwrap();
    assert_eq!((events.len(), next), (1, 6));
    let (events, next) = bench.reader.events(&range("x", ""), 9, 10, 10).unwrap();
    assert_eq!((events.len(), next), (0, 9));
}

#[test]
fn catching_up_cuts_between_revisions_only() {
    let mut bench = TestStore::new();
    for round in 0..3 {
        for key in ["a", "b", "c"] {
            bench.put(key, "v");
        }
        assert_eq!(bench.delete("a", "z"), 5 + 4 * round);
    }
    let range = KeyRange { start: "a".into(), end: "z".into() };
    let (events, next) = bench.reader.events(&range, 5, 1, 100).unwrap();
    assert_eq!((events.len(), next), (3, 6), "a revision is whole, however few events were asked for");
    let (events, next) = bench.reader.events(&range, 2, 100, 4).unwrap();
    assert_eq!((events.len(), next), (6, 6));
    let single = KeyRange { start: "b".into(), end: Bytes::new() };
    let (events, next) = bench.reader.events(&single, 2, 2, 100).unwrap();
    assert_eq!((events.len(), next), (2, 7));
}

#[test]
fn all_retained_versions_come_in_revision_order() {
    let mut bench = TestStore::new();
    for key in ["b", "a", "c", "a"] {
        bench.put(key, "v");
    }
    bench.delete("c", "");
    bench.put("b", "w");
    bench.compact(6).unwrap();
    for purged in [false, true] {
        assert!(!purged || bench.store.purge_step(100));
        let mut walk = bench.reader.versions();
        let mut found = Vec::new();
        loop {
            let chunk = walk.next_chunk(1).unwrap();
            if chunk.is_empty() {
                break;
            }
            found.extend(chunk.iter().map(|one| (one.kv.mod_revision.main, one.tombstone)));
        }
        assert_eq!(found, [(2, false), (5, false), (6, true), (7, false)]);
    }
}

#[test]
fn references_into_a_file_are_found_and_switched() {
    let mut bench = TestStore::new();
    for key in ["a", "b", "c", "d"] {
        bench.put(key, key);
    }
    bench.put("a", "");
    let mut found = Vec::new();
    let mut from = Some(VersionPosition::default());
    while let Some(start) = from {
        let (references, next) = bench.reader.live_references(|address| address >> 32 == 0, &start, 1);
        found.extend(references);
        from = next;
    }
    assert_eq!(found.len(), 4, "empty values have no place");
    assert_eq!(
        bench.reader.live_references(|address| address >> 32 == 1, &Default::default(), 10),
        (vec![], None)
    );
    let one = &found[0];
    let copy = 7 << 32;
    bench.values.store(copy, &Bytes::from_static(b"a"));
    assert!(bench.store.relocate(&one.key, one.revision, &one.value, copy));
    assert!(!bench.store.relocate(&one.key, one.revision, &one.value, copy), "it is not there any more");
    assert_eq!(
        bench.reader.live_references(|address| address >> 32 == 7, &Default::default(), 10).0.len(),
        1
    );
    assert_eq!(bench.values.references().keys().filter(|address| **address >= copy).count(), 1);
}

#[test]
fn references_are_found_by_key_and_address_and_switched_together() {
    let mut bench = TestStore::new();
    bench.put("a", "x");
    bench.put("b", "y");
    let keeping = pb::PutRequest { key: "a".into(), ignore_value: true, ..Default::default() };
    bench.apply(vec![Command::Put(keeping)]);
    bench.put("a", "z");
    let all = bench.reader.live_references(|_| true, &Default::default(), 10).0;
    let at: Vec<(Bytes, u64)> = all.iter().map(|one| (one.key.clone(), one.value.address)).collect();
    assert_eq!(all.len(), 3, "two versions share a value");
    let asked =
        vec![at[2].clone(), ("a".into(), at[2].1), at[1].clone(), ("absent".into(), at[0].1), at[0].clone()];
    let expected = [Some(all[2].clone()), None, Some(all[1].clone()), None, Some(all[0].clone())];
    assert_eq!(bench.reader.references_to(&asked), expected);
    let shared = &all[0];
    let copy = 7 << 32;
    bench.values.store(copy, &Bytes::from_static(b"x"));
    assert!(bench.store.relocate(&shared.key, shared.revision, &shared.value, copy));
    assert_eq!(bench.values.references().get(&copy), Some(&2), "both versions refer to the copy");
    assert!(!bench.values.references().contains_key(&shared.value.address));
}

#[test]
fn a_range_is_served_once_though_it_was_given_up_before() {
    let mut bench = TestStore::new();
    for n in 0..20 {
        bench.put(&format!("k{n:02}"), "v");
    }
    let served = || bench.reader.counts().ranges;
    let before = served();
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    let mut chunks: Vec<Bytes> = Vec::new();
    for sort_target in [0, 3] {
        let all = pb::RangeRequest { sort_target, ..range_request("k", "l") };
        let encoded = bench.reader.encode_range_within(&all, 5, header, &mut chunks).unwrap();
        assert_eq!((encoded, served()), (Ok(false), before));
    }
    bench.reader.encode_range(&range_request("k", "l"), header, &mut chunks).unwrap().unwrap();
    assert_eq!(served(), before + 1);
}
