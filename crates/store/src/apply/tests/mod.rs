//! Applying commands, one rule of etcd's a test.

mod compares;
mod cost;
mod etcd;
mod slices;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use api::etcdserverpb::request_op::Request;
use api::etcdserverpb::response_op::Response as Op;

use crate::testing::{TestStore, delete, delete_request, grant, op, put, put_request, range_request};
use crate::{Command, EventKind, LeaseChange, Reply, Response};

fn txn_response(response: Response) -> pb::TxnResponse {
    match response {
        Response::Txn(response) => response,
        other => panic!("a transaction's response, not {other:?}"),
    }
}

fn compare(
    key: &str,
    end: &str,
    result: CompareResult,
    target: CompareTarget,
    union: TargetUnion,
) -> pb::Compare {
    pb::Compare {
        result: result as i32,
        target: target as i32,
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        target_union: Some(union),
    }
}

fn value_is(key: &str, value: &str) -> pb::Compare {
    let union = TargetUnion::Value(value.to_owned().into());
    compare(key, "", CompareResult::Equal, CompareTarget::Value, union)
}

fn txn(compare: Vec<pb::Compare>, success: Vec<Request>, failure: Vec<Request>) -> pb::TxnRequest {
    let ops = |requests: Vec<Request>| requests.into_iter().map(op).collect();
    pb::TxnRequest { compare, success: ops(success), failure: ops(failure) }
}

fn revision(header: &Option<pb::ResponseHeader>) -> i64 {
    header.as_ref().expect("a header").revision
}

#[test]
fn puts_count_versions_and_deletes_end_generations() {
    let mut bench = TestStore::new();
    assert_eq!(bench.put("k", "1"), 2);
    assert_eq!(bench.put("k", "2"), 3);
    let request = pb::PutRequest { prev_kv: true, ..put_request("k", "3") };
    let Response::Put(response) = bench.respond(Command::Put(request)) else { panic!() };
    assert_eq!(revision(&response.header), 4);
    let prev = response.prev_kv.expect("what was there");
    assert_eq!(
        (prev.create_revision, prev.mod_revision, prev.version, &prev.value[..]),
        (2, 3, 2, &b"2"[..])
    );
    let Response::DeleteRange(response) = bench.respond(delete("k", "")) else { panic!() };
    assert_eq!((revision(&response.header), response.deleted, response.prev_kvs.len()), (5, 1, 1));
    let Response::DeleteRange(response) = bench.respond(delete("k", "")) else { panic!() };
    assert_eq!((revision(&response.header), response.deleted), (5, 0), "deleting nothing is no revision");
    bench.put("k", "4");
    let reply = bench.reader.range(&range_request("k", "")).unwrap();
    assert_eq!((reply.kvs[0].create_revision, reply.kvs[0].version), (6, 1));
}

#[test]
fn events_carry_what_was_before_the_revision() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let applied = bench.apply(vec![put("a", "2"), put("b", "1"), delete("a", "\0")]);
    let kinds: Vec<_> = applied.events.iter().map(|event| event.kind.clone()).collect();
    assert_eq!(kinds, [EventKind::Put, EventKind::Put, EventKind::Delete, EventKind::Delete]);
    let at: Vec<_> =
        applied.events.iter().map(|event| (event.kv.mod_revision.main, event.kv.mod_revision.sub)).collect();
    assert_eq!(at, [(3, 0), (4, 0), (5, 0), (5, 1)]);
    let prev: Vec<_> =
        applied.events.iter().map(|event| event.prev.as_ref().map(|kv| kv.mod_revision.main)).collect();
    assert_eq!(prev, [Some(2), None, Some(3), Some(4)]);
    assert_eq!(applied.revision, 5);
}

#[test]
fn an_event_that_begins_a_generation_carries_nothing_before() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let again = txn(
        vec![],
        vec![Request::RequestTxn(txn(
            vec![],
            vec![
                Request::RequestDeleteRange(delete_request("a", "")),
                Request::RequestPut(put_request("a", "2")),
            ],
            vec![],
        ))],
        vec![],
    );
    let events = bench.apply(vec![Command::Txn(again)]).events;
    let before = |events: &[crate::Event]| -> Vec<Option<i64>> {
        events.iter().map(|event| event.prev.as_ref().map(|kv| kv.mod_revision.main)).collect()
    };
    assert_eq!(before(&events), [Some(2), None]);
    for end in ["", "b"] {
        let range = crate::KeyRange { start: "a".into(), end: end.into() };
        let (events, _) = crate::History::events(&bench.reader, &range, 3, 10, 10).expect("not compacted");
        assert_eq!(before(&events), [Some(2), None]);
    }
}

