//! Random commands for the tests of this crate: few keys, so that they meet.

use api::etcdserverpb as pb;
use api::etcdserverpb::compare::TargetUnion;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;
use proptest::prelude::*;

use super::op;

/// What a random test does next.
#[derive(Clone, Debug)]
pub(crate) enum ScriptStep {
    Put(pb::PutRequest),
    Delete(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Range(pb::RangeRequest),
    Grant(i64),
    Revoke(i64),
    /// So far below the current revision.
    Compact(i64),
    Purge(usize),
    /// Move some values; the number picks which.
    Relocate(u64),
    /// Begin a checkpoint, base or delta, and write it over the next steps.
    Checkpoint(bool),
    /// Merge checkpoints of the chain: the first of them and how many, modulo what there is.
    Merge(usize, usize),
    /// Go on with the state of the last checkpoint's chain.
    Restart,
}

fn key() -> impl Strategy<Value = Bytes> {
    let long: &[u8] = b"/registry/a/long/key";
    let keys: [&[u8]; 8] = [b"a", b"b", b"c", b"d", b"dd", b"e", long, b"\xff"];
    prop::sample::select(keys.map(Bytes::from_static).to_vec())
}

fn end() -> impl Strategy<Value = Bytes> {
    prop_oneof![4 => Just(Bytes::new()), 2 => Just(Bytes::from_static(b"\0")), 3 => key()]
}

fn value() -> impl Strategy<Value = Bytes> {
    prop_oneof![Just(Bytes::new()), Just(Bytes::from_static(b"one")), Just(Bytes::from_static(b"two!"))]
}

fn lease() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(0), 1 => 1..4i64]
}

fn put() -> impl Strategy<Value = pb::PutRequest> {
    (key(), value(), lease(), any::<bool>(), 0..8u8).prop_map(|(key, value, lease, prev_kv, ignore)| {
        let (ignore_value, ignore_lease) = (ignore & 3 == 1, ignore > 5);
        let value = if ignore_value { Bytes::new() } else { value };
        let lease = if ignore_lease { 0 } else { lease };
        pb::PutRequest { key, value, lease, prev_kv, ignore_value, ignore_lease }
    })
}

fn delete() -> impl Strategy<Value = pb::DeleteRangeRequest> {
    (key(), end(), any::<bool>()).prop_map(|(key, range_end, prev_kv)| pb::DeleteRangeRequest {
        key,
        range_end,
        prev_kv,
    })
}

/// Filters by revision: mostly none.
fn bound() -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(0), 1 => 1..20i64]
}

pub(crate) fn range() -> impl Strategy<Value = pb::RangeRequest> {
    let options = (-1..5i64, prop_oneof![3 => Just(0), 2 => -1..40i64], 0..3i32, 0..5i32);
    let filters = (bound(), bound(), bound(), bound());
    (key(), end(), options, any::<[bool; 2]>(), filters).prop_map(
        |(key, range_end, (limit, revision, sort_order, sort_target), [keys_only, count_only], filters)| {
            pb::RangeRequest {
                key,
                range_end,
                limit,
                revision,
                sort_order,
                sort_target,
                keys_only,
                count_only: count_only && keys_only,
                min_mod_revision: filters.0,
                max_mod_revision: filters.1,
                min_create_revision: filters.2,
                max_create_revision: filters.3,
                serializable: false,
            }
        },
    )
}

fn compare() -> impl Strategy<Value = pb::Compare> {
    let union = (0..5i32, 0..12i64, value()).prop_map(|(target, number, value)| {
        let union = match target {
            0 => TargetUnion::Version(number % 3),
            1 => TargetUnion::CreateRevision(number),
            2 => TargetUnion::ModRevision(number),
            3 => TargetUnion::Value(value),
            _ => TargetUnion::Lease(number % 3),
        };
        (target, Some(union))
    });
    (key(), end(), 0..4i32, union).prop_map(|(key, range_end, result, (target, target_union))| pb::Compare {
        result,
        target,
        key,
        range_end,
        target_union,
    })
}

fn txn(ops: BoxedStrategy<pb::RequestOp>) -> impl Strategy<Value = pb::TxnRequest> {
    let ops = || prop::collection::vec(ops.clone(), 0..4);
    (prop::collection::vec(compare(), 0..2), ops(), ops())
        .prop_map(|(compare, success, failure)| pb::TxnRequest { compare, success, failure })
}

fn simple_op() -> BoxedStrategy<pb::RequestOp> {
    prop_oneof![
        3 => put().prop_map(|request| op(Request::RequestPut(request))),
        2 => delete().prop_map(|request| op(Request::RequestDeleteRange(request))),
        2 => range().prop_map(|request| op(Request::RequestRange(request))),
    ]
    .boxed()
}

/// A transaction with many compares, most of them of values, in several levels.
pub(crate) fn comparing_txn() -> BoxedStrategy<pb::TxnRequest> {
    fn of(ops: BoxedStrategy<pb::RequestOp>) -> BoxedStrategy<pb::TxnRequest> {
        let of_value =
            (key(), end(), 0..4i32, value()).prop_map(|(key, range_end, result, value)| pb::Compare {
                result,
                target: pb::compare::CompareTarget::Value as i32,
                key,
                range_end,
                target_union: Some(TargetUnion::Value(value)),
            });
        let compares = prop::collection::vec(prop_oneof![2 => of_value, 1 => compare()], 0..4);
        let ops = || prop::collection::vec(ops.clone(), 0..3);
        (compares, ops(), ops())
            .prop_map(|(compare, success, failure)| pb::TxnRequest { compare, success, failure })
            .boxed()
    }
    let nest = |inner: BoxedStrategy<pb::TxnRequest>| {
        let nested = inner.prop_map(|request| op(Request::RequestTxn(request)));
        of(prop_oneof![2 => simple_op(), 1 => nested].boxed())
    };
    nest(nest(of(simple_op())))
}

/// A random step.
pub(crate) fn step() -> impl Strategy<Value = ScriptStep> {
    let nested = txn(simple_op()).prop_map(|request| op(Request::RequestTxn(request)));
    let any_op = prop_oneof![4 => simple_op(), 1 => nested].boxed();
    prop_oneof![
        10 => put().prop_map(ScriptStep::Put),
        4 => delete().prop_map(ScriptStep::Delete),
        6 => txn(any_op).prop_map(ScriptStep::Txn),
        6 => range().prop_map(ScriptStep::Range),
        2 => (1..4i64).prop_map(ScriptStep::Grant),
        1 => (1..4i64).prop_map(ScriptStep::Revoke),
        1 => (0..6i64).prop_map(ScriptStep::Compact),
        2 => (1..8usize).prop_map(ScriptStep::Purge),
        1 => (0..4u64).prop_map(ScriptStep::Relocate),
        2 => any::<bool>().prop_map(ScriptStep::Checkpoint),
        1 => (0..8usize, 0..8usize).prop_map(|(from, count)| ScriptStep::Merge(from, count)),
        1 => Just(ScriptStep::Restart),
    ]
}
