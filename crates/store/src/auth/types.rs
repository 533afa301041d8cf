//! Users, roles and commands, as they are at the boundary of this crate.

use api::authpb;
use api::etcdserverpb as pb;
use bytes::Bytes;

use super::tokens::TokenHash;
use crate::hash::{PartHasher, PartKind};

/// Accounted memory of a user, without names: its place in a hash table that may be half empty, and in the order.
const USER_BYTES: u64 = 320;

/// Accounted memory of a role, a permission, and a role of a user, without names and keys.
pub(super) const ENTRY_BYTES: u64 = 192;

/// A range of keys that a role may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangePermission {
    /// The first key.
    pub start: Bytes,
    /// The key that ends the range, empty for a single key, one zero byte for a range without end.
    pub end: Bytes,
    /// `authpb.Permission.Type`: 0 to read, 1 to write, 2 both. Any other number permits nothing.
    pub kind: i32,
}

impl RangePermission {
    pub(super) fn may_read(&self) -> bool {
        self.is([authpb::permission::Type::Read, authpb::permission::Type::Readwrite])
    }

    pub(super) fn may_write(&self) -> bool {
        self.is([authpb::permission::Type::Write, authpb::permission::Type::Readwrite])
    }

    fn is(&self, kinds: [authpb::permission::Type; 2]) -> bool {
        kinds.into_iter().any(|kind| kind as i32 == self.kind)
    }
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthRole {
    /// Its name.
    pub name: String,
    /// Its permissions, by their first keys.
    pub permissions: Vec<RangePermission>,
}

/// A user.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthUser {
    /// Its name.
    pub name: String,
    /// The bcrypt hash of its password; empty without one.
    pub password: Bytes,
    /// Whether it has no password, so that only a certificate can name it.
    pub no_password: bool,
    /// The names of its roles, sorted.
    pub roles: Vec<String>,
}

impl AuthUser {
    /// Whether it has a role.
    pub(super) fn has_role(&self, role: &str) -> bool {
        self.roles.binary_search_by(|own| own.as_str().cmp(role)).is_ok()
    }
}

impl std::fmt::Debug for AuthUser {
    /// Without the hash of the password.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let AuthUser { name, roles, no_password, .. } = self;
        write!(out, "AuthUser {{ name: {name:?}, roles: {roles:?}, no_password: {no_password} }}")
    }
}

/// A change of users and roles, or the assignment of a token.
#[derive(Clone, Debug)]
pub enum AuthCommand {
    /// Assigns a token to a user whose password was checked.
    Authenticate {
        /// The user.
        name: String,
        /// The auth revision at which the password was checked.
        checked_revision: u64,
        /// The token's hash; `None` if tokens are signed.
        token: Option<TokenHash>,
    },
    /// Demand permissions from now on.
    Enable,
    /// Demand none from now on.
    Disable,
    /// Add a user. In this and the next, `hashed_password` is the bcrypt hash itself, and `password` is empty.
    UserAdd(pb::AuthUserAddRequest),
    /// Change a password.
    UserChangePassword(pb::AuthUserChangePasswordRequest),
    /// Remove a user.
    UserDelete(pb::AuthUserDeleteRequest),
    /// Give a role to a user.
    UserGrantRole(pb::AuthUserGrantRoleRequest),
    /// Take a role from a user.
    UserRevokeRole(pb::AuthUserRevokeRoleRequest),
    /// Add a role.
    RoleAdd(pb::AuthRoleAddRequest),
    /// Remove a role, from all users too.
    RoleDelete(pb::AuthRoleDeleteRequest),
    /// Permit a range to a role.
    RoleGrantPermission(pb::AuthRoleGrantPermissionRequest),
    /// Take a permission from a role.
    RoleRevokePermission(pb::AuthRoleRevokePermissionRequest),
}

pub(super) fn user_bytes(user: &AuthUser) -> u64 {
    let roles = user.roles.iter().map(|role| role.len() as u64 + ENTRY_BYTES / 4).sum::<u64>();
    USER_BYTES + 2 * user.name.len() as u64 + user.password.len() as u64 + roles
}

/// Without the merged ranges of its users, which are accounted as they are made.
pub(super) fn role_bytes(role: &AuthRole) -> u64 {
    let of = |own: &RangePermission| ENTRY_BYTES / 2 + (own.start.len() + own.end.len()) as u64;
    ENTRY_BYTES + 2 * role.name.len() as u64 + role.permissions.iter().map(of).sum::<u64>()
}

pub(super) fn hash_of_user(user: &AuthUser) -> u64 {
    let part = PartHasher::new(PartKind::User).bytes(user.name.as_bytes()).bytes(&user.password);
    let part = part.number(u64::from(user.no_password));
    user.roles.iter().fold(part, |part, role| part.bytes(role.as_bytes())).finish()
}

pub(super) fn hash_of_role(role: &AuthRole) -> u64 {
    let part = PartHasher::new(PartKind::Role).bytes(role.name.as_bytes());
    let add = |part: PartHasher, own: &RangePermission| {
        part.bytes(&own.start).bytes(&own.end).number(i64::from(own.kind) as u64)
    };
    role.permissions.iter().fold(part, add).finish()
}
