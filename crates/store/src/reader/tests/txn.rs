//! Transactions that only read.

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use api::etcdserverpb::request_op::Request;

use crate::apply::MAX_COMPARED_BYTES;
use crate::index::steps;
use crate::testing::{TestStore, op, put_request, range_request};
use crate::{Command, OpReply, ReadTxn, Response, resolve_txn};

fn value_is(key: &str, end: &str, value: &str) -> pb::Compare {
    pb::Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Value as i32,
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        target_union: Some(TargetUnion::Value(value.to_owned().into())),
    }
}

fn request(
    compare: Vec<pb::Compare>,
    success: Vec<pb::RangeRequest>,
    failure: Vec<pb::RangeRequest>,
) -> pb::TxnRequest {
    let ops = |ranges: Vec<pb::RangeRequest>| {
        ranges.into_iter().map(|range| op(Request::RequestRange(range))).collect()
    };
    pb::TxnRequest { compare, success: ops(success), failure: ops(failure) }
}

/// Answers a request from the reader.
fn read(bench: &TestStore, request: &pb::TxnRequest) -> Result<pb::TxnResponse, Error> {
    let txn = ReadTxn::of(request).expect("it only reads");
    let reply = bench.reader.txn(&txn).expect("no value is damaged")?;
    Ok(resolve_txn(&reply, &*bench.values).expect("no value is damaged"))
}

#[test]
fn it_is_answered_as_the_log_would_answer_it() {
    let mut bench = TestStore::new();
    for n in 0..12 {
        bench.put(&format!("k{n:02}"), "v");
    }
    bench.put("k03", "w");
    bench.delete("k05", "");
    let at = |revision| pb::RangeRequest { revision, ..range_request("k", "l") };
    let all = || vec![range_request("k", "l"), range_request("k03", ""), at(4), at(-1)];
    for compare in [
        vec![],
        vec![value_is("k", "l", "v")],
        vec![value_is("k04", "k09", "v"), value_is("k03", "", "w")],
        vec![value_is("k05", "", "v")],
        vec![value_is("x", "y", "v")],
    ] {
        let request = request(compare, all(), vec![range_request("k00", "")]);
        let Response::Txn(logged) = bench.respond(Command::Txn(request.clone())) else { panic!() };
        assert_eq!(read(&bench, &request), Ok(logged), "{:?}", request.compare);
    }
}

#[test]
fn the_branch_taken_decides_what_is_refused() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    bench.put("a", "2");
    bench.compact(3).expect("3 is there");
    let at = |revision| pb::RangeRequest { revision, ..range_request("a", "") };
    let taken = |revision| read(&bench, &request(vec![], vec![at(revision)], vec![at(99)]));
    assert_eq!(taken(4), Err(Error::FutureRevision));
    assert_eq!(taken(2), Err(Error::Compacted));
    assert_eq!(taken(-1), Err(Error::Compacted), "in a transaction, negative is not now");
    assert!(taken(3).expect("the compact revision can be read").succeeded);
}

#[test]
fn a_damaged_value_to_compare_is_told_of() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let address = bench.reader.range(&range_request("a", "")).unwrap().kvs[0].value.address;
    bench.values.damage(address, true);
    let request = request(vec![value_is("a", "", "1")], vec![], vec![]);
    let txn = ReadTxn::of(&request).expect("it only reads");
    assert_eq!(bench.reader.txn(&txn).unwrap_err().address, address);
    bench.values.damage(address, false);
    assert!(bench.reader.txn(&txn).unwrap().unwrap().succeeded);
}

