//! Rules, permissions, and what of auth survives a restart.

mod leases;
mod permissions;
mod rules;
mod state;
mod work;

use api::authpb;
use api::etcdserverpb as pb;
use bytes::Bytes;

use super::{AuthCommand, Caller};
use crate::testing::TestStore;
use crate::{Command, Outcome};

pub(super) fn user_add(name: &str) -> AuthCommand {
    let hashed_password = format!("hash of {name}");
    AuthCommand::UserAdd(pb::AuthUserAddRequest { name: name.into(), hashed_password, ..Default::default() })
}

pub(super) fn role_add(name: &str) -> AuthCommand {
    AuthCommand::RoleAdd(pb::AuthRoleAddRequest { name: name.into() })
}

pub(super) fn grant_role(user: &str, role: &str) -> AuthCommand {
    AuthCommand::UserGrantRole(pb::AuthUserGrantRoleRequest { user: user.into(), role: role.into() })
}

pub(crate) fn revoke_role(name: &str, role: &str) -> AuthCommand {
    AuthCommand::UserRevokeRole(pb::AuthUserRevokeRoleRequest { name: name.into(), role: role.into() })
}

pub(super) fn permit(role: &str, kind: authpb::permission::Type, key: &str, end: &str) -> AuthCommand {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let perm = authpb::Permission { perm_type: kind as i32, key: bytes(key), range_end: bytes(end) };
    AuthCommand::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest {
        name: role.into(),
        perm: Some(perm),
    })
}

/// A change by the cluster itself.
pub(crate) fn change(bench: &mut TestStore, command: AuthCommand) -> Outcome {
    bench.outcome_as(Caller::Internal, Command::Auth(command))
}

/// A user at the present auth revision.
pub(crate) fn user(bench: &TestStore, name: &str) -> Caller {
    Caller::User { name: name.into(), revision: bench.reader.auth_revision() }
}

/// Auth is enabled; ann may read and write [a, c), read [c, e), and write key w; bob has no role.
pub(crate) fn enabled() -> TestStore {
    use authpb::permission::Type::{Read, Readwrite, Write};
    let mut bench = TestStore::new();
    let commands = [
        user_add("root"),
        role_add("root"),
        grant_role("root", "root"),
        user_add("ann"),
        user_add("bob"),
        role_add("r"),
        permit("r", Readwrite, "a", "c"),
        permit("r", Read, "c", "e"),
        permit("r", Write, "w", ""),
        grant_role("ann", "r"),
        AuthCommand::Enable,
    ];
    for command in commands {
        change(&mut bench, command).expect("it is allowed");
        bench.store.check_all();
    }
    bench
}
