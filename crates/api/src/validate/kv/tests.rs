//! What the KV checks refuse, and in which order.

use prost::Message;

use super::*;
use crate::etcdserverpb::response_op::Response;
use crate::etcdserverpb::{
    Compare, InternalRaftRequest, RangeResponse, ResponseHeader, ResponseOp, TxnResponse,
};
use crate::mvccpb::KeyValue;

/// etcd's default of `--max-txn-ops`.
const MAX_OPS: usize = 128;

fn put_op(key: &'static str) -> RequestOp {
    let request = PutRequest { key: key.into(), ..Default::default() };
    RequestOp { request: Some(Request::RequestPut(request)) }
}

fn txn_op(nested: TxnRequest) -> RequestOp {
    RequestOp { request: Some(Request::RequestTxn(nested)) }
}

fn success(ops: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { success: ops, ..Default::default() }
}

fn compares(count: usize) -> Vec<Compare> {
    vec![Compare { key: "c".into(), ..Default::default() }; count]
}

/// A put inside `depth` transactions inside the outermost one.
fn nested(depth: usize) -> TxnRequest {
    (0..depth).fold(success(vec![put_op("k")]), |inner, _| success(vec![txn_op(inner)]))
}

#[test]
fn a_range_needs_a_key_and_known_sort_options() {
    let request = |key: &'static str, sort_order, sort_target| {
        range(&RangeRequest { key: key.into(), sort_order, sort_target, ..Default::default() })
    };
    assert_eq!(request("", 0, 0), Err(Error::EmptyKey));
    assert_eq!(request("", 9, 9), Err(Error::EmptyKey));
    assert_eq!(request("\0", 0, 0), Ok(()));
    assert_eq!(request("k", 2, 4), Ok(()));
    for (order, target) in [(3, 0), (-1, 0), (0, 5), (0, -1), (i32::MAX, i32::MIN)] {
        assert_eq!(request("k", order, target), Err(Error::InvalidSortOption), "{order} {target}");
    }
}

#[test]
fn a_range_may_end_anywhere_and_ask_for_any_revision() {
    for range_end in ["", "\0", "a", "k", "z"] {
        let mut request = RangeRequest { key: "k".into(), range_end: range_end.into(), ..Default::default() };
        request.revision = -7;
        request.limit = -1;
        assert_eq!(range(&request), Ok(()), "{range_end:?}");
    }
}

#[test]
fn a_stream_is_in_key_order() {
    let request = |order: SortOrder, target: SortTarget| {
        let (sort_order, sort_target) = (order.into(), target.into());
        range_stream(&RangeRequest { key: "k".into(), sort_order, sort_target, ..Default::default() })
    };
    assert_eq!(request(SortOrder::None, SortTarget::Key), Ok(()));
    assert_eq!(request(SortOrder::None, SortTarget::Value), Ok(()));
    assert_eq!(request(SortOrder::Ascend, SortTarget::Key), Ok(()));
    assert_eq!(request(SortOrder::Descend, SortTarget::Key), Err(Error::StreamSortUnsupported));
    assert_eq!(request(SortOrder::Ascend, SortTarget::Mod), Err(Error::StreamSortUnsupported));
}

#[test]
fn a_stream_has_no_filters_and_is_first_a_range() {
    let base = || RangeRequest { key: "k".into(), ..Default::default() };
    let filters = [
        RangeRequest { min_mod_revision: 1, ..base() },
        RangeRequest { max_mod_revision: 1, ..base() },
        RangeRequest { min_create_revision: 1, ..base() },
        RangeRequest { max_create_revision: -1, ..base() },
    ];
    for request in filters {
        assert_eq!(range_stream(&request), Err(Error::StreamFilterUnsupported), "{request:?}");
        let sorted = RangeRequest { sort_order: SortOrder::Descend.into(), ..request };
        assert_eq!(range_stream(&sorted), Err(Error::StreamSortUnsupported));
    }
    assert_eq!(range_stream(&RangeRequest::default()), Err(Error::EmptyKey));
    assert_eq!(range_stream(&RangeRequest { sort_order: 9, ..base() }), Err(Error::InvalidSortOption));
}

