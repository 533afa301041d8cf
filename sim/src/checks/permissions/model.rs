//! A model of etcd's users, roles and permissions, on plain sorted maps. Slow, short, and written from the rules of
//! etcd's `server/auth` alone: nothing is merged, sorted ahead or remembered.
//!
//! ```text
//! ann has r and s     r: read [a, c)     s: read [b, f), write k
//! may ann read [a, e)?   from a, [a, c) reaches c; from c, [b, f) reaches f: yes
//! may ann read [a, g)?   from f, no grant goes on: no
//! ```

use std::collections::{BTreeMap, BTreeSet};

use api::Error;
use api::authpb::permission::Type;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;
use store::{AuthCommand, Caller, TokenHash};

use crate::world::request::ClientRequest;

/// The name of the invariant.
pub(crate) const CHECK: &str = "permissions hold";

const ROOT: &str = "root";

/// What somebody wants to do with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAccess {
    Read,
    Write,
}

/// A permission of a role.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelGrant {
    pub(super) start: Bytes,
    pub(super) end: Bytes,
    pub(super) kind: i32,
}

/// Where a grant ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GrantEnd {
    Before(Vec<u8>),
    Never,
}

/// Users and roles at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AuthModel {
    is_enabled: bool,
    changes: u64,
    /// The roles of each user.
    pub(super) users: BTreeMap<String, BTreeSet<String>>,
    pub(super) roles: BTreeMap<String, Vec<ModelGrant>>,
    /// The users of tokens that were assigned and have not ended with their user, its password, or auth.
    pub(super) tokens: BTreeMap<TokenHash, String>,
}

impl ModelGrant {
    fn admits(&self, access: KeyAccess) -> bool {
        let own = if access == KeyAccess::Read { Type::Read } else { Type::Write };
        [own as i32, Type::Readwrite as i32].contains(&self.kind)
    }

    fn has(&self, key: &[u8]) -> bool {
        match &self.end[..] {
            [] => key == self.start,
            [0] => key >= &self.start[..],
            end => key >= &self.start[..] && key < end,
        }
    }

    fn end(&self) -> GrantEnd {
        match &self.end[..] {
            [] => GrantEnd::Before([&self.start[..], &[0]].concat()),
            [0] => GrantEnd::Never,
            end => GrantEnd::Before(end.to_vec()),
        }
    }
}

impl AuthModel {
    /// The auth revision, and whether auth is enabled: two numbers that no other state has.
    pub(crate) fn position(&self) -> (u64, bool) {
        (self.changes + 1, self.is_enabled)
    }

    /// Whether a caller may do something with a key, or with a range if `end` is not empty.
    ///
    /// # Errors
    /// etcd's, if not.
    pub(crate) fn access(
        &self,
        caller: &Caller,
        access: KeyAccess,
        key: &[u8],
        end: &[u8],
    ) -> Result<(), Error> {
        let (name, revision) = match caller {
            _ if !self.is_enabled => return Ok(()),
            Caller::Internal => return Ok(()),
            Caller::Anonymous | Caller::User { revision: 0, .. } => return Err(Error::UserEmpty),
            Caller::User { name, revision } => (name, *revision),
        };
        if revision <= self.changes {
            return Err(Error::AuthOldRevision);
        }
        let roles = self.users.get(&**name).ok_or(Error::PermissionDenied)?;
        let grants = roles.iter().filter_map(|role| self.roles.get(role)).flatten();
        let grants: Vec<&ModelGrant> = grants.filter(|grant| grant.admits(access)).collect();
        match roles.contains(ROOT) || covers(&grants, key, end) {
            true => Ok(()),
            false => Err(Error::PermissionDenied),
        }
    }

    /// Whether a caller may have a request carried out, the keys of its leases left out.
    ///
    /// # Errors
    /// etcd's, if not.
    pub(crate) fn judge(&self, caller: &Caller, request: &ClientRequest) -> Result<(), Error> {
        match request {
            ClientRequest::Put(put) => self.put(caller, put),
            ClientRequest::Delete(delete) => self.delete(caller, delete),
            ClientRequest::Txn(txn) | ClientRequest::ReadTxn(txn) => self.txn(caller, txn),
            ClientRequest::Read(range)
            | ClientRequest::SerializableRead(range)
            | ClientRequest::Stream(range) => {
                self.access(caller, KeyAccess::Read, &range.key, &range.range_end)
            }
            ClientRequest::Grant(_)
            | ClientRequest::Revoke(_)
            | ClientRequest::KeepAlive { .. }
            | ClientRequest::HashKv { .. }
            | ClientRequest::ListLeases => self.any_user(caller),
            // The password says who it is.
            ClientRequest::Auth(command) if matches!(**command, AuthCommand::Authenticate { .. }) => Ok(()),
            ClientRequest::Auth(_) | ClientRequest::Compact(_) | ClientRequest::Disarm(_) => {
                self.root(caller)
            }
        }
    }

