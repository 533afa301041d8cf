//! Which reads keep values in memory.

use super::*;
use crate::Access;
use crate::reader::encode_range::MAX_CACHED_KEYS;

fn accesses(bench: &TestStore, request: &pb::RangeRequest) -> Vec<Access> {
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    bench
        .reader
        .encode_range(request, header, &mut Vec::new())
        .expect("no value is damaged")
        .expect("the revision can be read");
    let mut accesses = bench.values.take_accesses();
    accesses.dedup();
    accesses
}

#[test]
fn gets_and_bounded_lists_keep_values_and_longer_ones_pass_by() {
    let mut bench = TestStore::new();
    bench.answers = false;
    let put = |number: usize| Command::Put(put_request(&format!("{number:08}"), "v"));
    bench.apply((0..MAX_CACHED_KEYS).map(put).collect());
    let all = || range_request("\0", "\0");
    let limited = |limit: usize| pb::RangeRequest { limit: limit as i64, ..all() };
    assert_eq!(accesses(&bench, &range_request("00000001", "")), [Access::Query]);
    assert_eq!(accesses(&bench, &all()), [Access::Query]);
    bench.apply(vec![put(MAX_CACHED_KEYS)]);
    assert_eq!(accesses(&bench, &all()), [Access::Scan]);
    assert_eq!(accesses(&bench, &limited(MAX_CACHED_KEYS + 1)), [Access::Scan]);
    assert_eq!(accesses(&bench, &limited(MAX_CACHED_KEYS)), [Access::Query]);
    let sorted = pb::RangeRequest { sort_target: pb::range_request::SortTarget::Mod.into(), ..all() };
    assert_eq!(accesses(&bench, &sorted), [Access::Scan]);
}
