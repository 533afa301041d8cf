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