    fn put(&self, caller: &Caller, put: &pb::PutRequest) -> Result<(), Error> {
        self.access(caller, KeyAccess::Write, &put.key, &[])?;
        if put.prev_kv { self.access(caller, KeyAccess::Read, &put.key, &[]) } else { Ok(()) }
    }

    fn delete(&self, caller: &Caller, delete: &pb::DeleteRangeRequest) -> Result<(), Error> {
        self.access(caller, KeyAccess::Write, &delete.key, &delete.range_end)?;
        if delete.prev_kv {
            self.access(caller, KeyAccess::Read, &delete.key, &delete.range_end)
        } else {
            Ok(())
        }
    }

    /// All compares, and all operations of both branches.
    fn txn(&self, caller: &Caller, txn: &pb::TxnRequest) -> Result<(), Error> {
        for compare in &txn.compare {
            self.access(caller, KeyAccess::Read, &compare.key, &compare.range_end)?;
        }
        for op in txn.success.iter().chain(&txn.failure) {
            match &op.request {
                Some(Request::RequestRange(range)) => {
                    self.access(caller, KeyAccess::Read, &range.key, &range.range_end)?;
                }
                Some(Request::RequestPut(put)) => self.put(caller, put)?,
                Some(Request::RequestDeleteRange(delete)) => self.delete(caller, delete)?,
                Some(Request::RequestTxn(nested)) => self.txn(caller, nested)?,
                None => {}
            }
        }
        Ok(())
    }

    fn any_user(&self, caller: &Caller) -> Result<(), Error> {
        match caller {
            _ if !self.is_enabled => Ok(()),
            Caller::Internal => Ok(()),
            Caller::Anonymous => Err(Error::UserEmpty),
            Caller::User { name, .. } if self.users.contains_key(&**name) => Ok(()),
            Caller::User { .. } => Err(Error::PermissionDenied),
        }
    }

    /// Whatever the revision of the caller.
    fn root(&self, caller: &Caller) -> Result<(), Error> {
        match caller {
            _ if !self.is_enabled => Ok(()),
            Caller::Internal => Ok(()),
            Caller::Anonymous => Err(Error::UserEmpty),
            Caller::User { name, .. } => match self.users.get(&**name) {
                None => Err(Error::UserNotFound),
                Some(roles) if roles.contains(ROOT) => Ok(()),
                Some(_) => Err(Error::PermissionDenied),
            },
        }
    }

    /// Whether a caller has the role root, or needs none.
    pub(crate) fn is_root(&self, caller: &Caller) -> bool {
        self.root(caller).is_ok()
    }

    /// Carries out a change.
    ///
    /// # Errors
    /// etcd's; nothing has changed.
    pub(crate) fn change(&mut self, command: &AuthCommand) -> Result<(), Error> {
        let before = self.clone();
        let changed = self.try_change(command);
        match changed {
            Ok(is_change) => self.changes += u64::from(is_change),
            Err(_) => *self = before,
        }
        changed.map(drop)
    }

