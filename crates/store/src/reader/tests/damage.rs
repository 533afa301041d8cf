//! A reader that finds a damaged value says whose it is, so that repair need not search for it.

use api::etcdserverpb as pb;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use crate::testing::{TestStore, op, range_request};
use crate::{Damaged, ReadTxn, Reply, resolve, resolve_range};

fn named(damaged: Option<Damaged>) -> Option<Bytes> {
    damaged.expect("a value is damaged").key
}

#[test]
fn whoever_reads_a_damaged_value_knows_its_key() {
    let mut bench = TestStore::new();
    for (key, value) in [("a", "1"), ("b", "22"), ("c", &"3".repeat(100_000))] {
        bench.put(key, value);
    }
    let all = range_request("a", "z");
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    let kvs = bench.reader.range(&all).unwrap().kvs;
    for at in [1, 2] {
        let (key, address) = (kvs[at].key.clone(), kvs[at].value.address);
        bench.values.damage(address, true);
        let reply = bench.reader.range(&all).unwrap();
        assert_eq!(named(resolve_range(&reply, &*bench.values).err()), Some(key.clone()));
        let encoded = bench.reader.encode_range(&all, header, &mut Vec::<Bytes>::new());
        assert_eq!(named(encoded.err()), Some(key.clone()));
        let by_value = pb::RangeRequest { sort_target: 4, sort_order: 1, ..all.clone() };
        let sorted = bench.reader.encode_range(&by_value, header, &mut Vec::<Bytes>::new());
        assert_eq!(named(sorted.err()), Some(key.clone()));
        let compare = pb::Compare {
            result: CompareResult::Greater as i32,
            target: CompareTarget::Value as i32,
            key: key.clone(),
            target_union: Some(TargetUnion::Value("0".into())),
            ..Default::default()
        };
        let success = vec![op(Request::RequestRange(all.clone()))];
        let request = pb::TxnRequest { compare: vec![compare], success, ..Default::default() };
        assert_eq!(named(bench.reader.txn(&ReadTxn::of(&request).unwrap()).err()), Some(key.clone()));
        bench.values.damage(address, false);
    }
    let delete = crate::Command::DeleteRange(crate::testing::delete_request("b", ""));
    let reply: Reply = bench.outcome(delete).unwrap();
    bench.values.damage(kvs[1].value.address, true);
    assert_eq!(named(resolve(&reply, &*bench.values).err()), Some("b".into()));
}
