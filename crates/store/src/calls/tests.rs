//! What a call shows when users, roles, leases and keys change between its steps.

use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::Poll;

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use pb::watch_request::RequestUnion;
use prost::Message;

use super::{
    LeaseList, PermittedRange, PermittedWatches, ServedStep, ServedWatches, WatchCaller, WatchRequests,
};
use crate::auth::tests::{change, enabled, revoke_role, user};
use crate::testing::{MapValues, TestStore, grant, put_request, range_request};
use crate::watch::{Hub, NextResponse};
use crate::{BatchContext, Caller, Command, Limits, Reader, Store};

fn put(bench: &mut TestStore, key: &str, value: &str, lease: i64) {
    let command = Command::Put(pb::PutRequest { lease, ..put_request(key, value) });
    bench.outcome_as(Caller::Internal, command).expect("written");
}

/// The ids at the end of a list, or why it was refused, and its steps.
fn finish(mut list: LeaseList) -> (Result<Vec<i64>, Error>, usize) {
    for steps in 1.. {
        if let Some(end) = list.step().transpose() {
            return (end, steps);
        }
    }
    unreachable!("the range of steps has no end")
}

#[test]
fn leases_are_listed_in_steps() {
    let (mut store, reader) = Store::new(Arc::new(MapValues::default()), Limits::default());
    let ids: Vec<i64> = [i64::MIN, -1].into_iter().chain(1..18).chain([i64::MAX]).collect();
    store
        .apply_batch(BatchContext::at(1, 1), ids.iter().map(|id| grant(*id, 60)).collect())
        .expect("granted");
    let (listed, steps) = finish(reader.list_leases(Caller::Anonymous, 10));
    assert_eq!((listed, steps), (Ok(ids), 5), "two times ten leases and their keys, and the end");
}

#[test]
fn a_lease_that_comes_or_goes_hides_no_other() {
    let mut bench = TestStore::new();
    (1..=6).for_each(|id| drop(bench.outcome(grant(id, 60)).expect("granted")));
    let mut list = bench.reader.list_leases(Caller::Anonymous, 2);
    assert_eq!(list.step(), Ok(None), "1 and 2");
    for id in [1, 3] {
        let request = pb::LeaseRevokeRequest { id };
        bench.outcome(Command::LeaseRevoke { request, expiry_term: None }).expect("revoked");
    }
    assert_eq!(finish(list).0, Ok(vec![1, 2, 4, 5, 6]));
}

#[test]
fn a_lease_with_a_key_that_may_not_be_read_hides_all() {
    let mut bench = enabled();
    for id in [7, 8] {
        bench.outcome_as(Caller::Internal, grant(id, 60)).expect("granted");
    }
    put(&mut bench, "a1", "v", 7);
    put(&mut bench, "d1", "v", 8);
    let list = |bench: &TestStore, caller: Caller| finish(bench.reader.list_leases(caller, 1)).0;
    assert_eq!(list(&bench, user(&bench, "ann")), Ok(vec![7, 8]));
    assert_eq!(list(&bench, user(&bench, "bob")), Err(Error::PermissionDenied));
    assert_eq!(list(&bench, Caller::Anonymous), Err(Error::UserEmpty));
    put(&mut bench, "x1", "v", 8);
    assert_eq!(list(&bench, user(&bench, "ann")), Err(Error::PermissionDenied));
    assert_eq!(list(&bench, user(&bench, "root")), Ok(vec![7, 8]));
}

#[test]
fn a_list_is_refused_when_permissions_change_meanwhile() {
    let mut bench = enabled();
    bench.outcome_as(Caller::Internal, grant(7, 60)).expect("granted");
    let mut list = bench.reader.list_leases(user(&bench, "ann"), 10);
    assert_eq!(list.step(), Ok(None));
    change(&mut bench, revoke_role("ann", "r")).expect("revoked");
    assert_eq!(finish(list).0, Err(Error::AuthOldRevision));
}

