//! Users and roles that change while requests are in flight, and who sends which request.
//!
//! In these runs the requests of clients are those of the users ann, bob and root, and now and then of no user. Some
//! ask for a change instead: first those that enable auth, then any. A request names the auth revision that its
//! member had when it was sent:
//!
//! ```text
//! member 2 at auth revision 9, ann has the role      put k07 as (ann, 9): permitted
//! the role is taken, revision 10, on its way         answered: it was applied before; or its revision is old
//! ```

use api::authpb;
use api::authpb::permission::Type;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;
use store::{AuthCommand, Caller, Reader};

use crate::defects::Defect;
use crate::rng::Rng;
use crate::simulation::state::Simulation;
use crate::world::request::{ClientRequest, ClientToken, NO_CLIENT, PendingRequest};

const ROOT: &str = "root";
const USERS: [&str; 2] = ["ann", "bob"];
const ROLES: [&str; 3] = ["r0", "r1", "r2"];

/// Who the clients are, in turn.
const CLIENTS: [&str; 4] = ["ann", "bob", "ann", ROOT];

/// Percentage of requests that change users and roles, once auth is enabled.
const CHANGE_PERCENT: u64 = 8;

/// Percentage of requests that enable auth again, after it was disabled.
const ENABLE_PERCENT: u64 = 25;

/// Percentage of requests that name no user.
const ANONYMOUS_PERCENT: u64 = 2;

/// Percentage of transactions that get another one within.
const NESTED_PERCENT: u64 = 40;

/// Percentage of administrators' requests that a client sends as the user that it is.
const NO_ADMINISTRATOR_PERCENT: u64 = 10;

impl Simulation {
    /// A change of users and roles in place of a request, if this run has them and one is due.
    pub(super) fn draw_permission_change(&mut self, member: usize) -> Option<ClientRequest> {
        if !self.plan.changes_permissions || self.ending.faults_stopped_ns.is_some() {
            return None;
        }
        let reader = &self.machines[member].process.as_ref()?.opened.reader;
        let rng = &mut self.workload.rng;
        let command = match first_change(reader, rng, self.plan.names.keys) {
            Some(command) => command,
            None if !reader.is_auth_enabled() => {
                // At first at once.
                let was_enabled = self.workload.auth_was_enabled;
                let is_due = !was_enabled || rng.percent(ENABLE_PERCENT);
                is_due.then_some(AuthCommand::Enable)?
            }
            None => {
                self.workload.auth_was_enabled = true;
                let is_due = rng.percent(CHANGE_PERCENT);
                is_due.then(|| any_change(reader, rng, self.plan.names.keys))?
            }
        };
        self.coverage.event("changes of permissions");
        Some(ClientRequest::Auth(Box::new(command)))
    }

    /// A transaction with another one within, now and then.
    pub(super) fn nest(&mut self, request: ClientRequest, nested: Option<pb::TxnRequest>) -> ClientRequest {
        match (request, nested) {
            (ClientRequest::Txn(mut txn), Some(nested)) if self.workload.rng.percent(NESTED_PERCENT) => {
                let nested = without_keys_of(nested, &txn);
                let op = pb::RequestOp { request: Some(Request::RequestTxn(nested)) };
                let is_in_success = self.workload.rng.percent(50);
                if is_in_success {
                    txn.success.push(op)
                } else {
                    txn.failure.push(op)
                }
                self.coverage.event("nested transactions");
                ClientRequest::Txn(txn)
            }
            (request, _) => request,
        }
    }

    /// Who sends a request to a member, and the token that says so, if it is not a certificate. Without auth, no client
    /// says who it is.
    pub(super) fn caller_of(
        &mut self,
        member: usize,
        client: usize,
        request: &ClientRequest,
    ) -> (Caller, Option<ClientToken>) {
        if !self.plan.changes_permissions {
            return (Caller::Anonymous, None);
        }
        let process = self.machines[member].process.as_ref();
        let (Some(process), true) = (process, client != NO_CLIENT) else { return (Caller::Internal, None) };
        let is_administration = match request {
            ClientRequest::Auth(command) if matches!(**command, AuthCommand::Authenticate { .. }) => {
                return (Caller::Anonymous, None);
            }
            ClientRequest::Auth(_) | ClientRequest::Compact(_) | ClientRequest::Disarm(_) => true,
            _ => false,
        };
        let rng = &mut self.workload.rng;
        let name = match is_administration && !rng.percent(NO_ADMINISTRATOR_PERCENT) {
            true if rng.percent(20) => return (Caller::Internal, None),
            true => ROOT,
            false => user_of_client(client),
        };
        if rng.percent(ANONYMOUS_PERCENT) {
            return (Caller::Anonymous, None);
        }
        let token = self.workload.clients[client].token.clone().filter(|token| token.user == name);
        (named(name, &process.opened.reader), token)
    }

    /// The caller that is proposed with a command: its own, but for a defect.
    pub(super) fn proposer(&self, member: usize, pending: &PendingRequest) -> Caller {
        let process = self.machines[member].process.as_ref();
        if let (Some(Defect::NestedTxnUnchecked), ClientRequest::Txn(txn), Some(process)) =
            (self.defect, &pending.request, process)
        {
            let is_flat = |op: &pb::RequestOp| !matches!(op.request, Some(Request::RequestTxn(_)));
            let mut flat = txn.clone();
            flat.success.retain(is_flat);
            flat.failure.retain(is_flat);
            if flat != *txn && process.opened.reader.check_txn(&pending.caller, &flat).is_ok() {
                return Caller::Internal;
            }
        }
        pending.caller.clone()
    }
}