#[test]
fn a_transaction_sees_its_own_writes_and_numbers_them() {
    let mut bench = TestStore::new();
    bench.put("a", "old");
    let nested = txn(vec![], vec![Request::RequestRange(range_request("a", "\0"))], vec![]);
    let request = txn(
        vec![value_is("a", "old")],
        vec![
            Request::RequestRange(range_request("a", "")),
            Request::RequestDeleteRange(delete_request("x", "")),
            Request::RequestPut(put_request("b", "new")),
            Request::RequestTxn(nested),
            Request::RequestDeleteRange(delete_request("a", "")),
        ],
        vec![],
    );
    let response = txn_response(bench.respond(Command::Txn(request)));
    assert!(response.succeeded);
    assert_eq!(revision(&response.header), 3);
    let responses: Vec<_> = response.responses.into_iter().map(|op| op.response.unwrap()).collect();
    let Op::ResponseRange(first) = &responses[0] else { panic!() };
    assert_eq!((revision(&first.header), first.count, &first.kvs[0].value[..]), (2, 1, &b"old"[..]));
    let Op::ResponseDeleteRange(nothing) = &responses[1] else { panic!() };
    assert_eq!((revision(&nothing.header), nothing.deleted), (2, 0));
    let Op::ResponsePut(put) = &responses[2] else { panic!() };
    assert_eq!(revision(&put.header), 3);
    let Op::ResponseTxn(nested) = &responses[3] else { panic!() };
    assert_eq!(revision(&nested.header), 0, "etcd leaves the header of a nested transaction empty");
    let Some(Op::ResponseRange(inner)) = &nested.responses[0].response else { panic!() };
    assert_eq!((revision(&inner.header), inner.count), (3, 2));
    assert_eq!(bench.reader.counts().keys, 1);
}

#[test]
fn a_range_of_a_transaction_is_sorted_by_the_member_that_answers() {
    let mut bench = TestStore::new();
    bench.outcome(grant(7, 60)).unwrap();
    for key in ["c", "a", "b"] {
        bench.outcome(Command::Put(pb::PutRequest { lease: 7, ..put_request(key, "v") })).unwrap();
    }
    let range = pb::RangeRequest {
        sort_target: pb::range_request::SortTarget::Mod as i32,
        sort_order: pb::range_request::SortOrder::Descend as i32,
        limit: 2,
        keys_only: true,
        ..range_request("a", "z")
    };
    let ops = vec![Request::RequestPut(put_request("z", "")), Request::RequestRange(range)];
    let nested = txn(vec![], ops, vec![]);
    let outcome = bench.outcome(Command::Txn(txn(vec![], vec![Request::RequestTxn(nested)], vec![])));
    let Ok(Reply::Txn(mut reply)) = outcome else { panic!() };
    let range_of = |reply: &crate::TxnReply| {
        let crate::OpReply::Txn(nested) = &reply.replies[0] else { panic!() };
        let crate::OpReply::Range(range) = nested.replies[1].clone() else { panic!() };
        range
    };
    let keys =
        |range: &crate::RangeReply| range.kvs.iter().map(|kv| kv.key.clone()).collect::<Vec<_>>().concat();
    let unsorted = range_of(&reply);
    assert_eq!((&keys(&unsorted)[..], unsorted.order.is_some(), unsorted.more), (&b"abc"[..], true, true));
    let response = crate::resolve_range(&unsorted, &*bench.values).unwrap();
    reply.sort_by_number();
    let sorted = range_of(&reply);
    assert_eq!((&keys(&sorted)[..], sorted.order, sorted.more), (&b"ba"[..], None, true));
    assert!(sorted.kvs.iter().all(|kv| kv.lease == 0), "as etcd answers with keys only");
    assert_eq!(crate::resolve_range(&sorted, &*bench.values).unwrap(), response);
}

#[test]
fn a_transaction_that_writes_nothing_is_no_revision() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let response = txn_response(bench.respond(Command::Txn(txn(vec![], vec![], vec![]))));
    assert_eq!((response.succeeded, revision(&response.header)), (true, 2));
    let request = txn(vec![], vec![Request::RequestDeleteRange(delete_request("z", ""))], vec![]);
    let response = txn_response(bench.respond(Command::Txn(request)));
    assert_eq!(revision(&response.header), 2);
}