    /// Returns whether the auth revision rises.
    fn try_change(&mut self, command: &AuthCommand) -> Result<bool, Error> {
        let is_enabled = self.is_enabled;
        match command {
            AuthCommand::Authenticate { name, checked_revision, token } => {
                self.authenticate(name, *checked_revision, *token)?;
                return Ok(false);
            }
            AuthCommand::Enable => {
                let root = self.users.get(ROOT).ok_or(Error::RootUserNotFound)?;
                self.is_enabled = is_enabled || root.contains(ROOT);
                return if self.is_enabled { Ok(false) } else { Err(Error::RootRoleNotGranted) };
            }
            AuthCommand::Disable => {
                self.tokens.clear();
                return Ok(std::mem::replace(&mut self.is_enabled, false));
            }
            AuthCommand::UserAdd(request) => {
                let before = self.users.insert(request.name.clone(), BTreeSet::new());
                before.map_or(Ok(()), |_| Err(Error::UserExists))?;
            }
            AuthCommand::UserChangePassword(request) => {
                self.roles_of(&request.name)?;
                self.tokens.retain(|_, user| *user != request.name);
            }
            AuthCommand::UserDelete(request) if is_enabled && request.name == ROOT => {
                return Err(Error::InvalidAuthManagement);
            }
            AuthCommand::UserDelete(request) => {
                self.users.remove(&request.name).ok_or(Error::UserNotFound)?;
                self.tokens.retain(|_, user| *user != request.name);
            }
            AuthCommand::UserGrantRole(request) => {
                let is_role = request.role == ROOT || self.roles.contains_key(&request.role);
                let roles = self.roles_of(&request.user)?;
                return if is_role {
                    Ok(roles.insert(request.role.clone()))
                } else {
                    Err(Error::RoleNotFound)
                };
            }
            AuthCommand::UserRevokeRole(request)
                if is_enabled && request.name == ROOT && request.role == ROOT =>
            {
                return Err(Error::InvalidAuthManagement);
            }
            AuthCommand::UserRevokeRole(request) => {
                let had_it = self.roles_of(&request.name)?.remove(&request.role);
                return if had_it { Ok(true) } else { Err(Error::RoleNotGranted) };
            }
            AuthCommand::RoleAdd(request) => {
                let before = self.roles.insert(request.name.clone(), Vec::new());
                before.map_or(Ok(()), |_| Err(Error::RoleExists))?;
            }
            AuthCommand::RoleDelete(request) if is_enabled && request.role == ROOT => {
                return Err(Error::InvalidAuthManagement);
            }
            AuthCommand::RoleDelete(request) => {
                self.roles.remove(&request.role).ok_or(Error::RoleNotFound)?;
                self.users.values_mut().for_each(|roles| {
                    roles.remove(&request.role);
                });
            }
            AuthCommand::RoleGrantPermission(request) => self.grant(request)?,
            AuthCommand::RoleRevokePermission(request) => {
                let grants = self.roles.get_mut(&request.role).ok_or(Error::RoleNotFound)?;
                let before = grants.len();
                grants.retain(|grant| grant.start != request.key || grant.end != request.range_end);
                return if grants.len() < before { Ok(true) } else { Err(Error::PermissionNotGranted) };
            }
        }
        Ok(true)
    }

    /// The password was checked at an auth revision, which must be this one.
    fn authenticate(&mut self, name: &str, checked: u64, token: Option<TokenHash>) -> Result<(), Error> {
        if !self.is_enabled {
            return Err(Error::AuthNotEnabled);
        }
        if checked != self.changes + 1 {
            return Err(Error::AuthOldRevision);
        }
        self.users.get(name).ok_or(Error::AuthFailed)?;
        self.tokens.extend(token.map(|token| (token, name.to_owned())));
        Ok(())
    }

    fn roles_of(&mut self, user: &str) -> Result<&mut BTreeSet<String>, Error> {
        self.users.get_mut(user).ok_or(Error::UserNotFound)
    }

    /// Of the grants that begin at the same key, etcd compares the first one alone; the others are added behind it.
    fn grant(&mut self, request: &pb::AuthRoleGrantPermissionRequest) -> Result<(), Error> {
        let perm = request.perm.as_ref().ok_or(Error::PermissionNotGiven)?;
        let grants = self.roles.get_mut(&request.name).ok_or(Error::RoleNotFound)?;
        let first = grants.iter_mut().find(|grant| grant.start == perm.key);
        match first.filter(|grant| grant.end == perm.range_end) {
            Some(same) => same.kind = perm.perm_type,
            None => {
                let (start, end) = (perm.key.clone(), perm.range_end.clone());
                grants.push(ModelGrant { start, end, kind: perm.perm_type });
                grants.sort_by(|a, b| a.start.cmp(&b.start));
            }
        }
        Ok(())
    }
}

/// Whether grants cover a key, or together a range: one goes from its start to its end, from grant to grant.
fn covers(grants: &[&ModelGrant], key: &[u8], end: &[u8]) -> bool {
    if end.is_empty() {
        return grants.iter().any(|grant| grant.has(key));
    }
    let mut at = key.to_vec();
    loop {
        let here = grants.iter().filter(|grant| grant.has(&at));
        match here.map(|grant| grant.end()).max() {
            None => return false,
            Some(GrantEnd::Never) => return true,
            Some(GrantEnd::Before(next)) if end != [0] && &next[..] >= end => return true,
            Some(GrantEnd::Before(next)) => at = next,
        }
    }
}
