//! etcd's rules for changing users and roles.

use api::Error;
use api::authpb;

use super::*;

fn refused(bench: &mut TestStore, command: AuthCommand) -> Error {
    let before = bench.reader.state_hash().1;
    let error = change(bench, command).expect_err("it is refused");
    assert_eq!(bench.reader.state_hash().1, before, "nothing has changed");
    error
}

#[test]
fn users_and_roles_are_refused_as_in_etcd() {
    let mut bench = enabled();
    let cases = [
        (user_add(""), Error::UserEmpty),
        (user_add("ann"), Error::UserExists),
        (role_add(""), Error::RoleEmpty),
        (role_add("r"), Error::RoleExists),
        (grant_role("eve", "r"), Error::UserNotFound),
        (grant_role("ann", "s"), Error::RoleNotFound),
        (revoke_role("eve", "r"), Error::UserNotFound),
        (revoke_role("bob", "r"), Error::RoleNotGranted),
        (revoke_role("root", "root"), Error::InvalidAuthManagement),
        (
            AuthCommand::UserDelete(pb::AuthUserDeleteRequest { name: "root".into() }),
            Error::InvalidAuthManagement,
        ),
        (AuthCommand::UserDelete(pb::AuthUserDeleteRequest { name: "eve".into() }), Error::UserNotFound),
        (
            AuthCommand::RoleDelete(pb::AuthRoleDeleteRequest { role: "root".into() }),
            Error::InvalidAuthManagement,
        ),
        (AuthCommand::RoleDelete(pb::AuthRoleDeleteRequest { role: "s".into() }), Error::RoleNotFound),
        (permit("s", authpb::permission::Type::Read, "k", ""), Error::RoleNotFound),
        (permit("r", authpb::permission::Type::Read, "", ""), Error::InvalidAuthManagement),
        (permit("r", authpb::permission::Type::Read, "k", "k"), Error::InvalidAuthManagement),
        (AuthCommand::RoleGrantPermission(Default::default()), Error::PermissionNotGiven),
    ];
    for (command, expected) in cases {
        let text = format!("{command:?}");
        assert_eq!(refused(&mut bench, command), expected, "{text}");
    }
}

#[test]
fn auth_is_enabled_once_root_is_there() {
    let mut bench = TestStore::new();
    assert_eq!(refused(&mut bench, AuthCommand::Enable), Error::RootUserNotFound);
    change(&mut bench, user_add("root")).expect("added");
    assert_eq!(refused(&mut bench, AuthCommand::Enable), Error::RootRoleNotGranted);
    change(&mut bench, grant_role("root", "root")).expect("the role need not exist");
    assert_eq!((bench.reader.auth_revision(), bench.reader.is_auth_enabled()), (3, false));
    change(&mut bench, AuthCommand::Enable).expect("root is there");
    assert_eq!((bench.reader.auth_revision(), bench.reader.is_auth_enabled()), (3, true));
    change(&mut bench, AuthCommand::Disable).expect("it is enabled");
    change(&mut bench, AuthCommand::Disable).expect("no change");
    assert_eq!((bench.reader.auth_revision(), bench.reader.is_auth_enabled()), (4, false));
}

#[test]
fn every_change_raises_the_auth_revision_and_no_other_command_does() {
    let mut bench = enabled();
    let before = bench.reader.auth_revision();
    change(&mut bench, grant_role("ann", "r")).expect("it is granted already");
    assert_eq!(bench.reader.auth_revision(), before);
    change(&mut bench, AuthCommand::RoleDelete(pb::AuthRoleDeleteRequest { role: "r".into() }))
        .expect("deleted");
    assert_eq!(bench.reader.auth_revision(), before + 1);
    assert_eq!(bench.reader.auth_user("ann").expect("it is there").roles, [""; 0], "it had the role");
}

#[test]
fn permissions_that_begin_together_are_kept_as_in_etcd() {
    use authpb::permission::Type::{Read, Write};
    let mut bench = enabled();
    change(&mut bench, role_add("s")).expect("added");
    for (kind, end) in [(Read, "m"), (Read, ""), (Write, "m"), (Write, "")] {
        change(&mut bench, permit("s", kind, "k", end)).expect("granted");
    }
    let found = bench.reader.auth_role("s").expect("it is there").permissions;
    let found: Vec<_> = found.iter().map(|own| (own.kind, str::from_utf8(&own.end).unwrap())).collect();
    // Only the first one that begins there is compared, so the second single key is added.
    assert_eq!(found, [(1, "m"), (0, ""), (1, "")]);
    let key = Bytes::from("k");
    let revoke = pb::AuthRoleRevokePermissionRequest { role: "s".into(), key, range_end: Bytes::new() };
    change(&mut bench, AuthCommand::RoleRevokePermission(revoke.clone())).expect("both are revoked");
    assert_eq!(bench.reader.auth_role("s").expect("it is there").permissions.len(), 1);
    assert_eq!(refused(&mut bench, AuthCommand::RoleRevokePermission(revoke)), Error::PermissionNotGranted);
}

#[test]
fn only_root_changes_users_and_roles() {
    let mut bench = enabled();
    let cases = [
        (Caller::Anonymous, Error::UserEmpty),
        (user(&bench, "ann"), Error::PermissionDenied),
        (user(&bench, "eve"), Error::UserNotFound),
    ];
    for (caller, expected) in cases {
        for command in [user_add("x"), role_add("x"), AuthCommand::Disable, grant_role("bob", "root")] {
            assert_eq!(bench.outcome_as(caller.clone(), Command::Auth(command)), Err(expected));
        }
    }
    let root = user(&bench, "root");
    assert!(bench.outcome_as(root, Command::Auth(user_add("x"))).is_ok());
}