#[test]
fn a_refused_transaction_changes_nothing() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    bench.put("a", "2");
    bench.compact(3).unwrap();
    let at = |revision| Request::RequestRange(pb::RangeRequest { revision, ..range_request("a", "") });
    let with = |request| {
        Command::Txn(txn(vec![], vec![Request::RequestPut(put_request("b", "1")), request], vec![]))
    };
    assert_eq!(bench.outcome(with(at(4))), Err(Error::FutureRevision));
    assert_eq!(bench.outcome(with(at(2))), Err(Error::Compacted));
    let leased = pb::PutRequest { lease: 9, ..put_request("c", "") };
    assert_eq!(bench.outcome(with(Request::RequestPut(leased))), Err(Error::LeaseNotFound));
    let keeping = pb::PutRequest { ignore_value: true, ..put_request("c", "") };
    assert_eq!(bench.outcome(with(Request::RequestPut(keeping))), Err(Error::KeyNotFound));
    assert_eq!((bench.reader.current_revision(), bench.reader.counts().keys), (3, 1));
}

#[test]
fn compares_of_missing_keys_and_ranges() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    bench.put("b", "2");
    let mut holds =
        |compare| txn_response(bench.respond(Command::Txn(txn(vec![compare], vec![], vec![])))).succeeded;
    use CompareResult::{Equal, Greater, Less, NotEqual};
    use CompareTarget::{Create, Mod, Value, Version};
    assert!(holds(compare("z", "", Equal, Version, TargetUnion::Version(0))));
    assert!(holds(compare("z", "", Less, Create, TargetUnion::CreateRevision(1))));
    assert!(!holds(compare("z", "", NotEqual, Value, TargetUnion::Value("x".into()))), "no value compares");
    assert!(holds(compare("a", "\0", Greater, Mod, TargetUnion::ModRevision(1))));
    assert!(!holds(compare("a", "\0", Greater, Mod, TargetUnion::ModRevision(2))), "all keys must pass");
    assert!(holds(compare("a", "c", Less, Value, TargetUnion::Value("3".into()))));
    assert!(!holds(compare("a", "c", Less, Value, TargetUnion::Value("2".into()))));
    assert!(holds(compare("a", "c", NotEqual, Value, TargetUnion::Value("3".into()))));
    assert!(holds(compare("b", "a", Equal, Version, TargetUnion::Version(0))), "an inverted range is empty");
}

#[test]
fn a_damaged_value_stops_a_batch_before_anything_changed() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let address = bench.reader.range(&range_request("a", "")).unwrap().kvs[0].value.address;
    bench.values.damage(address, true);
    let guarded = || {
        Command::Txn(txn(vec![value_is("a", "1")], vec![Request::RequestPut(put_request("b", "1"))], vec![]))
    };
    let before = bench.reader.state_hash();
    let damaged = bench.try_apply(vec![put("c", "1"), guarded()]).unwrap_err();
    assert_eq!(damaged.address, address);
    assert_eq!(bench.reader.state_hash(), before);
    let other = txn(vec![value_is("a", "other")], vec![], vec![]);
    assert!(!txn_response(bench.respond(Command::Txn(other))).succeeded, "the checksum alone tells");
    bench.values.damage(address, false);
    bench.apply(vec![put("c", "1"), guarded()]);
    assert_eq!(bench.reader.counts().keys, 3);
}

#[test]
fn a_value_of_the_same_batch_is_compared() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let guarded = txn(vec![value_is("a", "2")], vec![Request::RequestPut(put_request("b", "1"))], vec![]);
    bench.apply(vec![put("a", "2"), Command::Txn(guarded)]);
    assert_eq!(bench.reader.counts().keys, 2);
}

#[test]
fn keeping_the_value_or_the_lease() {
    let mut bench = TestStore::new();
    bench.outcome(grant(7, 60)).unwrap();
    bench.outcome(Command::Put(pb::PutRequest { lease: 7, ..put_request("k", "v") })).unwrap();
    bench.outcome(Command::Put(pb::PutRequest { ignore_lease: true, ..put_request("k", "w") })).unwrap();
    bench.outcome(Command::Put(pb::PutRequest { ignore_value: true, ..put_request("k", "") })).unwrap();
    let reply = bench.reader.range(&range_request("k", "")).unwrap();
    let kv = crate::resolve_kv(&reply.kvs[0], &*bench.values).unwrap();
    assert_eq!((&kv.value[..], kv.lease, kv.version), (&b"w"[..], 0, 3));
    assert!(bench.lease_keys(7).is_empty());
}

