//! What callers may do with keys and leases.

use api::Error;
use api::etcdserverpb::request_op::Request;
use proptest::prelude::*;

use super::*;
use crate::auth::ranges::UserRanges;
use crate::auth::types::RangePermission;
use crate::testing::{delete_request, grant, op, put_request, range_request};

const DENIED: Result<(), Error> = Err(Error::PermissionDenied);

fn as_ann(bench: &mut TestStore, command: Command) -> Result<(), Error> {
    let ann = user(bench, "ann");
    bench.outcome_as(ann, command).map(drop)
}

fn txn(success: Vec<Request>) -> pb::TxnRequest {
    pb::TxnRequest { success: success.into_iter().map(op).collect(), ..Default::default() }
}

#[test]
fn a_command_needs_the_permission_for_all_that_it_touches() {
    let mut bench = enabled();
    let delete = |key: &str, end: &str, prev_kv| {
        Command::DeleteRange(pb::DeleteRangeRequest { prev_kv, ..delete_request(key, end) })
    };
    let previous = |key: &str| Command::Put(pb::PutRequest { prev_kv: true, ..put_request(key, "v") });
    let cases = [
        (crate::testing::put("a", "v"), Ok(())),
        (crate::testing::put("c", "v"), DENIED),
        (crate::testing::put("w", "v"), Ok(())),
        (previous("a"), Ok(())),
        (previous("w"), DENIED),
        (delete("a", "c", true), Ok(())),
        (delete("a", "d", false), DENIED),
        (delete("w", "", false), Ok(())),
        (delete("w", "", true), DENIED),
        (delete("a", "\0", false), DENIED),
    ];
    for (command, expected) in cases {
        let text = format!("{command:?}");
        assert_eq!(as_ann(&mut bench, command), expected, "{text}");
    }
}

#[test]
fn nested_transactions_bypass_nothing() {
    let mut bench = enabled();
    let get = |key: &str| Request::RequestRange(range_request(key, ""));
    let put = |key: &str| Request::RequestPut(put_request(key, "v"));
    let nest = |inner: pb::TxnRequest| txn(vec![put("a"), Request::RequestTxn(inner)]);
    let hidden = [
        txn(vec![get("x")]),
        txn(vec![put("c")]),
        txn(vec![Request::RequestDeleteRange(delete_request("w", ""))]),
        txn(vec![Request::RequestPut(pb::PutRequest { prev_kv: true, ..put_request("w", "v") })]),
        pb::TxnRequest { failure: vec![op(get("x"))], ..Default::default() },
        pb::TxnRequest {
            compare: vec![pb::Compare { key: "x".into(), ..Default::default() }],
            ..Default::default()
        },
    ];
    for request in hidden {
        for request in [request.clone(), nest(request.clone()), nest(nest(request))] {
            assert_eq!(as_ann(&mut bench, Command::Txn(request.clone())), DENIED, "{request:?}");
        }
    }
    assert_eq!(as_ann(&mut bench, Command::Txn(nest(nest(txn(vec![get("d"), put("b")]))))), Ok(()));
}

#[test]
fn a_lease_is_that_of_who_may_write_all_of_its_keys() {
    let mut bench = enabled();
    let attach = |key: &str, lease| Command::Put(pb::PutRequest { lease, ..put_request(key, "v") });
    let revoke = |id| Command::LeaseRevoke { request: pb::LeaseRevokeRequest { id }, expiry_term: None };
    for id in [7, 8] {
        assert_eq!(as_ann(&mut bench, grant(id, 60)), Ok(()));
    }
    bench.outcome_as(Caller::Internal, attach("secret", 7)).expect("root may");
    assert_eq!(as_ann(&mut bench, attach("a", 7)), DENIED, "she could not end the lease");
    let request = txn(vec![Request::RequestPut(pb::PutRequest { lease: 7, ..put_request("a", "v") })]);
    assert_eq!(as_ann(&mut bench, Command::Txn(request)), DENIED);
    assert_eq!(as_ann(&mut bench, revoke(7)), DENIED);
    assert_eq!(as_ann(&mut bench, attach("a", 8)), Ok(()));
    let bob = user(&bench, "bob");
    assert_eq!(bench.outcome_as(bob.clone(), revoke(8)).map(drop), DENIED);
    assert_eq!(bench.reader.access_to_renew(bob.clone(), 8).step(), Err(Error::PermissionDenied));
    assert_eq!(bench.reader.access_to_list(bob, vec![8]).step(), Err(Error::PermissionDenied));
    assert_eq!(bench.outcome_as(Caller::Anonymous, grant(9, 60)).map(drop), Err(Error::UserEmpty));
    assert_eq!(as_ann(&mut bench, revoke(8)), Ok(()));
    let expired = Command::LeaseRevoke { request: pb::LeaseRevokeRequest { id: 7 }, expiry_term: Some(1) };
    bench.outcome(expired).expect("the cluster ends leases as root");
    assert!(bench.reader.lease(7).is_none());
}

