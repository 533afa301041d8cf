//! Who may attach keys to a lease, end it, renew it and list it, and how many keys that visits.

use std::collections::BTreeSet;

use api::Error;
use api::etcdserverpb::request_op::Request;
use authpb::permission::Type::Readwrite;
use proptest::prelude::*;

use super::*;
use crate::Slice;
use crate::testing::{delete_request, grant, op, put_request, small_limits};

fn attach(key: &str, lease: i64) -> Command {
    Command::Put(pb::PutRequest { lease, ..put_request(key, "v") })
}

/// Ann may write [a, c), bob [b, d). Lease 7 exists.
fn bench(slice_keys: usize) -> TestStore {
    let mut bench = TestStore::with_slices_of(slice_keys);
    let commands = [
        user_add("root"),
        role_add("root"),
        grant_role("root", "root"),
        user_add("ann"),
        user_add("bob"),
        role_add("a"),
        role_add("b"),
        permit("a", Readwrite, "a", "c"),
        permit("b", Readwrite, "b", "d"),
        grant_role("ann", "a"),
        grant_role("bob", "b"),
        AuthCommand::Enable,
    ];
    for command in commands {
        change(&mut bench, command).expect("it is allowed");
    }
    bench.outcome_as(Caller::Internal, grant(7, 60)).expect("granted");
    bench
}

/// Applies a command of a user in slices; returns how many it took.
fn apply_as(bench: &mut TestStore, name: &str, command: Command) -> (Outcome, usize) {
    let (ctx, commands) = bench.entry(vec![command]);
    let ctx = crate::BatchContext { callers: vec![user(bench, name)], ..ctx };
    bench.store.begin_batch(ctx, commands);
    for slices in 1.. {
        match bench.store.apply_slice(&mut 0) {
            Slice::Partial { .. } => bench.store.check_all(),
            Slice::NeedsValues(_) => unreachable!("nothing is compared"),
            Slice::Last(mut applied) => return (applied.outcomes.remove(0), slices),
        }
    }
    unreachable!("the range of slices has no end")
}

#[test]
fn the_keys_of_a_lease_are_counted_and_visited_once_for_each_user() {
    let mut bench = bench(4);
    for number in 0..40 {
        bench.outcome_as(Caller::Internal, attach(&format!("b{number}"), 7)).expect("root may");
    }
    let (outcome, slices) = apply_as(&mut bench, "ann", attach("a0", 7));
    assert!(outcome.is_ok() && slices > 10, "40 keys in slices of 4, not {slices}");
    for name in ["ann", "ann"] {
        let (outcome, slices) = apply_as(&mut bench, name, attach("a1", 7));
        assert_eq!((outcome.is_ok(), slices), (true, 1), "what was visited is remembered");
    }
    // The first key of hers that bob may not write is the last one in the walk.
    let (outcome, slices) = apply_as(&mut bench, "bob", attach("b0", 7));
    assert_eq!(outcome, Err(Error::PermissionDenied));
    assert!(slices > 10, "{slices}");
    let (outcome, slices) = apply_as(&mut bench, "bob", attach("b0", 7));
    assert_eq!((outcome, slices), (Err(Error::PermissionDenied), 1), "the same key refuses him at once");
    change(&mut bench, role_add("other")).expect("added");
    let (outcome, slices) = apply_as(&mut bench, "ann", attach("a1", 7));
    assert_eq!((outcome.is_ok(), slices), (true, 1), "another role has changed");
    change(&mut bench, grant_role("ann", "other")).expect("granted");
    let (outcome, slices) = apply_as(&mut bench, "ann", attach("a1", 7));
    assert!(outcome.is_ok() && slices > 10, "her roles have changed: {slices}");
}

#[test]
fn a_transaction_goes_on_where_its_leases_were_left() {
    let mut bench = bench(4);
    bench.outcome_as(Caller::Internal, grant(8, 60)).expect("granted");
    for number in 0..20 {
        for lease in [7, 8] {
            bench
                .outcome_as(Caller::Internal, attach(&format!("b{lease}{number}"), lease))
                .expect("root may");
        }
    }
    let puts = [attach("a1", 7), attach("a2", 8), attach("a3", 7)].map(|put| match put {
        Command::Put(request) => op(Request::RequestPut(request)),
        _ => unreachable!("they are puts"),
    });
    let request = pb::TxnRequest { success: puts.to_vec(), ..Default::default() };
    let (outcome, slices) = apply_as(&mut bench, "ann", Command::Txn(request));
    assert!(outcome.is_ok() && slices > 10, "{slices}");
}

