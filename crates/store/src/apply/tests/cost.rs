//! What a transaction may cost.

use super::*;
use crate::ReadTxn;
use crate::apply::cost::{MAX_COMPARED_BYTES, MAX_COMPARED_KEYS, MAX_TXN_KEYS};

const KEYS: u64 = 2_000;

fn loaded() -> TestStore {
    let mut bench = TestStore::with_slices_of(1_000);
    bench.apply((0..KEYS).map(|n| put(&format!("k{n:04}"), "v")).collect());
    bench
}

fn all() -> pb::RangeRequest {
    range_request("k", "l")
}

/// A transaction of so many ranges, nested like a client would that gets past a limit on operations.
fn nested_ranges(ranges: usize, range: &pb::RangeRequest) -> pb::TxnRequest {
    let leaf = |count| txn(vec![], vec![Request::RequestRange(range.clone()); count], vec![]);
    let inner = |count: usize| {
        let leaves = (0..count.div_ceil(42)).map(|nth| leaf((count - nth * 42).min(42)));
        txn(vec![], leaves.map(Request::RequestTxn).collect(), vec![])
    };
    let outer = (0..ranges.div_ceil(42 * 42)).map(|nth| inner((ranges - nth * 42 * 42).min(42 * 42)));
    let mut ops: Vec<_> = outer.map(Request::RequestTxn).collect();
    ops.push(Request::RequestPut(put_request("written", "")));
    txn(vec![], ops, vec![])
}

#[test]
fn a_transaction_that_visits_too_many_keys_is_refused_and_changes_nothing() {
    let mut bench = loaded();
    let before = bench.reader.state_hash().1;
    for has_caller in [true, false] {
        bench.answers = has_caller;
        let request = nested_ranges(42 * 42 * 42, &all());
        assert_eq!(
            bench.outcome(Command::Txn(request)),
            Err(Error::TooManyOps),
            "with a caller: {has_caller}"
        );
    }
    assert_eq!(bench.reader.state_hash().1, before);
    let allowed = (MAX_TXN_KEYS / (KEYS + 1)) as usize - 2;
    let Ok(Reply::Txn(reply)) = bench.outcome(Command::Txn(nested_ranges(allowed, &all()))) else { panic!() };
    assert!(!reply.is_too_large);
    assert_eq!(bench.reader.counts().keys, KEYS + 1);
}

#[test]
fn ranges_cost_what_they_visit() {
    let mut bench = loaded();
    let many = (MAX_TXN_KEYS / KEYS) as usize + 1;
    let mut outcome = |range| bench.outcome(Command::Txn(nested_ranges(many, &range))).map(|_| ());
    assert_eq!(outcome(all()), Err(Error::TooManyOps));
    assert_eq!(outcome(pb::RangeRequest { count_only: true, ..all() }), Ok(()));
    assert_eq!(outcome(pb::RangeRequest { limit: 10, ..all() }), Ok(()));
    assert_eq!(
        outcome(pb::RangeRequest { limit: 10, sort_target: 2, sort_order: 1, ..all() }),
        Err(Error::TooManyOps)
    );
    assert_eq!(outcome(pb::RangeRequest { limit: 10, min_mod_revision: 3, ..all() }), Err(Error::TooManyOps));
}

#[test]
fn deletions_and_compares_are_counted_too() {
    let mut bench = loaded();
    let many = (MAX_TXN_KEYS / KEYS) as usize + 1;
    let deletes = vec![Request::RequestDeleteRange(delete_request("k", "l")); many];
    assert_eq!(bench.outcome(Command::Txn(txn(vec![], deletes, vec![]))), Err(Error::TooManyOps));
    let exists =
        || compare("k", "l", CompareResult::Greater, CompareTarget::Version, TargetUnion::Version(0));
    let many = (MAX_COMPARED_KEYS / KEYS) as usize + 1;
    let compares = |count| std::iter::repeat_with(exists).take(count).collect::<Vec<_>>();
    assert_eq!(bench.outcome(Command::Txn(txn(compares(many), vec![], vec![]))), Err(Error::TooManyOps));
    // Compares of a branch that is not taken count too: their values are read before the branch is chosen.
    let hidden = Request::RequestTxn(txn(compares(many), vec![], vec![]));
    assert_eq!(bench.outcome(Command::Txn(txn(vec![], vec![], vec![hidden]))), Err(Error::TooManyOps));
    let Ok(Reply::Txn(reply)) = bench.outcome(Command::Txn(txn(compares(many / 2), vec![], vec![]))) else {
        panic!()
    };
    assert!(reply.succeeded);
    assert_eq!(bench.reader.counts().keys, KEYS);
}

#[test]
fn the_bytes_that_compares_may_need_are_limited_in_all_branches_together() {
    let mut bench = TestStore::with_slices_of(1_000);
    let value = "x".repeat(1 << 19);
    bench.put("k", &value);
    let many = (MAX_COMPARED_BYTES >> 19) as usize;
    let greater =
        || compare("k", "", CompareResult::Greater, CompareTarget::Value, TargetUnion::Value("a".into()));
    let differs =
        || compare("k", "", CompareResult::NotEqual, CompareTarget::Value, TargetUnion::Value("a".into()));
    let with = |outer: usize, hidden: usize| {
        let compares = std::iter::repeat_with(greater).take(outer).chain([differs()]).collect();
        let nested = Request::RequestTxn(txn(vec![greater(); hidden], vec![], vec![]));
        Command::Txn(txn(compares, vec![], vec![nested]))
    };
    assert!(bench.outcome(with(many, 0)).is_ok(), "what the checksum decides needs no bytes");
    assert_eq!(bench.outcome(with(many + 1, 0)), Err(Error::TooManyOps));
    assert!(bench.outcome(with(many / 2, many / 2)).is_ok());
    assert_eq!(bench.outcome(with(many / 2, many / 2 + 1)), Err(Error::TooManyOps));
}

#[test]
fn a_read_only_transaction_has_the_same_limit() {
    let bench = loaded();
    let many = (MAX_TXN_KEYS / KEYS) as usize + 1;
    let request = txn(vec![], vec![Request::RequestRange(all()); many], vec![]);
    let reads = ReadTxn::of(&request).expect("it only reads");
    assert_eq!(bench.reader.txn(&reads).unwrap(), Err(Error::TooManyOps));
}

#[test]
fn reads_of_a_larger_past_end_in_an_answer_that_is_too_large() {
    let mut bench = loaded();
    let revision = bench.reader.current_revision();
    bench.delete("k", "l");
    let many = (MAX_TXN_KEYS / KEYS) as usize + 1;
    let past = pb::RangeRequest { revision, ..all() };
    let Ok(Reply::Txn(reply)) = bench.outcome(Command::Txn(nested_ranges(many, &past))) else { panic!() };
    assert!(reply.is_too_large, "live keys are counted, and none is live");
    assert_eq!(bench.reader.counts().keys, 1, "what it writes is written, as on all members");
}
