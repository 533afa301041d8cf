//! Permissions that change while requests are in flight.
//!
//! In these runs all requests of clients are those of the user ann, who has a role for half of the keys at times. Now
//! and then a client asks for a change instead: first those that enable auth, then the role is taken from ann and given
//! back. A request names the auth revision that its member had when it was sent:
//!
//! ```text
//! member 2 at auth revision 9, ann has the role      put k07 as (ann, 9): permitted
//! the role is taken, revision 10, on its way         answered: it was applied before; or its revision is old
//! ```
//!
//! So what is carried out must have been permitted at the revision that it names, and what is refused for want of a
//! permission must not.

use api::Error;
use api::authpb;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;
use store::{AuthCommand, Caller, Reader};

use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::request::{ClientRequest, NO_CLIENT, PendingRequest};

const USER: &str = "ann";
const ROLE: &str = "half";

/// The keys of the role: half of those that clients use, which are named by two digits.
const FIRST_KEY: &[u8] = b"k";
const END_KEY: &[u8] = b"k06";

/// Percentage of requests that change permissions, once auth is enabled.
const CHANGE_PERCENT: u64 = 8;

impl Simulation {
    /// A change of users and roles in place of a request, if this run has them and one is due.
    pub(super) fn draw_permission_change(&mut self, member: usize) -> Option<ClientRequest> {
        if !self.plan.changes_permissions || self.ending.faults_stopped_ns.is_some() {
            return None;
        }
        let reader = &self.machines[member].process.as_ref()?.opened.reader;
        let is_enabled = reader.is_auth_enabled();
        let command = next_change(reader);
        let is_due = !is_enabled || self.workload.rng.percent(CHANGE_PERCENT);
        is_due.then(|| {
            self.coverage.event("changes of permissions");
            ClientRequest::Auth(member::encode_auth(&command))
        })
    }

    /// Who sends a request to a member, and whether that is permitted at the auth revision that it names; `None` if
    /// that cannot be told beforehand.
    pub(super) fn caller_of(
        &self,
        member: usize,
        client: usize,
        request: &ClientRequest,
    ) -> (Caller, Option<bool>) {
        if !self.plan.changes_permissions {
            return (Caller::Anonymous, None);
        }
        let process = self.machines[member].process.as_ref();
        let (Some(process), true) = (process, client != NO_CLIENT && is_of_ann(request)) else {
            return (Caller::Internal, None);
        };
        let reader = &process.opened.reader;
        let caller = Caller::User { name: USER.into(), revision: reader.auth_revision() };
        let permitted = reader.is_auth_enabled().then(|| is_permitted(reader, &caller, request));
        (caller, permitted.flatten())
    }

    /// A command was carried out.
    pub(super) fn was_permitted(&mut self, pending: &PendingRequest) -> Result<(), Violation> {
        if pending.permitted == Some(false) {
            return Violation::err("permissions hold", format!("{:?} was carried out", pending.request));
        }
        Ok(())
    }

    /// A command was refused. Returns whether its caller's permissions are the reason.
    pub(super) fn was_refused(&mut self, pending: &PendingRequest, error: Error) -> Result<bool, Violation> {
        match (error, &pending.request) {
            (_, ClientRequest::Auth(_)) => Ok(true),
            (Error::AuthOldRevision, _) if self.plan.changes_permissions => {
                self.coverage.event("auth revisions that were old");
                Ok(true)
            }
            (Error::PermissionDenied, _) if self.plan.changes_permissions => {
                self.coverage.event("permissions denied");
                // Which keys are attached to a lease may have changed meanwhile.
                if pending.permitted == Some(true) && !names_lease(&pending.request) {
                    let text = format!("{:?} was refused", pending.request);
                    return Violation::err("permissions hold", text);
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// The next step towards enabled auth, by what a member knows; from then on, the role is taken and given back.
fn next_change(reader: &Reader) -> AuthCommand {
    let text = str::to_owned;
    let user_add =
        |name| AuthCommand::UserAdd(pb::AuthUserAddRequest { name: text(name), ..Default::default() });
    let grant = |user, role| {
        AuthCommand::UserGrantRole(pb::AuthUserGrantRoleRequest { user: text(user), role: text(role) })
    };
    let has_role = |user: &str| reader.auth_user(user).is_some_and(|user| !user.roles.is_empty());
    match reader.auth_role(ROLE) {
        _ if reader.auth_user("root").is_none() => user_add("root"),
        _ if !has_role("root") => grant("root", "root"),
        _ if reader.auth_user(USER).is_none() => user_add(USER),
        None => AuthCommand::RoleAdd(pb::AuthRoleAddRequest { name: text(ROLE) }),
        Some(role) if role.permissions.is_empty() => {
            let perm = Some(authpb::Permission {
                perm_type: authpb::permission::Type::Readwrite as i32,
                key: Bytes::from_static(FIRST_KEY),
                range_end: Bytes::from_static(END_KEY),
            });
            AuthCommand::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest { name: text(ROLE), perm })
        }
        Some(_) if !reader.is_auth_enabled() => AuthCommand::Enable,
        Some(_) if has_role(USER) => {
            AuthCommand::UserRevokeRole(pb::AuthUserRevokeRoleRequest { name: text(USER), role: text(ROLE) })
        }
        Some(_) => grant(USER, ROLE),
    }
}

/// Whether ann sends it. Compactions and alarms need root.
fn is_of_ann(request: &ClientRequest) -> bool {
    !matches!(request, ClientRequest::Auth(_) | ClientRequest::Compact(_) | ClientRequest::Disarm(_))
}

/// Whether a caller may do this now, leases left out. Ann may write what she may read.
fn is_permitted(reader: &Reader, caller: &Caller, request: &ClientRequest) -> Option<bool> {
    let checked = match request {
        ClientRequest::Put(put) => reader.check_range(caller, &put.key, &[]),
        ClientRequest::Delete(delete) => reader.check_range(caller, &delete.key, &delete.range_end),
        ClientRequest::Txn(txn) => {
            let mut txn = txn.clone();
            puts_of(&mut txn).for_each(|put| put.lease = 0);
            reader.check_txn(caller, &txn)
        }
        _ => return None,
    };
    Some(checked.is_ok())
}

fn names_lease(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::Put(put) => put.lease != 0,
        ClientRequest::Txn(txn) => puts_of(&mut txn.clone()).any(|put| put.lease != 0),
        _ => true,
    }
}

/// The puts of a transaction without nested ones.
fn puts_of(txn: &mut pb::TxnRequest) -> impl Iterator<Item = &mut pb::PutRequest> {
    let ops = txn.success.iter_mut().chain(&mut txn.failure);
    ops.filter_map(|op| match &mut op.request {
        Some(Request::RequestPut(put)) => Some(put),
        _ => None,
    })
}