/// A user, as a member identifies it now.
pub(super) fn named(name: &str, reader: &Reader) -> Caller {
    match reader.is_auth_enabled() {
        true => Caller::User { name: name.into(), revision: reader.auth_revision() },
        false => Caller::Anonymous,
    }
}

/// The user of a client.
pub(super) fn user_of_client(client: usize) -> &'static str {
    CLIENTS[client % CLIENTS.len()]
}

/// The user of a watching client.
pub(super) fn user_of_watcher(watcher: usize) -> &'static str {
    user_of_client(watcher)
}

/// The next step towards users and roles that are worth changing, by what a member knows.
fn first_change(reader: &Reader, rng: &mut Rng, keys: u64) -> Option<AuthCommand> {
    if reader.auth_user(ROOT).is_none() {
        return Some(user_add(ROOT));
    }
    if reader.is_auth_enabled() {
        return None;
    }
    let has_roles = |user: &str| reader.auth_user(user).is_some_and(|user| !user.roles.is_empty());
    if !has_roles(ROOT) {
        return Some(grant_role(ROOT, ROOT));
    }
    for role in ROLES {
        match reader.auth_role(role) {
            None => return Some(AuthCommand::RoleAdd(pb::AuthRoleAddRequest { name: role.to_owned() })),
            Some(found) if found.permissions.is_empty() => return Some(grant_permission(role, rng, keys)),
            Some(_) => {}
        }
    }
    let user = USERS.into_iter().find(|user| !has_roles(user))?;
    match reader.auth_user(user) {
        None => Some(user_add(user)),
        Some(_) => Some(grant_role(user, one_of(rng, ROLES))),
    }
}

/// Any change; it may be refused.
fn any_change(reader: &Reader, rng: &mut Rng, keys: u64) -> AuthCommand {
    let (user, role) = (one_of(rng, USERS), one_of(rng, ROLES));
    let (name, role_name) = (user.to_owned(), role.to_owned());
    match rng.weighted(&[22, 16, 22, 14, 4, 6, 2, 5, 2, 4, 1, 1]) {
        0 => grant_role(user, role),
        1 => AuthCommand::UserRevokeRole(pb::AuthUserRevokeRoleRequest { name, role: role_name }),
        2 => grant_permission(role, rng, keys),
        3 => {
            let found = reader.auth_role(role).unwrap_or_default().permissions;
            let known = found.get(rng.below(found.len() as u64) as usize).cloned();
            let (key, range_end) = known.map_or_else(|| any_range(rng, keys), |own| (own.start, own.end));
            AuthCommand::RoleRevokePermission(pb::AuthRoleRevokePermissionRequest {
                role: role_name,
                key,
                range_end,
            })
        }
        4 => AuthCommand::UserDelete(pb::AuthUserDeleteRequest { name }),
        5 => user_add(user),
        6 => AuthCommand::RoleDelete(pb::AuthRoleDeleteRequest { role: role_name }),
        7 => AuthCommand::RoleAdd(pb::AuthRoleAddRequest { name: role_name }),
        8 => {
            AuthCommand::UserChangePassword(pb::AuthUserChangePasswordRequest { name, ..Default::default() })
        }
        9 => AuthCommand::Disable,
        10 => {
            let (name, role) = (ROOT.to_owned(), ROOT.to_owned());
            AuthCommand::UserRevokeRole(pb::AuthUserRevokeRoleRequest { name, role })
        }
        _ => grant_role(user, ROOT),
    }
}

fn user_add(name: &str) -> AuthCommand {
    AuthCommand::UserAdd(pb::AuthUserAddRequest { name: name.to_owned(), ..Default::default() })
}

fn grant_role(user: &str, role: &str) -> AuthCommand {
    let (user, role) = (user.to_owned(), role.to_owned());
    AuthCommand::UserGrantRole(pb::AuthUserGrantRoleRequest { user, role })
}

fn grant_permission(role: &str, rng: &mut Rng, keys: u64) -> AuthCommand {
    let (key, range_end) = any_range(rng, keys);
    let kinds = [Type::Read, Type::Write, Type::Readwrite, Type::Readwrite];
    let perm_type = one_of(rng, kinds) as i32;
    let perm = Some(authpb::Permission { perm_type, key, range_end });
    AuthCommand::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest { name: role.to_owned(), perm })
}

/// The keys of a permission: one, from one to another, a prefix, all from one on, or all.
fn any_range(rng: &mut Rng, keys: u64) -> (Bytes, Bytes) {
    let key = |number: u64| Bytes::from(format!("k{number:02}"));
    let first = rng.below(keys);
    match rng.below(6) {
        0 => (key(first), Bytes::new()),
        1 | 2 => (key(first), key(first + 1 + rng.below(keys))),
        3 => {
            let tens = first / 10;
            (format!("k{tens}").into(), format!("k{}", tens + 1).into())
        }
        4 => (key(first), Bytes::from_static(b"\0")),
        _ => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
    }
}

fn one_of<T: Copy, const N: usize>(rng: &mut Rng, all: [T; N]) -> T {
    all[rng.below(N as u64) as usize]
}

/// A transaction without operations on keys that another one writes: each key is written once.
fn without_keys_of(mut nested: pb::TxnRequest, outer: &pb::TxnRequest) -> pb::TxnRequest {
    let key = |op: &pb::RequestOp| match &op.request {
        Some(Request::RequestPut(put)) => Some(put.key.clone()),
        Some(Request::RequestDeleteRange(delete)) => Some(delete.key.clone()),
        _ => None,
    };
    let written: Vec<Bytes> = outer.success.iter().chain(&outer.failure).filter_map(key).collect();
    let is_other = |op: &pb::RequestOp| key(op).is_none_or(|key| !written.contains(&key));
    nested.success.retain(is_other);
    nested.failure.retain(is_other);
    nested
}
