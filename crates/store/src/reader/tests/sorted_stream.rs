//! A streamed range with a sort target and no order, against the plain range.

use api::etcdserverpb::range_request::SortTarget;
use api::mvccpb;

use super::*;
use crate::{Damaged, RangeStream, resolve_range};

const TARGETS: [SortTarget; 5] =
    [SortTarget::Key, SortTarget::Version, SortTarget::Create, SortTarget::Mod, SortTarget::Value];

/// Eight keys of which every target makes another order; some have a lease.
fn bench() -> TestStore {
    let mut bench = TestStore::new();
    bench.outcome(grant(7, 60)).unwrap();
    for (key, value) in
        ["d7", "b1", "h4", "a8", "f2", "b6", "g3", "c9", "e5", "d0", "d0"].map(|pair| pair.split_at(1))
    {
        let lease = if key < "d" { 7 } else { 0 };
        bench.outcome(Command::Put(pb::PutRequest { lease, ..put_request(key, value) })).unwrap();
    }
    bench
}

/// All responses of a stream as one.
fn merged(bench: &TestStore, mut stream: RangeStream, max_keys: usize) -> pb::RangeResponse {
    let mut merged = pb::RangeResponse::default();
    while let Some(chunk) = stream.next_chunk(max_keys, usize::MAX).expect("no value is damaged").unwrap() {
        assert!(chunk.reply.kvs.len() <= max_keys);
        let part = resolve_range(&chunk.reply, &*bench.values).expect("no value is damaged");
        merged.kvs.extend(part.kvs);
        if chunk.last {
            (merged.header, merged.count, merged.more) = (part.header, part.count, part.more);
        }
    }
    merged
}

#[test]
fn a_stream_with_a_sort_target_is_the_plain_range() {
    let bench = bench();
    let limits = [0, 1, 3, 7, 8, 9];
    let ends = [("a", "\0"), ("b", "f"), ("d", ""), ("x", "z"), ("x", "")];
    for (target, limit, (key, end), flags) in all_of(&limits, &ends) {
        let request = pb::RangeRequest {
            sort_target: target.into(),
            limit,
            keys_only: flags & 1 != 0,
            count_only: flags & 2 != 0,
            ..range_request(key, end)
        };
        let whole = resolve_range(&bench.reader.range(&request).unwrap(), &*bench.values).unwrap();
        for max_keys in [1, 3, 100] {
            let stream = bench.reader.range_stream(&request).unwrap();
            assert_eq!(merged(&bench, stream, max_keys), whole, "{request:?}, {max_keys} keys a response");
        }
    }
}

/// Every target with every limit, range and pair of flags.
fn all_of<'a>(
    limits: &'a [i64],
    ends: &'a [(&'a str, &'a str)],
) -> impl Iterator<Item = (SortTarget, i64, (&'a str, &'a str), u8)> {
    let targets = TARGETS.into_iter();
    targets.flat_map(move |target| {
        let limits = limits.iter().copied();
        limits.flat_map(move |limit| {
            ends.iter().flat_map(move |end| (0..4).map(move |flags| (target, limit, *end, flags)))
        })
    })
}

#[test]
fn a_stream_sorted_by_damaged_values_goes_on_after_a_repair() {
    let bench = bench();
    let request = pb::RangeRequest { sort_target: SortTarget::Value.into(), ..range_request("a", "\0") };
    let mut stream = bench.reader.range_stream(&request).unwrap();
    let address = bench.reader.range(&range_request("e", "")).unwrap().kvs[0].value.address;
    bench.values.damage(address, true);
    for _ in 0..2 {
        let Err(Damaged { address: found, .. }) = stream.next_chunk(3, usize::MAX) else { panic!("damaged") };
        assert_eq!(found, address);
    }
    bench.values.damage(address, false);
    let sorted: Vec<mvccpb::KeyValue> = merged(&bench, stream, 3).kvs;
    let values: Vec<&[u8]> = sorted.iter().map(|kv| &kv.value[..]).collect();
    assert_eq!(values.concat(), b"02345689");
}
