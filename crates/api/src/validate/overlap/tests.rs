//! Which changes of one transaction collide.

use proptest::prelude::*;

use super::*;
use crate::etcdserverpb::{PutRequest, RangeRequest, TxnRequest};

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn put(key: &str) -> RequestOp {
    op(Request::RequestPut(PutRequest { key: key.to_owned().into(), ..Default::default() }))
}

fn get(key: &str) -> RequestOp {
    op(Request::RequestRange(RangeRequest { key: key.to_owned().into(), ..Default::default() }))
}

fn delete(key: &str, range_end: &str) -> RequestOp {
    let (key, range_end) = (key.to_owned().into(), range_end.to_owned().into());
    op(Request::RequestDeleteRange(DeleteRangeRequest { key, range_end, prev_kv: false }))
}

fn txn(success: &[RequestOp], failure: &[RequestOp]) -> RequestOp {
    let (success, failure) = (success.to_vec(), failure.to_vec());
    op(Request::RequestTxn(TxnRequest { compare: vec![], success, failure }))
}

#[track_caller]
fn allowed(branch: &[RequestOp]) {
    assert_eq!(check(branch), Ok(()));
}

#[track_caller]
fn refused(branch: &[RequestOp]) {
    assert_eq!(check(branch), Err(Error::DuplicateKey));
}

#[test]
fn puts_of_one_level() {
    allowed(&[]);
    allowed(&[put("a")]);
    allowed(&[put("a"), put("b"), get("a")]);
    refused(&[put("a"), put("a")]);
    refused(&[put("a"), get("b"), put("b"), put("a")]);
}

#[test]
fn a_put_and_a_deletion_in_either_order() {
    refused(&[put("a"), delete("a", "")]);
    refused(&[delete("a", ""), put("a")]);
    refused(&[delete("a", "c"), put("b")]);
    refused(&[put("a"), delete("a", "c")]);
    refused(&[delete("a", "a\0"), put("a")]);
    allowed(&[delete("a", "c"), put("c")]);
    allowed(&[delete("b", "c"), put("a")]);
    allowed(&[delete("a", ""), put("a\0")]);
}

#[test]
fn deletions_may_overlap() {
    allowed(&[delete("a", ""), delete("a", "")]);
    allowed(&[delete("a", "c"), delete("b", "d"), delete("b", "")]);
    refused(&[delete("a", "c"), delete("b", "d"), put("c")]);
    refused(&[delete("a", "z"), delete("b", "c"), put("x")]);
    refused(&[delete("c", "d"), delete("a", "b"), delete("b", "c"), put("b")]);
    allowed(&[delete("c", "d"), delete("a", "b"), put("b")]);
}

#[test]
fn a_range_without_end_or_upside_down_holds_nothing() {
    allowed(&[delete("a", "\0"), put("b")]);
    allowed(&[delete("\0", "\0"), put("b")]);
    allowed(&[delete("c", "a"), put("b")]);
    allowed(&[delete("b", "b"), put("b")]);
}

#[test]
fn branches_of_a_nested_transaction_exclude_each_other() {
    allowed(&[txn(&[put("a")], &[put("a")])]);
    allowed(&[txn(&[put("a")], &[delete("a", "")])]);
    refused(&[txn(&[put("a"), put("a")], &[])]);
    refused(&[txn(&[], &[put("a"), put("a")])]);
}

#[test]
fn a_nested_transaction_against_its_parent() {
    refused(&[put("a"), txn(&[put("a")], &[])]);
    refused(&[txn(&[], &[put("a")]), put("a")]);
    refused(&[txn(&[put("a")], &[]), delete("a", "b")]);
    refused(&[delete("a", "b"), txn(&[], &[put("a")])]);
    refused(&[txn(&[delete("a", "b")], &[]), put("a")]);
    refused(&[put("a"), txn(&[], &[txn(&[], &[delete("a", "")])])]);
    allowed(&[put("a"), txn(&[put("b")], &[put("c")])]);
}

#[test]
fn nested_transactions_side_by_side() {
    refused(&[txn(&[put("a")], &[]), txn(&[put("a")], &[])]);
    refused(&[txn(&[put("a")], &[]), txn(&[], &[put("a")])]);
    refused(&[txn(&[delete("a", "")], &[]), txn(&[put("a")], &[])]);
    // Only the deletions of earlier neighbours are known when a put is looked at.
    allowed(&[txn(&[put("a")], &[]), txn(&[delete("a", "")], &[])]);
    refused(&[txn(&[put("a")], &[]), txn(&[delete("a", "")], &[]), txn(&[put("a")], &[])]);
}

#[test]
fn many_ranges_do_not_take_quadratic_time() {
    // With every pair compared this would be 4 * 10^8 steps and be felt.
    let ranges = (0..20_000).map(|n| delete(&format!("{n:05}a"), &format!("{n:05}b")));
    let puts = (0..20_000).map(|n| put(&format!("{n:05}c")));
    allowed(&ranges.chain(puts).collect::<Vec<_>>());
}

/// The rule as a list of pairs to compare: slow, and obviously it.
mod model {
    use super::*;

    #[derive(Default, Clone)]
    struct Found {
        puts: Vec<Vec<u8>>,
        deletions: Vec<(Vec<u8>, Vec<u8>)>,
    }

    pub(super) fn check(branch: &[RequestOp]) -> Result<(), Error> {
        find(branch).map(|_| ())
    }

    fn find(branch: &[RequestOp]) -> Result<Found, Error> {
        let mut found = Found::default();
        for op in branch {
            if let Some(Request::RequestDeleteRange(r)) = &op.request {
                let single = [&r.key[..], &[0]].concat();
                let end = if r.range_end.is_empty() { single } else { r.range_end.to_vec() };
                found.deletions.push((r.key.to_vec(), end));
            }
        }
        for op in branch {
            if let Some(Request::RequestTxn(r)) = &op.request {
                let (mut then, or_else) = (find(&r.success)?, find(&r.failure)?);
                then.puts.extend(or_else.puts);
                then.deletions.extend(or_else.deletions);
                for key in &then.puts {
                    collide(&found, key)?;
                }
                found.puts.extend(then.puts);
                found.deletions.extend(then.deletions);
            }
        }
        for op in branch {
            if let Some(Request::RequestPut(r)) = &op.request {
                collide(&found, &r.key)?;
                found.puts.push(r.key.to_vec());
            }
        }
        Ok(found)
    }

    fn collide(found: &Found, key: &[u8]) -> Result<(), Error> {
        let put = found.puts.iter().any(|other| other == key);
        let deleted = found.deletions.iter().any(|(begin, end)| &begin[..] <= key && key < &end[..]);
        if put || deleted { Err(Error::DuplicateKey) } else { Ok(()) }
    }
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["\0", "a", "a\0", "b", "c", "d", "e", "f", "g", "h"])
}

fn any_op() -> impl Strategy<Value = RequestOp> {
    let leaf = prop_oneof![
        3 => key().prop_map(put),
        1 => key().prop_map(|k| delete(k, "")),
        2 => (key(), key()).prop_map(|(k, end)| delete(k, end)),
        1 => key().prop_map(get),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let branch = || prop::collection::vec(inner.clone(), 0..3);
        (branch(), branch()).prop_map(|(success, failure)| txn(&success, &failure))
    })
}

proptest! {
    #[test]
    fn agrees_with_the_model(branch in prop::collection::vec(any_op(), 0..6)) {
        prop_assert_eq!(check(&branch), model::check(&branch));
    }
}