#[test]
fn readers_visit_a_bounded_number_of_keys_in_one_hold() {
    let mut bench = bench(usize::MAX);
    for number in 0..10 {
        bench.outcome_as(Caller::Internal, attach(&format!("b{number}"), 7)).expect("root may");
    }
    let (ann, bob) = (user(&bench, "ann"), user(&bench, "bob"));
    let steps = 10_usize.div_ceil(small_limits().chunk_keys);
    for mut access in
        [bench.reader.access_to_renew(ann.clone(), 7), bench.reader.access_to_list(ann.clone(), vec![7])]
    {
        let taken = (1..).find(|_| access.step().expect("she may")).expect("it ends");
        assert!((steps..steps + 2).contains(&taken), "{taken}");
    }
    bench.outcome_as(ann.clone(), attach("a0", 7)).expect("she may");
    assert_eq!(bench.reader.access_to_renew(ann, 7).step(), Ok(true), "her put has visited the keys");
    let mut keys = bench.reader.lease_keys(7);
    let refused = (0..steps + 1).find_map(|_| keys.step_as(&bob).err());
    assert_eq!(refused, Some(Error::PermissionDenied));
    let root = user(&bench, "root");
    assert_eq!(bench.reader.access_to_list(root, vec![7]).step(), Ok(true));
    assert_eq!(bench.reader.access_to_renew(user(&bench, "none"), 7).step(), Err(Error::PermissionDenied));
}

/// Renewing or listing a lease, asked of a walk to its end.
fn may_renew_and_list(bench: &TestStore, name: &str, lease: i64) -> [Result<(), Error>; 2] {
    let caller = user(bench, name);
    let (reader, leases) = (&bench.reader, vec![lease]);
    [reader.access_to_renew(caller.clone(), lease), reader.access_to_list(caller, leases)].map(
        |mut access| {
            while !access.step()? {}
            Ok(())
        },
    )
}

#[test]
fn readers_see_the_keys_from_before_a_command_until_it_ends() {
    let mut bench = bench(2);
    bench.outcome_as(Caller::Internal, grant(8, 60)).expect("granted");
    for (key, lease) in [("b0", 7), ("c0", 7), ("c1", 7), ("c2", 7), ("c3", 7), ("c4", 7), ("b1", 8)] {
        bench.outcome_as(Caller::Internal, attach(key, lease)).expect("root may");
    }
    // The first operation attaches a key to lease 8, the second detaches the keys of lease 7 that ann may not write,
    // the others keep the command in progress when all of them are detached.
    let put = |key, lease| op(Request::RequestPut(pb::PutRequest { lease, ..put_request(key, "v") }));
    let delete = op(Request::RequestDeleteRange(delete_request("c", "d")));
    let success = vec![put("d0", 8), delete, put("e0", 0), put("e1", 0), put("e2", 0), put("e3", 0)];
    let (ctx, commands) = bench.entry(vec![Command::Txn(pb::TxnRequest { success, ..Default::default() })]);
    bench.store.begin_batch(crate::BatchContext { callers: vec![Caller::Internal], ..ctx }, commands);
    let (refused, permitted) = ([Err(Error::PermissionDenied); 2], [Ok(()); 2]);
    let mut slices_with_changes = 0;
    while let Slice::Partial { .. } = bench.store.apply_slice(&mut 0) {
        slices_with_changes += usize::from(bench.store.is_mid_command());
        assert_eq!(
            may_renew_and_list(&bench, "ann", 7),
            refused,
            "{slices_with_changes}: c0 to c4 are there"
        );
        assert_eq!(may_renew_and_list(&bench, "ann", 8), permitted, "{slices_with_changes}: d0 is not there");
    }
    assert!(slices_with_changes >= 3, "{slices_with_changes}");
    assert_eq!(may_renew_and_list(&bench, "ann", 7), permitted);
    assert_eq!(may_renew_and_list(&bench, "ann", 8), refused);
}

/// Who puts which key with the lease or without it: names by number, keys by letter and number.
fn put_by() -> impl Strategy<Value = (usize, (char, u8), bool)> {
    (0..3usize, (prop::char::range('a', 'c'), 0..6u8), prop::bool::weighted(0.8))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_remembered_changes_no_answer(
        puts in prop::collection::vec(put_by(), 1..80),
        slice_keys in 1..7usize,
        changes_at in 0..80usize,
    ) {
        let mut bench = bench(slice_keys);
        let mut attached = BTreeSet::new();
        let may = |who: usize, key: &str| match who {
            0 => true,
            1 => key < "c",
            _ => key >= "b",
        };
        for (nth, (who, (letter, number), with_lease)) in puts.into_iter().enumerate() {
            if nth == changes_at {
                change(&mut bench, role_add("another")).expect("added");
            }
            let key = format!("{letter}{number}");
            let expected = may(who, &key) && (!with_lease || attached.iter().all(|key: &String| may(who, key)));
            let command = attach(&key, if with_lease { 7 } else { 0 });
            let (outcome, _) = apply_as(&mut bench, ["root", "ann", "bob"][who], command);
            prop_assert_eq!(outcome.is_ok(), expected, "{} puts {}", who, key);
            if expected && with_lease {
                attached.insert(key);
            } else if expected {
                attached.remove(&key);
            }
        }
        bench.store.check_all();
    }
}