#[test]
fn a_put_keeps_or_gives_its_value_and_lease() {
    let full = PutRequest {
        key: "k".into(),
        value: "v".into(),
        lease: 1,
        ignore_value: true,
        ignore_lease: true,
        ..Default::default()
    };
    let no_key = PutRequest { key: "".into(), ..full.clone() };
    let no_value = PutRequest { value: "".into(), ..full.clone() };
    let neither = PutRequest { lease: 0, ..no_value.clone() };
    assert_eq!(put(&no_key), Err(Error::EmptyKey));
    assert_eq!(put(&full), Err(Error::ValueProvided));
    assert_eq!(put(&no_value), Err(Error::LeaseProvided));
    assert_eq!(put(&neither), Ok(()));
    assert_eq!(put(&PutRequest { ignore_value: false, ignore_lease: false, ..full }), Ok(()));
    assert_eq!(put(&PutRequest { key: "\0".into(), ..Default::default() }), Ok(()));
}

#[test]
fn a_deletion_needs_a_key() {
    let request = |key: &'static str, range_end: &'static str| {
        delete_range(&DeleteRangeRequest { key: key.into(), range_end: range_end.into(), prev_kv: false })
    };
    assert_eq!(request("", ""), Err(Error::EmptyKey));
    assert_eq!(request("", "\0"), Err(Error::EmptyKey));
    assert_eq!(request("\0", "\0"), Ok(()));
    assert_eq!(request("b", "a"), Ok(()));
}

#[test]
fn the_longest_list_counts() {
    let ops = |count| vec![RequestOp { request: Some(Request::RequestRange(key_range())) }; count];
    let check = |compare, success, failure| {
        let request = TxnRequest { compare: compares(compare), success: ops(success), failure: ops(failure) };
        txn(&request, MAX_OPS)
    };
    assert_eq!(check(0, 0, 0), Ok(()));
    assert_eq!(check(MAX_OPS, MAX_OPS, MAX_OPS), Ok(()));
    assert_eq!(check(MAX_OPS + 1, 0, 0), Err(Error::TooManyOps));
    assert_eq!(check(0, MAX_OPS + 1, 0), Err(Error::TooManyOps));
    assert_eq!(check(0, 0, MAX_OPS + 1), Err(Error::TooManyOps));
}

fn key_range() -> RangeRequest {
    RangeRequest { key: "k".into(), ..Default::default() }
}

#[test]
fn nested_transactions_share_what_is_left() {
    let inner = |count| TxnRequest { compare: compares(count), ..Default::default() };
    let outer = |count| success(vec![txn_op(inner(count)), txn_op(inner(count))]);
    assert_eq!(txn(&outer(3), 5), Ok(()));
    assert_eq!(txn(&outer(4), 5), Err(Error::TooManyOps));
    assert_eq!(txn(&success(vec![txn_op(TxnRequest::default())]), 1), Ok(()));
    assert_eq!(txn(&TxnRequest::default(), 0), Ok(()));
}

