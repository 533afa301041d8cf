//! Ranges: ends, orders, limits, counts of the past.

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::RangeRequest;
use api::etcdserverpb::range_request::{SortOrder, SortTarget};
use bytes::Bytes;

use crate::testing::{TestStore, put_request, range_request};
use crate::{Command, Reader};

/// Keys a, b, c, d with mod revisions 2, 3, 6, 5 and versions 1, 1, 2, 1.
fn bench() -> TestStore {
    let mut bench = TestStore::new();
    for (key, value) in [("a", "3"), ("b", "1"), ("c", "0"), ("d", "2"), ("c", "2")] {
        bench.put(key, value);
    }
    bench
}

fn keys(reader: &Reader, request: &RangeRequest) -> String {
    let reply = reader.range(request).expect("the revision can be read");
    reply.kvs.iter().map(|kv| std::str::from_utf8(&kv.key).unwrap()).collect()
}

fn sorted(target: SortTarget, order: SortOrder, limit: i64) -> RangeRequest {
    RangeRequest { sort_target: target as i32, sort_order: order as i32, limit, ..range_request("a", "\0") }
}

#[test]
fn ends_are_read_as_etcd_reads_them() {
    let bench = bench();
    let of = |start: &str, end: &str| keys(&bench.reader, &range_request(start, end));
    assert_eq!(of("b", ""), "b");
    assert_eq!(of("b", "d"), "bc");
    assert_eq!(of("b", "\0"), "bcd");
    assert_eq!(of("\0", "\0"), "abcd");
    assert_eq!(of("d", "b"), "", "inverted");
    assert_eq!(of("b", "b"), "");
    assert_eq!(of("bb", ""), "");
}

#[test]
fn sorting_and_limits() {
    let bench = bench();
    let of = |target, order, limit| keys(&bench.reader, &sorted(target, order, limit));
    assert_eq!(of(SortTarget::Key, SortOrder::Descend, 0), "dcba");
    assert_eq!(of(SortTarget::Key, SortOrder::Descend, 2), "dc");
    assert_eq!(of(SortTarget::Mod, SortOrder::Ascend, 3), "abd");
    assert_eq!(of(SortTarget::Mod, SortOrder::Descend, 1), "c");
    assert_eq!(of(SortTarget::Version, SortOrder::Descend, 0), "cabd", "ties stay in key order");
    assert_eq!(of(SortTarget::Version, SortOrder::None, 0), "abdc", "a target without an order ascends");
    assert_eq!(of(SortTarget::Mod, SortOrder::None, 2), "ab", "and then the limit cuts in key order first");
    assert_eq!(of(SortTarget::Key, SortOrder::None, -3), "abcd", "a negative limit is none");
}

#[test]
fn sorting_by_value_is_done_with_the_values() {
    let bench = bench();
    for (order, expected) in [(SortOrder::Ascend, "bcd"), (SortOrder::Descend, "acd")] {
        let request = RangeRequest { keys_only: true, ..sorted(SortTarget::Value, order, 3) };
        let reply = bench.reader.range(&request).unwrap();
        assert!(reply.more);
        let response = crate::resolve_range(&reply, &*bench.values).unwrap();
        let keys: Vec<u8> = response.kvs.iter().flat_map(|kv| kv.key.to_vec()).collect();
        assert_eq!(keys, expected.as_bytes());
        assert!(response.kvs.iter().all(|kv| kv.value.is_empty()));
    }
}

#[test]
fn counts_do_not_heed_limits_and_filters() {
    let bench = bench();
    let request = RangeRequest { min_mod_revision: 3, limit: 1, ..range_request("a", "\0") };
    let reply = bench.reader.range(&request).unwrap();
    assert_eq!((keys(&bench.reader, &request).as_str(), reply.more, reply.count), ("b", true, 4));
    let request = RangeRequest { max_create_revision: 3, limit: 2, ..range_request("a", "\0") };
    assert!(!bench.reader.range(&request).unwrap().more);
}

#[test]
fn counting_the_past_by_either_way() {
    let mut bench = TestStore::new();
    for n in 0..30 {
        bench.put(&format!("k{n:02}"), "v");
    }
    for n in 0..5 {
        bench.delete(&format!("k{n:02}"), "");
    }
    let count = |revision, start: &str, end: &str| {
        let request = RangeRequest { revision, count_only: true, ..range_request(start, end) };
        bench.reader.range(&request).unwrap().count
    };
    for revision in 2..=36 {
        let born = (revision - 1).min(30);
        let dead = (revision - 31).max(0);
        assert_eq!(count(revision, "k", "l"), born - dead, "at {revision}");
        assert_eq!(
            count(revision, "k00", "k02"),
            born.min(2) - dead.min(2),
            "few keys, much history, at {revision}"
        );
    }
}

#[test]
fn revisions_out_of_reach() {
    let mut bench = bench();
    bench.compact(4).unwrap();
    let at = |revision| RangeRequest { revision, ..range_request("a", "") };
    assert_eq!(bench.reader.range(&at(7)).err(), Some(Error::FutureRevision));
    assert_eq!(bench.reader.range(&at(3)).err(), Some(Error::Compacted));
    assert!(bench.reader.range(&at(4)).is_ok());
    let reply = bench.reader.range(&at(-1)).unwrap();
    assert_eq!((reply.kvs.len(), reply.revision), (1, 6), "a negative revision is the newest");
}

#[test]
fn keys_only_hides_leases_unless_sorted_by_value() {
    let mut bench = TestStore::new();
    bench.outcome(crate::testing::grant(7, 60)).unwrap();
    bench.outcome(Command::Put(pb::PutRequest { lease: 7, ..put_request("k", "v") })).unwrap();
    for (target, lease) in [(SortTarget::Key, 0), (SortTarget::Value, 7)] {
        let request = RangeRequest { keys_only: true, ..sorted(target, SortOrder::None, 0) };
        let reply = bench.reader.range(&request).unwrap();
        let response = crate::resolve_range(&reply, &*bench.values).unwrap();
        assert_eq!((response.kvs[0].lease, response.kvs[0].value.clone()), (lease, Bytes::new()));
    }
}