/// The keys of the response that is sent next to a user; `None` after the last.
fn next(bench: &TestStore, range: &mut PermittedRange, name: &str) -> Result<Option<Vec<Bytes>>, Error> {
    if !range.find(1, 1 << 20).expect("no value is damaged")? {
        return Ok(None);
    }
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    let parts = range.encode_as(&user(bench, name), header, &*bench.values).expect("no value is damaged")?;
    let response = pb::RangeStreamResponse::decode(Bytes::from(parts.concat())).expect("a response");
    Ok(Some(response.range_response.unwrap_or_default().kvs.into_iter().map(|kv| kv.key).collect()))
}

fn streamed(bench: &TestStore, request: &pb::RangeRequest) -> PermittedRange {
    PermittedRange::new(&bench.reader, request, bench.reader.range_stream(request).expect("it begins"))
}

#[test]
fn a_streamed_range_ends_when_its_user_loses_the_permission() {
    let mut bench = enabled();
    ["a1", "a2", "a3"].into_iter().for_each(|key| put(&mut bench, key, "v", 0));
    let request = range_request("a", "b");
    let mut range = streamed(&bench, &request);
    assert_eq!(next(&bench, &mut range, "ann"), Ok(Some(vec!["a1".into()])));
    put(&mut bench, "a2", "newer", 0);
    assert_eq!(next(&bench, &mut range, "ann"), Ok(Some(vec!["a2".into()])));
    let found = range.find(1, 1 << 20).expect("no value is damaged");
    assert_eq!(found, Ok(true), "found before the permission is taken");
    change(&mut bench, revoke_role("ann", "r")).expect("revoked");
    assert_eq!(next(&bench, &mut range, "ann"), Err(Error::PermissionDenied));
    assert_eq!(next(&bench, &mut range, "root"), Ok(Some(vec!["a3".into()])), "it was not sent");
    assert_eq!(next(&bench, &mut range, "root"), Ok(None));
}

#[test]
fn damage_that_was_repaired_and_is_met_again_ends_a_streamed_range() {
    let mut bench = enabled();
    put(&mut bench, "a1", "value", 0);
    put(&mut bench, "a2", "other", 0);
    let request = range_request("a", "b");
    let mut range = streamed(&bench, &request);
    let reply = bench.reader.range(&request).expect("it is read");
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    let ann = user(&bench, "ann");
    for kv in &reply.kvs {
        assert_eq!(range.find(1, 1 << 20).expect("it is not sorted by value"), Ok(true));
        bench.values.damage(kv.value.address, true);
        let damaged = range.encode_as(&ann, header, &*bench.values).expect_err("it is damaged");
        assert_eq!(damaged.address, kv.value.address);
        if kv.key == "a2" {
            let again =
                range.encode_as(&ann, header, &*bench.values).expect("it is not to be repaired again");
            assert_eq!(again, Err(Error::Corrupt));
        }
        bench.values.damage(kv.value.address, false);
        assert!(range.encode_as(&ann, header, &*bench.values).is_ok_and(|parts| parts.is_ok()), "{kv:?}");
    }
}

/// Ann, on a member that looks at the auth revision when a test says so.
struct Ann {
    reader: Reader,
    shown: Cell<u64>,
    /// The next look shows what the last one did.
    is_early: Cell<bool>,
}

impl WatchCaller for Ann {
    fn identify(&self) -> Result<Caller, Error> {
        Ok(Caller::User { name: "ann".into(), revision: self.reader.auth_revision() })
    }

    fn auth_shown(&self) -> u64 {
        if !self.is_early.take() {
            self.shown.set(self.reader.auth_shown());
        }
        self.shown.get()
    }

    fn is_behind(&self) -> bool {
        false
    }
}

/// A watch of [a, b) from the first revision on.
fn watching(bench: &TestStore) -> PermittedWatches<Ann> {
    let hub = Hub::new(Arc::new(bench.reader.clone()), bench.values.clone(), 1, 2, 3);
    let stream = hub.open(Arc::new(|| {}), usize::MAX);
    let ann = Ann { reader: bench.reader.clone(), shown: Cell::new(0), is_early: Cell::new(false) };
    let mut watches = PermittedWatches::new(stream, &bench.reader, ann);
    assert_eq!(watches.create(&watch_request("a", "b")), Some(0));
    watches
}