#[test]
fn revoking_deletes_the_keys_in_order_in_one_revision() {
    let mut bench = TestStore::new();
    bench.outcome(grant(7, 60)).unwrap();
    for key in ["c", "a", "b"] {
        bench.outcome(Command::Put(pb::PutRequest { lease: 7, ..put_request(key, "v") })).unwrap();
    }
    let revoke = |term| Command::LeaseRevoke { request: pb::LeaseRevokeRequest { id: 7 }, expiry_term: term };
    let ignored = bench.apply(vec![revoke(Some(9))]);
    assert_eq!(ignored.leases, [LeaseChange::ExpiryIgnored { id: 7 }]);
    let applied = bench.apply(vec![revoke(Some(1))]);
    assert_eq!(applied.outcomes, [Ok(Reply::LeaseRevoke { revision: 5 })]);
    assert_eq!(applied.leases, [LeaseChange::Revoked { id: 7 }]);
    let keys: Vec<_> =
        applied.events.iter().map(|event| (&event.kv.key[..], event.kv.mod_revision.sub)).collect();
    assert_eq!(keys, [(&b"a"[..], 0), (b"b", 1), (b"c", 2)]);
    assert_eq!(bench.outcome(revoke(None)), Err(Error::LeaseNotFound));
}

#[test]
fn compaction_moves_forward_only() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    assert_eq!(bench.compact(3), Err(Error::FutureRevision));
    assert_eq!(bench.compact(-1), Err(Error::Compacted));
    assert!(bench.compact(0).is_ok());
    assert!(bench.compact(2).is_ok());
    assert_eq!(bench.compact(2), Err(Error::Compacted));
}

#[test]
fn alarms_refuse_what_they_must() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let alarm = |action: pb::alarm_request::AlarmAction, alarm: pb::AlarmType| {
        Command::Alarm(pb::AlarmRequest { action: action as i32, member_id: 3, alarm: alarm as i32 })
    };
    use pb::alarm_request::AlarmAction::{Activate, Deactivate};
    let applied = bench.apply(vec![alarm(Activate, pb::AlarmType::Nospace)]);
    assert!(applied.alarms_changed);
    assert_eq!(bench.outcome(put("b", "1")), Err(Error::NoSpace));
    assert_eq!(bench.outcome(grant(1, 5)), Err(Error::NoSpace));
    let puts = txn(vec![], vec![], vec![Request::RequestPut(put_request("b", "1"))]);
    assert_eq!(
        bench.outcome(Command::Txn(puts)),
        Err(Error::NoSpace),
        "a put in the branch not taken counts too"
    );
    assert!(bench.outcome(delete("a", "")).is_ok());
    bench.apply(vec![alarm(Activate, pb::AlarmType::Corrupt)]);
    assert_eq!(bench.outcome(delete("a", "")), Err(Error::Corrupt));
    bench.apply(vec![alarm(Deactivate, pb::AlarmType::Corrupt), alarm(Deactivate, pb::AlarmType::Nospace)]);
    assert!(bench.reader.alarms().is_empty());
    assert!(bench.outcome(put("b", "1")).is_ok());
}

#[test]
fn ranges_that_nobody_waits_for_are_not_carried_out() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    bench.answers = false;
    let ops =
        vec![Request::RequestPut(put_request("b", "1")), Request::RequestRange(range_request("a", "\0"))];
    let response = txn_response(bench.respond(Command::Txn(txn(vec![], ops, vec![]))));
    assert_eq!(revision(&response.header), 3);
    let Some(Op::ResponseRange(range)) = &response.responses[1].response else { panic!() };
    assert_eq!((revision(&range.header), range.kvs.len()), (3, 0));
    assert_eq!(bench.reader.counts().keys, 2, "what it writes is written");
}

#[test]
fn what_is_replayed_is_not_counted() {
    let mut bench = TestStore::new();
    let counts = |bench: &TestStore| {
        let counts = bench.reader.counts();
        (counts.puts, counts.deletes, counts.put_bytes, counts.purged)
    };
    bench.store.begin_replay();
    for _ in 0..3 {
        bench.put("k", "v");
    }
    bench.delete("k", "");
    bench.compact(3).expect("compacted");
    bench.store.end_replay();
    assert!(!bench.store.has_compacted());
    assert!(bench.store.purge_step(100));
    assert_eq!(counts(&bench), (0, 0, 0, 0));
    let last = bench.put("k", "v");
    bench.put("k", "w");
    bench.delete("k", "");
    bench.compact(last + 1).expect("compacted");
    assert!(bench.store.has_compacted());
    assert!(bench.store.purge_step(100));
    let (puts, deletes, bytes, purged) = counts(&bench);
    assert_eq!((puts, deletes, bytes), (2, 1, 4));
    assert!(purged > 0);
}
