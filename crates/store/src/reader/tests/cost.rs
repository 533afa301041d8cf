//! What reads cost, counted in the versions, changes and keys that the index looks at.

use api::mvccpb;

use super::*;
use crate::index::steps;

/// Keys of the lists.
const KEYS: usize = 600;

/// A store with [`KEYS`] keys, each written again after the revision that is returned.
fn rewritten() -> (TestStore, i64) {
    let mut bench = TestStore::new();
    let key = |number: usize| format!("k{number:04}");
    (0..KEYS).for_each(|number| _ = bench.put(&key(number), "first"));
    let revision = bench.reader.current_revision();
    (0..3 * KEYS).for_each(|number| _ = bench.put(&key(number % KEYS), "later"));
    (bench, revision)
}

#[test]
fn catching_up_on_one_key_costs_as_much_as_its_history() {
    const VERSIONS: usize = 4_000;
    let mut bench = TestStore::new();
    (0..VERSIONS).for_each(|_| _ = bench.put("k", "value"));
    let range = KeyRange { start: "k".into(), end: Bytes::new() };
    let newest = bench.reader.current_revision();
    let catch_up = || {
        let (mut from, mut found) = (1, 0);
        while from <= newest {
            let (events, next) = bench.reader.events(&range, from, 50, 10_000).expect("nothing is compacted");
            found += events.len();
            from = next;
        }
        found
    };
    let (found, steps) = steps::of(catch_up);
    assert_eq!(found, VERSIONS);
    assert!(steps < 4 * VERSIONS, "{steps} steps for {VERSIONS} versions");
}

/// A look-up takes as long as its limit says, and goes on within a key.
#[test]
fn references_are_looked_up_a_few_versions_at_a_time() {
    const VERSIONS: usize = 1_000;
    const MAX: usize = 64;
    let mut bench = TestStore::new();
    bench.put("before", "value");
    (0..VERSIONS).for_each(|_| _ = bench.put("k", "value"));
    let shared = pb::PutRequest { key: "k".into(), ignore_value: true, ..Default::default() };
    (0..MAX).for_each(|_| _ = bench.apply(vec![Command::Put(shared.clone())]));
    bench.put("later", "value");
    let all = bench.reader.live_references(|_| true, &VersionPosition::default(), usize::MAX);
    assert_eq!((all.0.len(), &all.1), (VERSIONS + 2, &None), "versions that share a value are one reference");
    let (mut found, mut from) = (Vec::new(), Some(VersionPosition::default()));
    while let Some(position) = from {
        let look_up = || bench.reader.live_references(|_| true, &position, MAX);
        let ((references, next), steps) = steps::of(look_up);
        assert!(steps <= MAX + 6, "{steps} steps from {position:?}");
        found.extend(references);
        from = next;
    }
    assert_eq!(found, all.0);
    for (nth, reference) in found.iter().enumerate() {
        let position = VersionPosition { key: reference.key.clone(), after: Some(reference.revision) };
        assert_eq!(bench.reader.live_references(|_| true, &position, usize::MAX).0, found[nth + 1..]);
    }
}

/// Reads [k, l) at `revision` in pages of 30 keys. Returns the count that each page says.
fn pages(revision: i64, sort_order: i32, read: impl Fn(&pb::RangeRequest) -> pb::RangeResponse) -> Vec<i64> {
    let mut request =
        pb::RangeRequest { revision, sort_order, limit: 30, keys_only: true, ..range_request("k", "l") };
    let mut counts = Vec::new();
    loop {
        let page = read(&request);
        counts.push(page.count);
        let last = &page.kvs.last().expect("a page has keys").key;
        match sort_order {
            2 => request.range_end = last.clone(),
            _ => request.key = [&last[..], b"\0"].concat().into(),
        }
        if !page.more {
            return counts;
        }
    }
}

/// Each page would otherwise undo all changes since the revision, or walk what is left of the list, to count it.
#[test]
fn the_pages_of_an_old_list_cost_as_much_as_the_list() {
    let (bench, revision) = rewritten();
    let encoded = |request: &pb::RangeRequest| {
        let mut chunks: Vec<Bytes> = Vec::new();
        let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
        bench.reader.encode_range(request, header, &mut chunks).unwrap().unwrap();
        prost::Message::decode(&*chunks.concat()).expect("a response")
    };
    let referenced = |request: &pb::RangeRequest| {
        let RangeReply { kvs, more, count, .. } = bench.reader.range(request).unwrap();
        let kvs = kvs.into_iter().map(|kv| mvccpb::KeyValue { key: kv.key, ..Default::default() }).collect();
        pb::RangeResponse { header: None, kvs, more, count }
    };
    let reads: [&dyn Fn(&pb::RangeRequest) -> pb::RangeResponse; 2] = [&encoded, &referenced];
    for (read, order) in reads.into_iter().flat_map(|read| [(read, 0), (read, 2)]) {
        let (counts, steps) = steps::of(|| pages(revision, order, read));
        let expected: Vec<i64> = (1..=KEYS as i64 / 30).rev().map(|left| left * 30).collect();
        assert_eq!(counts, expected);
        assert!(steps < 9 * KEYS, "{steps} steps for {KEYS} keys");
    }
}