#[test]
fn faults_are_found_in_order() {
    let bad_compare = Compare::default();
    let empty_op = RequestOp { request: None };
    let everything = TxnRequest {
        compare: vec![bad_compare.clone()],
        success: vec![empty_op.clone(), put_op("")],
        failure: vec![put_op("a"), put_op("a")],
    };
    assert_eq!(txn(&everything, 1), Err(Error::TooManyOps));
    assert_eq!(txn(&everything, MAX_OPS), Err(Error::EmptyKey));
    let no_compare = TxnRequest { compare: compares(1), ..everything.clone() };
    assert_eq!(txn(&no_compare, MAX_OPS), Err(Error::KeyNotFound));
    let in_failure = TxnRequest { success: vec![], failure: vec![empty_op], ..no_compare.clone() };
    assert_eq!(txn(&in_failure, MAX_OPS), Err(Error::KeyNotFound));
    let duplicate = TxnRequest { success: vec![put_op("b")], ..no_compare };
    assert_eq!(txn(&duplicate, MAX_OPS), Err(Error::DuplicateKey));
    // All operations are checked before any overlap is.
    let late_fault = success(vec![put_op("a"), put_op("a"), put_op("")]);
    assert_eq!(txn(&late_fault, MAX_OPS), Err(Error::EmptyKey));
}

#[test]
fn both_branches_may_put_the_same_key() {
    let request = TxnRequest { success: vec![put_op("a")], failure: vec![put_op("a")], ..Default::default() };
    assert_eq!(txn(&request, MAX_OPS), Ok(()));
}

#[test]
fn operations_inside_nested_transactions_are_checked() {
    let request = success(vec![txn_op(success(vec![txn_op(success(vec![put_op("")]))]))]);
    assert_eq!(txn(&request, MAX_OPS), Err(Error::EmptyKey));
}

#[test]
fn depth_is_bounded_whatever_the_number_of_operations() {
    assert_eq!(txn(&nested(MAX_TXN_DEPTH), usize::MAX), Ok(()));
    assert_eq!(txn(&nested(MAX_TXN_DEPTH + 1), usize::MAX), Err(Error::TooManyOps));
    assert_eq!(txn(&nested(2_000), usize::MAX), Err(Error::TooManyOps));
    assert_eq!(txn(&nested(9), 9), Err(Error::TooManyOps));
    assert_eq!(txn(&nested(9), 10), Ok(()));
}

#[test]
fn the_deepest_transaction_and_its_answer_can_be_decoded() {
    let request = nested(MAX_TXN_DEPTH);
    let envelope = InternalRaftRequest { txn: Some(request), ..Default::default() };
    assert_eq!(InternalRaftRequest::decode(envelope.encode_to_vec().as_slice()), Ok(envelope));

    let header = Some(ResponseHeader { revision: 7, ..Default::default() });
    let kvs = vec![KeyValue { key: "k".into(), ..Default::default() }];
    let read = Response::ResponseRange(RangeResponse { header, kvs, ..Default::default() });
    let innermost =
        TxnResponse { responses: vec![ResponseOp { response: Some(read) }], ..Default::default() };
    let answer = (0..MAX_TXN_DEPTH).fold(innermost, |inner, _| TxnResponse {
        responses: vec![ResponseOp { response: Some(Response::ResponseTxn(inner)) }],
        ..Default::default()
    });
    assert_eq!(TxnResponse::decode(answer.encode_to_vec().as_slice()), Ok(answer));
}

/// An empty transaction inside `depth` others, encoded by hand from the inside out: encoding it
/// with prost would need the very stack that a hostile client does not need.
fn hand_encoded(depth: usize) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    let (success, request_txn) = (2, 4);
    let mut wire = Vec::new();
    for field in [request_txn, success].repeat(depth) {
        let mut outer = vec![(field << 3) | LENGTH_DELIMITED];
        prost::encode_length_delimiter(wire.len(), &mut outer).expect("a Vec grows");
        outer.append(&mut wire);
        wire = outer;
    }
    wire
}

#[test]
fn a_hostile_depth_is_an_error_of_decoding() {
    let shallow = TxnRequest::decode(hand_encoded(3).as_slice());
    assert_eq!(shallow.map(|request| txn(&request, MAX_OPS)), Ok(Ok(())));
    assert!(TxnRequest::decode(hand_encoded(MAX_TXN_DEPTH).as_slice()).is_ok());
    assert!(TxnRequest::decode(hand_encoded(2_000).as_slice()).is_err());
}
