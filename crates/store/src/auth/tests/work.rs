//! What a decision looks at, with few and with many users and roles.

use std::sync::Arc;

use super::*;
use crate::auth::{AuthState, Permit, UserRanges};

/// Ranges of each role, of which none touches another.
const RANGES: usize = 10;

/// Users that call.
const CALLING: usize = 10;

/// A state in which each of so many users has a role of its own.
fn with_users(count: usize) -> AuthState {
    use authpb::permission::Type::Readwrite;
    let mut state = AuthState::default();
    let mut apply = |command| state.apply(command, 1).expect("it is allowed");
    [user_add("root"), grant_role("root", "root")].into_iter().for_each(&mut apply);
    for user in 0..count {
        let (name, role) = (format!("user{user}"), format!("role{user}"));
        apply(role_add(&role));
        (0..RANGES).for_each(|range| {
            let start = format!("/app/{user:05}/{range:02}/");
            apply(permit(&role, Readwrite, &start, &format!("/app/{user:05}/{range:02}0")));
        });
        apply(user_add(&name));
        apply(grant_role(&name, &role));
    }
    apply(AuthCommand::Enable);
    state
}

fn ranges_of(state: &AuthState, user: usize) -> Arc<UserRanges> {
    let caller = Caller::User { name: format!("user{user}").into(), revision: state.revision() };
    match state.permit(&caller) {
        Permit::Ranges(ranges) => ranges,
        other => panic!("{other:?}"),
    }
}

/// Most keys that the decision about one key compares.
fn most_compared(ranges: &UserRanges, user: usize) -> usize {
    let compared = |range: usize| {
        let key = format!("/app/{user:05}/{range:02}/key");
        let mut compared = 0;
        let at = ranges.read.search(|first| {
            compared += 1;
            first <= key.as_bytes()
        });
        assert_eq!(at, range + 1, "it is in this range");
        compared
    };
    (0..RANGES).map(compared).max().unwrap_or_default()
}

#[test]
fn a_decision_costs_the_same_with_ten_users_and_with_ten_thousand() {
    for count in [CALLING, 10_000] {
        let mut state = with_users(count);
        let calling = || (0..CALLING).map(|user| user * (count / CALLING));
        let before: Vec<_> = calling().map(|user| ranges_of(&state, user)).collect();
        for (ranges, user) in before.iter().zip(calling()) {
            assert_eq!(most_compared(ranges, user), 4, "of {RANGES} ranges, {count} users");
        }
        // A change of one user and its role merges the ranges of this user again, and those of no other.
        for command in [role_add("new"), permit("role0", authpb::permission::Type::Read, "z", "")] {
            state.apply(command, 2).expect("it is allowed");
        }
        for (ranges, user) in before.iter().zip(calling()) {
            let is_same = Arc::ptr_eq(ranges, &ranges_of(&state, user));
            assert_eq!(is_same, user != 0, "user{user} of {count}");
        }
        let again = ranges_of(&state, 0);
        assert!(again.read.covers(b"z", &[]) && !before[0].read.covers(b"z", &[]));
        state.apply(grant_role("user0", "new"), 3).expect("it is allowed");
        assert!(!Arc::ptr_eq(&again, &ranges_of(&state, 0)), "its roles have changed");
    }
}

