//! The encoder beside the generated types: the same bytes for every kind of range.

use api::etcdserverpb as pb;
use api::etcdserverpb::range_request::{SortOrder, SortTarget};
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::encoder::CHUNK_BYTES;
use super::key_value::LARGE_VALUE_BYTES;
use super::{ChunkSink, NextChunk};
use crate::testing::{TestStore, grant, put_request, range_request};
use crate::{Command, resolve_range};

/// Numbers at their shortest and longest.
fn header(revision: i64) -> pb::ResponseHeader {
    pb::ResponseHeader { cluster_id: u64::MAX, member_id: 1, revision, raft_term: 300 }
}

/// What the generated types make of the same range.
fn expected(bench: &TestStore, request: &pb::RangeRequest) -> Vec<u8> {
    let reply = bench.reader.range(request).expect("the revision can be read");
    let mut response = resolve_range(&reply, &*bench.values).expect("no value is damaged");
    response.header = Some(header(reply.revision));
    response.encode_to_vec()
}

fn encoded(bench: &TestStore, request: &pb::RangeRequest) -> Vec<Bytes> {
    let mut chunks = Announced::default();
    let encoded = bench.reader.encode_range(request, header, &mut chunks).expect("no value is damaged");
    encoded.expect("the revision can be read");
    chunks.check()
}

/// The chunks, and how many bytes they were said to have.
#[derive(Default)]
struct Announced {
    bytes: Option<usize>,
    chunks: Vec<Bytes>,
}

impl ChunkSink for Announced {
    fn begin(&mut self, bytes: usize) {
        assert_eq!((self.bytes.replace(bytes), self.chunks.len()), (None, 0), "told once, before the first");
    }

    fn push(&mut self, chunk: Bytes) {
        assert!(self.bytes.is_some(), "chunks follow their length");
        self.chunks.push(chunk);
    }
}

impl Announced {
    fn check(self) -> Vec<Bytes> {
        assert_eq!(self.bytes, Some(self.chunks.iter().map(Bytes::len).sum()));
        self.chunks
    }
}

fn check(bench: &TestStore, request: &pb::RangeRequest) {
    let chunks = encoded(bench, request);
    assert!(chunks.concat() == expected(bench, request), "{request:?} in {} chunks", chunks.len());
}

fn streamed(bench: &TestStore, request: &pb::RangeRequest, max_keys: usize, max_bytes: usize) {
    let mut stream = bench.reader.range_stream(request).expect("the revision can be read");
    while let Some(chunk) = stream.next_chunk(max_keys, max_bytes).expect("it is not sorted").unwrap() {
        let mut response = resolve_range(&chunk.reply, &*bench.values).expect("no value is damaged");
        response.header = chunk.last.then(|| header(chunk.reply.revision));
        let expected = pb::RangeStreamResponse { range_response: Some(response) }.encode_to_vec();
        let chunks = chunk.encode(header, &*bench.values).expect("no value is damaged");
        assert!(chunks.concat() == expected, "{request:?} in {} chunks", chunks.len());
    }
}

fn put(bench: &mut TestStore, key: &[u8], value_bytes: usize, lease: i64) {
    let value: Vec<u8> = (0..value_bytes).map(|at| (at % 251) as u8).collect();
    let put = pb::PutRequest { lease, ..put_request("", "") };
    let put = pb::PutRequest { key: key.to_vec().into(), value: value.into(), ..put };
    bench.outcome(Command::Put(put)).expect("a put");
}

#[test]
fn a_single_key_shows_its_lease_when_sorted_by_value() {
    let mut bench = TestStore::new();
    bench.outcome(grant(7, 60)).expect("a lease");
    put(&mut bench, b"k", 3, 7);
    for target in [SortTarget::Key, SortTarget::Value, SortTarget::Mod] {
        let request = pb::RangeRequest {
            keys_only: true,
            sort_target: target.into(),
            sort_order: SortOrder::Ascend.into(),
            ..range_request("k", "")
        };
        check(&bench, &request);
    }
}

/// A value's size: mostly small, sometimes none, sometimes about what is a chunk of its own.
fn value_bytes() -> impl Strategy<Value = usize> {
    let large = LARGE_VALUE_BYTES as usize;
    prop_oneof![6 => 0..300_usize, 1 => Just(0), 1 => large - 2..large + 3, 1 => Just(3 * large)]
}