#[test]
fn what_is_no_range_is_left_to_the_log() {
    let serializable = || pb::RangeRequest { serializable: true, ..range_request("a", "") };
    let mut txn = request(vec![], vec![serializable()], vec![]);
    assert!(ReadTxn::of(&txn).expect("it only reads").is_serializable());
    txn.failure.push(op(Request::RequestRange(range_request("a", ""))));
    assert!(!ReadTxn::of(&txn).expect("it only reads").is_serializable(), "one range of many");
    txn.failure.push(op(Request::RequestPut(put_request("a", "1"))));
    assert!(ReadTxn::of(&txn).is_none());
    let nested = request(vec![], vec![], vec![]);
    assert!(!ReadTxn::of(&nested).expect("it only compares").is_serializable());
    let nesting = pb::TxnRequest { success: vec![op(Request::RequestTxn(nested))], ..Default::default() };
    assert!(ReadTxn::of(&nesting).is_none(), "etcd does not look into nested transactions");
}

#[test]
fn its_ranges_are_all_of_one_revision() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let request = request(vec![], vec![range_request("a", "b"), range_request("a", "")], vec![]);
    let reply = bench.reader.txn(&ReadTxn::of(&request).unwrap()).unwrap().unwrap();
    let revisions = reply.replies.iter().map(|reply| match reply {
        OpReply::Range(range) => range.revision,
        other => panic!("a range, not {other:?}"),
    });
    assert_eq!(revisions.collect::<Vec<_>>(), [2, 2]);
    assert_eq!(reply.revision, 2);
}

#[test]
fn compares_that_visit_too_many_keys_are_refused_as_in_the_log() {
    const KEYS: usize = 2_000;
    let mut bench = TestStore::with_slices_of(1_000);
    bench.apply((0..KEYS).map(|n| Command::Put(put_request(&format!("k{n:04}"), "v"))).collect());
    let exists = || pb::Compare {
        result: CompareResult::Greater as i32,
        target: CompareTarget::Version as i32,
        target_union: Some(TargetUnion::Version(0)),
        ..value_is("k", "l", "")
    };
    let compares = |count| std::iter::repeat_with(exists).take(count).collect::<Vec<_>>();
    // 49 compares visit 98,000 keys and count as 49 more, 50 visit 100,000.
    for (count, is_allowed) in [(49, true), (50, false)] {
        let request = request(compares(count), vec![range_request("k0000", "")], vec![]);
        let (answer, steps) = steps::of(|| read(&bench, &request));
        let logged = bench.outcome(Command::Txn(request.clone()));
        assert_eq!((answer.is_ok(), logged.is_ok()), (is_allowed, is_allowed), "{count} compares");
        if !is_allowed {
            assert_eq!((answer.err(), logged.err()), (Some(Error::TooManyOps), Some(Error::TooManyOps)));
            assert!(steps < KEYS, "{steps} steps before it is refused");
        }
    }
}

#[test]
fn compares_that_read_too_many_bytes_are_refused_as_in_the_log() {
    const VALUE_BYTES: usize = 256 << 10;
    let mut bench = TestStore::new();
    let value = "v".repeat(VALUE_BYTES);
    bench.put("k", &value);
    let mut compare = value_is("k", "", &value);
    compare.result = CompareResult::Less as i32;
    compare.target_union = Some(TargetUnion::Value("w".into()));
    let most = MAX_COMPARED_BYTES as usize / VALUE_BYTES;
    for (count, is_allowed) in [(most, true), (most + 1, false)] {
        let request = request(vec![compare.clone(); count], vec![], vec![]);
        let expected = if is_allowed { None } else { Some(Error::TooManyOps) };
        assert_eq!(read(&bench, &request).err(), expected, "{count} compares");
        assert_eq!(bench.outcome(Command::Txn(request)).err(), expected, "{count} compares in the log");
    }
    // A range of as many keys is counted while it is walked.
    let keys: Vec<_> = (0..=most).map(|n| format!("r{n:04}")).collect();
    keys.iter().for_each(|key| _ = bench.put(key, &value));
    let range = pb::Compare { key: "r".into(), range_end: "s".into(), ..compare.clone() };
    let request = request(vec![range], vec![], vec![]);
    assert_eq!(read(&bench, &request), Err(Error::TooManyOps));
}