#[test]
fn a_stale_auth_revision_never_writes() {
    let mut bench = enabled();
    let (ann, root) = (user(&bench, "ann"), user(&bench, "root"));
    change(&mut bench, revoke_role("ann", "r")).expect("revoked");
    for caller in [ann, root] {
        let outcome = bench.outcome_as(caller, crate::testing::put("a", "v"));
        assert_eq!(outcome, Err(Error::AuthOldRevision));
    }
    assert_eq!(as_ann(&mut bench, crate::testing::put("a", "v")), DENIED);
    let root = user(&bench, "root");
    assert!(bench.outcome_as(root, crate::testing::put("a", "v")).is_ok());
    assert_eq!(bench.outcome(crate::testing::put("a", "v")), Err(Error::UserEmpty));
}

#[test]
fn a_read_is_refused_when_permissions_changed_meanwhile() {
    let mut bench = enabled();
    let ann = user(&bench, "ann");
    assert_eq!(bench.reader.check_range(&ann, b"a", b"e"), Ok(()));
    assert_eq!(bench.reader.check_range(&ann, b"a", b"f"), DENIED);
    assert_eq!(bench.reader.check_unchanged(&ann), Ok(()));
    change(&mut bench, role_add("new")).expect("added");
    assert_eq!(bench.reader.check_unchanged(&ann), Err(Error::AuthOldRevision));
    assert_eq!(bench.reader.check_unchanged(&Caller::Anonymous), Err(Error::UserEmpty), "auth was enabled");
}

/// One permission, by small numbers; the last one stands for a range without end.
fn permission() -> impl Strategy<Value = (u8, u8)> {
    (1u8..8, 0u8..10)
}

fn key(number: u8) -> Bytes {
    vec![b'a' + number].into()
}

fn range((start, end): (u8, u8)) -> Option<(Bytes, Bytes)> {
    match end {
        0 => Some((key(start), Bytes::new())),
        9 => Some((key(start), Bytes::from_static(&[0]))),
        end if end > start => Some((key(start), key(end))),
        _ => None,
    }
}

/// Whether a range has a key: keys here are one letter, and that letter with a zero byte and more behind it.
fn has((start, end): &(Bytes, Bytes), key: &[u8]) -> bool {
    match &end[..] {
        [] => start == key,
        [0] => &start[..] <= key,
        end => &start[..] <= key && key < end,
    }
}

proptest! {
    #[test]
    fn a_merged_set_covers_what_its_permissions_cover_together(
        permissions in prop::collection::vec(permission(), 0..6),
        asked in permission(),
    ) {
        let ranges: Vec<_> = permissions.into_iter().filter_map(range).collect();
        let permissions: Vec<_> = ranges.iter().map(|(start, end)| RangePermission {
            start: start.clone(), end: end.clone(), kind: 0,
        }).collect();
        let merged = UserRanges::of(permissions.iter());
        let Some(asked) = range(asked) else { return Ok(()) };
        let keys = (0..9u8).flat_map(|number| [key(number), [&key(number)[..], &[0]].concat().into()])
            .chain([Bytes::from_static(b"zz")]);
        let expected = keys.filter(|key| has(&asked, key)).all(|key| ranges.iter().any(|one| has(one, &key)));
        prop_assert_eq!(merged.read.covers(&asked.0, &asked.1), expected, "{:?} of {:?}", asked, ranges);
        prop_assert!(!merged.write.covers(&asked.0, &asked.1));
    }
}