fn request() -> impl Strategy<Value = pb::RangeRequest> {
    let ends = ("[a-d]{0,3}", prop_oneof![Just(String::new()), Just("\0".to_owned()), "[a-e]{1,3}"]);
    let order = (0..3_i32, 0..5_i32, 0..12_i64, 0..20_i64);
    let flags = (any::<bool>(), any::<bool>(), prop_oneof![4 => Just(0), 1 => 1..10_i64]);
    (ends, order, flags).prop_map(|((start, end), (order, target, limit, revision), flags)| {
        pb::RangeRequest {
            sort_order: order,
            sort_target: target,
            limit,
            revision,
            keys_only: flags.0,
            count_only: flags.1 && flags.0,
            min_mod_revision: flags.2,
            ..range_request(if start.is_empty() { "\0" } else { &start }, &end)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_bytes_are_those_of_the_generated_types(
        puts in prop::collection::vec(("[a-d]{1,3}", value_bytes(), 0..2_i64), 1..40),
        requests in prop::collection::vec(request(), 1..12),
        (max_keys, max_bytes) in (1..8_usize, 1..2000_usize),
    ) {
        let mut bench = TestStore::new();
        bench.outcome(grant(1, 60)).expect("a lease");
        for (key, value_bytes, lease) in &puts {
            put(&mut bench, key.as_bytes(), *value_bytes, *lease);
        }
        for request in requests {
            if bench.reader.range(&request).is_ok() {
                check(&bench, &request);
            } else {
                let encoded = bench.reader.encode_range(&request, header, &mut Vec::new());
                prop_assert!(encoded.expect("no value is damaged").is_err());
            }
            let plain = pb::RangeRequest { sort_order: 0, min_mod_revision: 0, revision: 0, ..request };
            streamed(&bench, &plain, max_keys, max_bytes);
        }
    }
}

#[test]
fn a_long_list_comes_in_chunks() {
    let mut bench = TestStore::new();
    for n in 0..300 {
        put(&mut bench, format!("k{n:03}").as_bytes(), 1_000, 0);
    }
    // The chunks of a range of many keys are those of the walk's chunks, which are small here; a chunk of a stream is
    // cut by its bytes.
    assert!(encoded(&bench, &range_request("k", "l")).len() >= 90);
    check(&bench, &range_request("k", "l"));
    streamed(&bench, &range_request("k", "l"), 1_000, usize::MAX);
    let mut stream = bench.reader.range_stream(&range_request("k", "l")).expect("now can be read");
    let chunk = stream.next_chunk(1_000, usize::MAX).expect("it is not sorted");
    let chunk = chunk.expect("no snapshot is installed").expect("there are keys");
    let chunks = chunk.encode(header, &*bench.values).expect("no value is damaged");
    assert_eq!(chunks.len(), 3);
    assert!(chunks.iter().all(|chunk| chunk.len() < CHUNK_BYTES + 2 * LARGE_VALUE_BYTES as usize));
}

#[test]
fn a_large_value_is_a_chunk_of_its_own() {
    let mut bench = TestStore::new();
    bench.outcome(grant(1, 60)).expect("a lease");
    put(&mut bench, b"a", 10, 0);
    put(&mut bench, b"b", 100_000, 1);
    for (request, expected) in [(range_request("b", ""), 3), (range_request("a", "c"), 3)] {
        let chunks = encoded(&bench, &request);
        assert_eq!(chunks.len(), expected);
        assert_eq!(chunks[1].len(), 100_000);
        check(&bench, &request);
    }
    let lone = encoded(&bench, &range_request("a", ""));
    assert_eq!(lone.len(), 1, "nothing large, so one chunk");
    let missing = encoded(&bench, &range_request("x", ""));
    assert_eq!(missing.concat(), expected(&bench, &range_request("x", "")));
}

#[test]
fn a_damaged_value_is_named_until_it_is_repaired() {
    let mut bench = TestStore::new();
    for n in 0..20 {
        bench.put(&format!("k{n:02}"), "value");
    }
    let by_value = pb::RangeRequest {
        sort_order: SortOrder::Ascend as i32,
        sort_target: SortTarget::Value as i32,
        ..range_request("k", "l")
    };
    let address =
        bench.reader.range(&range_request("k07", "")).expect("now can be read").kvs[0].value.address;
    for request in [range_request("k07", ""), range_request("k", "l"), by_value] {
        bench.values.damage(address, true);
        assert_eq!(
            bench.reader.encode_range(&request, header, &mut Vec::new()).err().map(|damaged| damaged.address),
            Some(address)
        );
        let keys_only = pb::RangeRequest { keys_only: true, ..range_request("k", "l") };
        check(&bench, &keys_only);
        bench.values.damage(address, false);
        check(&bench, &request);
    }
}

/// Encodes a range while the store changes.
struct Meddled<'a> {
    bench: &'a mut TestStore,
    chunks: Announced,
}

impl Meddled<'_> {
    fn meddle(&mut self) {
        let revision = self.bench.put("k005", "another, longer value");
        self.bench.put(&format!("k{revision:04}x"), "a new key");
        self.bench.delete("k00", "k01");
        self.bench.compact(revision).expect("a revision that was");
        while !self.bench.store.purge_step(100) {}
    }
}

impl ChunkSink for Meddled<'_> {
    fn begin(&mut self, bytes: usize) {
        self.chunks.begin(bytes);
        self.meddle();
    }

    fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
        self.meddle();
    }
}