#[test]
fn ranges_follow_each_change_of_a_role() {
    use authpb::permission::Type::Read;
    let mut state = with_users(1);
    let may_read = |state: &AuthState| ranges_of(state, 0).read.covers(b"k", &[]);
    assert!(!may_read(&state));
    for _ in 0..3 {
        state.apply(permit("role0", Read, "k", ""), 2).expect("it is allowed");
        assert!(may_read(&state));
        state.apply(role_add("another"), 3).expect("it is allowed");
        assert!(may_read(&state), "another role is added");
        let revoke = pb::AuthRoleRevokePermissionRequest {
            role: "role0".into(),
            key: "k".into(),
            ..Default::default()
        };
        state.apply(AuthCommand::RoleRevokePermission(revoke), 4).expect("it is allowed");
        assert!(!may_read(&state));
        let another = pb::AuthRoleDeleteRequest { role: "another".into() };
        state.apply(AuthCommand::RoleDelete(another), 5).expect("it is allowed");
        assert!(!may_read(&state));
    }
    // A role that is deleted and added again is another one.
    state.apply(permit("role0", Read, "k", ""), 6).expect("it is allowed");
    assert!(may_read(&state));
    let role = pb::AuthRoleDeleteRequest { role: "role0".into() };
    state.apply(AuthCommand::RoleDelete(role), 7).expect("it is allowed");
    state.apply(role_add("role0"), 8).expect("it is allowed");
    assert!(!may_read(&state));
    state.apply(grant_role("user0", "role0"), 9).expect("it is allowed");
    assert!(!may_read(&state), "it has no permissions yet");
}

/// A state in which so many users have one role with so many ranges.
fn with_one_role(users: usize, ranges: usize) -> AuthState {
    use authpb::permission::Type::Readwrite;
    let mut state = with_users(0);
    let mut apply = |command| state.apply(command, 1).expect("it is allowed");
    apply(role_add("app"));
    (0..ranges).for_each(|range| apply(permit("app", Readwrite, &format!("/app/{range:05}/"), "")));
    for user in 0..users {
        apply(user_add(&format!("user{user}")));
        apply(grant_role(&format!("user{user}"), "app"));
    }
    state
}

#[test]
fn users_with_the_same_roles_share_their_ranges_and_these_are_accounted_once() {
    use authpb::permission::Type::Read;
    const USERS: usize = 100;
    let mut state = with_one_role(USERS, 1_000);
    let before = state.accounted_bytes();
    let all = |state: &AuthState| -> Vec<_> { (0..USERS).map(|user| ranges_of(state, user)).collect() };
    let first = all(&state);
    assert!(first.iter().all(|ranges| Arc::ptr_eq(ranges, &first[0])), "they have one set");
    let merged = state.accounted_bytes() - before;
    let heap = first[0].heap_bytes() as u64;
    assert!((heap..heap + 1_000).contains(&merged), "{merged} bytes are accounted for a set of {heap}");

    state.apply(permit("app", Read, "z", ""), 2).expect("it is allowed");
    let second = all(&state);
    assert!(second.iter().all(|ranges| Arc::ptr_eq(ranges, &second[0]) && ranges.read.covers(b"z", &[])));
    assert!(!Arc::ptr_eq(&first[0], &second[0]));
    drop(first);
    let one_more = state.accounted_bytes() - before;
    assert!(one_more < merged + 1_000, "{one_more} bytes: the set before is gone");

    // A user with another role beside it has a set of its own.
    for command in [role_add("log"), permit("log", Read, "y", ""), grant_role("user0", "log")] {
        state.apply(command, 3).expect("it is allowed");
    }
    assert!(ranges_of(&state, 0).read.covers(b"y", &[]) && !ranges_of(&state, 1).read.covers(b"y", &[]));
    assert!(Arc::ptr_eq(&ranges_of(&state, 1), &second[0]), "the role has not changed");
}

#[test]
fn lists_of_roles_that_no_user_has_are_forgotten() {
    let mut state = with_one_role(1, 1);
    for round in 0..1_000 {
        let role = format!("role{round}");
        let revoke = pb::AuthUserRevokeRoleRequest { name: "user0".into(), role: role.clone() };
        for command in [role_add(&role), grant_role("user0", &role)] {
            state.apply(command, 2).expect("it is allowed");
        }
        ranges_of(&state, 0);
        state.apply(AuthCommand::UserRevokeRole(revoke), 3).expect("it is allowed");
    }
    let lists = state.shared_ranges.lock().lists();
    assert!(lists < 200, "{lists} lists are known");
}