fn watch_request(key: &'static str, end: &'static str) -> pb::WatchCreateRequest {
    let (key, range_end) = (key.into(), end.into());
    pb::WatchCreateRequest { key, range_end, start_revision: 1, ..Default::default() }
}

/// All that is sent now.
fn sent(watches: &mut PermittedWatches<Ann>) -> Vec<pb::WatchResponse> {
    let mut all = Vec::new();
    loop {
        match watches.next(1).expect("no value is damaged") {
            NextResponse::Send(frame) => {
                all.push(pb::WatchResponse::decode(frame.to_bytes()).expect("a response"));
            }
            NextResponse::Busy => {}
            NextResponse::Idle => return all,
        }
    }
}

#[test]
fn events_that_were_taken_while_permissions_changed_are_not_sent() {
    let mut bench = enabled();
    put(&mut bench, "a1", "v", 0);
    let [created, history] = &sent(&mut watching(&bench))[..] else { panic!("two responses are sent") };
    assert!(created.created && history.events.len() == 1, "as long as it is permitted");

    let mut watches = watching(&bench);
    assert!(matches!(watches.next(1), Ok(NextResponse::Send(_))), "it was created");
    change(&mut bench, revoke_role("ann", "r")).expect("revoked");
    put(&mut bench, "a2", "secret", 0);
    watches.caller().is_early.set(true);
    let [canceled] = &sent(&mut watches)[..] else { panic!("what was taken is dropped") };
    assert!(canceled.canceled && canceled.events.is_empty(), "{canceled:?}");
    let reason = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
    assert_eq!(canceled.cancel_reason, reason);
}

#[test]
fn a_watch_that_is_not_permitted_is_refused() {
    let mut bench = enabled();
    let mut watches = watching(&bench);
    assert_eq!(watches.create(&watch_request("a", "\0")), None, "no end: beyond what ann may read");
    let [created, refused] = &sent(&mut watches)[..] else { panic!("two answers are sent") };
    assert!(created.created && !created.canceled, "{created:?}");
    assert!(refused.created && refused.canceled && refused.watch_id == -1, "{refused:?}");
    change(&mut bench, revoke_role("ann", "r")).expect("revoked");
    assert_eq!(watches.create(&watch_request("a", "b")), None);
}

/// Requests that have arrived.
struct Arrived(VecDeque<pb::WatchCreateRequest>);

impl WatchRequests for Arrived {
    type Failure = Infallible;

    fn next_request(&mut self) -> Poll<Option<Result<pb::WatchRequest, Infallible>>> {
        let Some(create) = self.0.pop_front() else { return Poll::Pending };
        let request_union = Some(RequestUnion::CreateRequest(create));
        Poll::Ready(Some(Ok(pb::WatchRequest { request_union })))
    }

    fn created(&mut self, id: Option<i64>, _: &pb::WatchCreateRequest) {
        assert!(id.is_some(), "it is permitted");
    }

    fn canceled(&mut self, _: i64) {}
}

#[test]
fn a_few_requests_are_answered_before_events_and_the_next_ones_behind() {
    let mut bench = enabled();
    put(&mut bench, "a1", "v", 0);
    let mut served = ServedWatches::new(watching(&bench), 2);
    let later = || pb::WatchCreateRequest { start_revision: 1 << 40, ..watch_request("a", "b") };
    let mut arrived = Arrived((0..5).map(|_| later()).collect());
    let mut sent = Vec::new();
    loop {
        match served.next(&mut arrived, 1) {
            ServedStep::Send(frame) => {
                let response = pb::WatchResponse::decode(frame.to_bytes()).expect("a response");
                sent.push((response.watch_id, response.created));
            }
            ServedStep::Idle if arrived.0.is_empty() => break,
            ServedStep::Busy | ServedStep::Idle => {}
            ServedStep::Behind | ServedStep::Damaged(_) => panic!("nothing is to be waited for"),
            ServedStep::Failed(failure) => match failure {},
        }
    }
    let created = |id| (id, true);
    let first = [created(0), created(1), created(2), (0, false)];
    assert_eq!(sent, [&first[..], &[created(3), created(4), created(5)]].concat());
}