fn forty_keys() -> TestStore {
    let mut bench = TestStore::new();
    bench.outcome(grant(7, 60)).expect("a lease");
    for n in 0..40 {
        put(&mut bench, format!("k{n:03}").as_bytes(), 10 * n, if n % 3 == 0 { 7 } else { 0 });
    }
    bench
}

/// Ranges that are walked once and twice, with their ends at every position.
fn many_ranges() -> Vec<pb::RangeRequest> {
    let limits =
        [0, 1, 4, 5, 6, 7, 20, 39, 40, 41].map(|limit| pb::RangeRequest { limit, ..range_request("k", "l") });
    let shapes = limits.into_iter().flat_map(|request| {
        let backwards = pb::RangeRequest { sort_order: SortOrder::Descend as i32, ..request.clone() };
        let keys_only = pb::RangeRequest { keys_only: true, ..request.clone() };
        let newer = pb::RangeRequest { min_mod_revision: 12, ..request.clone() };
        [request, backwards, keys_only, newer]
    });
    shapes.collect()
}

#[test]
fn a_list_shows_its_revision_whatever_happens_while_it_is_made() {
    for request in many_ranges() {
        let mut bench = forty_keys();
        let before = expected(&bench, &request);
        let reader = bench.reader.clone();
        let mut meddled = Meddled { bench: &mut bench, chunks: Announced::default() };
        let encoded = reader.encode_range(&request, header, &mut meddled).expect("no value is damaged");
        encoded.expect("the revision can be read");
        assert!(meddled.chunks.check().concat() == before, "{request:?}");
    }
}

#[test]
fn a_list_that_is_made_again_later_has_the_same_bytes() {
    for request in many_ranges() {
        let mut bench = forty_keys();
        let first = encoded(&bench, &request).concat();
        let revision = bench.reader.current_revision();
        bench.put("k005", "another, longer value");
        bench.put("k0055", "a new key");
        bench.delete("k01", "k02");
        let again = pb::RangeRequest { revision, ..request };
        let mut chunks = Announced::default();
        let made = bench
            .reader
            .encode_range(&again, |_| header(revision), &mut chunks)
            .expect("no value is damaged");
        made.expect("the revision can be read");
        assert!(chunks.check().concat() == first, "{again:?}");
    }
}

/// A receiver that has the beginning of a response, and takes a number of chunks of the rest.
struct Rest {
    skip: usize,
    left: usize,
    bytes: Vec<u8>,
}

impl ChunkSink for Rest {
    fn begin(&mut self, _: usize) {}

    fn next(&mut self, bytes: usize) -> NextChunk {
        if bytes <= self.skip {
            self.skip -= bytes;
            return NextChunk::Skip;
        }
        match self.left.checked_sub(1) {
            None => NextChunk::Stop,
            Some(left) => {
                self.left = left;
                NextChunk::Make
            }
        }
    }

    fn push(&mut self, chunk: Bytes) {
        self.bytes.extend_from_slice(&chunk[std::mem::take(&mut self.skip)..]);
    }
}

#[test]
fn what_the_receiver_has_is_not_read_again_and_what_it_does_not_take_is_not_made() {
    for request in many_ranges() {
        let bench = forty_keys();
        let chunks = encoded(&bench, &request);
        let whole = chunks.concat();
        for (skip, left) in
            [(0, 0), (0, 1), (1, 100), (chunks[0].len(), 1), (whole.len() / 2, 100), (whole.len(), 9)]
        {
            let mut rest = Rest { skip, left, bytes: Vec::new() };
            let made = bench.reader.encode_range(&request, header, &mut rest).expect("no value is damaged");
            made.expect("the revision can be read");
            assert!(whole[skip..].starts_with(&rest.bytes), "{request:?} without {skip} bytes");
            assert!(left < 50 || rest.bytes.len() == whole.len() - skip, "{request:?} without {skip} bytes");
        }
    }
    // Who has the first values does not notice that they are damaged.
    let bench = forty_keys();
    let request = range_request("k", "l");
    let chunks = encoded(&bench, &request);
    let has = chunks[0].len();
    assert!(chunks.len() > 1, "the store of the tests cuts where a chunk of keys ends");
    let found = bench.reader.range(&range_request("k001", "")).expect("now can be read");
    bench.values.damage(found.kvs[0].value.address, true);
    for (skip, is_read) in [(has, false), (has - 1, true)] {
        let mut rest = Rest { skip, left: 100, bytes: Vec::new() };
        let made = bench.reader.encode_range(&request, header, &mut rest);
        assert_eq!(made.is_err(), is_read, "without {skip} bytes");
        assert!(is_read || rest.bytes == chunks.concat()[skip..]);
    }
}