#[test]
fn a_page_says_what_a_count_says_whatever_is_known() {
    let (mut bench, revision) = rewritten();
    let read = |bench: &TestStore, revision| {
        let reader = bench.reader.clone();
        pages(revision, 0, move |request| {
            let RangeReply { kvs, more, count, .. } = reader.range(request).unwrap();
            let counted = reader.range(&pb::RangeRequest { limit: 0, ..request.clone() }).unwrap();
            assert_eq!((count, counted.kvs.len() as i64), (counted.count, count));
            let kvs = kvs.into_iter().map(|kv| mvccpb::KeyValue { key: kv.key, ..Default::default() });
            pb::RangeResponse { header: None, kvs: kvs.collect(), more, count }
        })
    };
    for _ in 0..3 {
        read(&bench, revision);
        read(&bench, revision - 100);
        bench.delete("k01", "k03");
        read(&bench, 0);
        bench.put("k0150", "again");
    }
}

/// What gives up before `max_steps`: each tuple is a name, a request, and whether it is long.
#[test]
fn a_long_range_is_found_out_in_few_steps() {
    const MAX_STEPS: usize = 50;
    let (mut bench, revision) = rewritten();
    bench.delete("k01", "k05");
    let all = range_request("k", "l");
    let old = pb::RangeRequest { revision, ..all.clone() };
    let sorted = pb::RangeRequest { sort_target: 3, sort_order: 2, limit: 1, ..all.clone() };
    let dead = range_request("k01", "k05");
    let requests = [
        ("all", all.clone(), true),
        ("some", pb::RangeRequest { limit: 10, ..all.clone() }, false),
        ("counted", pb::RangeRequest { count_only: true, ..all }, false),
        ("one key", range_request("k0001", ""), false),
        ("a few of an old revision", pb::RangeRequest { limit: 10, ..old.clone() }, true),
        ("counted at an old revision", pb::RangeRequest { count_only: true, key: "k0".into(), ..old }, true),
        ("the newest", sorted, true),
        ("deleted keys", pb::RangeRequest { limit: 1, ..dead }, true),
    ];
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    for (name, request, is_long) in requests {
        let (mut within, mut whole): (Vec<Bytes>, Vec<Bytes>) = Default::default();
        let find = || bench.reader.encode_range_within(&request, MAX_STEPS, header, &mut within);
        let (encoded, steps) = steps::of(find);
        assert_eq!(encoded.unwrap(), Ok(!is_long), "{name}");
        assert!(steps < 3 * MAX_STEPS, "{name}: {steps} steps");
        bench.reader.encode_range(&request, header, &mut whole).unwrap().unwrap();
        assert_eq!(within.concat(), if is_long { Vec::new() } else { whole.concat() }, "{name}");
    }
    let streamed = |request: &pb::RangeRequest| {
        let (stream, steps) = steps::of(|| bench.reader.range_stream_within(request, MAX_STEPS).unwrap());
        assert!(steps < 3 * MAX_STEPS);
        stream.is_some()
    };
    assert!(streamed(&range_request("k", "l")), "its first response is near");
    assert!(!streamed(&pb::RangeRequest { revision, ..range_request("k", "m") }), "it must be counted first");
    assert!(
        !streamed(&pb::RangeRequest { sort_target: 3, ..range_request("k", "l") }),
        "it must be sorted first"
    );
}

#[test]
fn a_range_of_twenty_thousand_keys_is_walked_once() {
    let mut bench = TestStore::within(crate::Limits::default());
    bench.answers = false;
    let put = |number: usize| Command::Put(put_request(&format!("{number:08}"), "v"));
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    // One hold of the lock examines 256 keys.
    for (more, walks) in [(0..20_000, 1), (20_000..20_257, 2)] {
        let keys = more.end;
        bench.apply(more.map(put).collect());
        let mut chunks: Vec<Bytes> = Vec::new();
        let encode = || bench.reader.encode_range(&range_request("\0", "\0"), header, &mut chunks);
        let (encoded, steps) = steps::of(encode);
        encoded.unwrap().unwrap();
        assert_eq!(steps / keys, walks, "{steps} steps");
    }
}
