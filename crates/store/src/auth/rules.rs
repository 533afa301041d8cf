//! The rules for changing users and roles: those of etcd, with its errors.

use std::sync::Arc;

use api::Error;
use api::authpb;
use api::etcdserverpb as pb;
use bytes::Bytes;

use super::state::{AuthState, ROOT, RoleEntry};
use super::tokens::TokenHash;
use super::types::{
    AuthCommand, AuthRole, AuthUser, RangePermission, hash_of_role, hash_of_user, role_bytes, user_bytes,
};

impl AuthState {
    /// Carries out a command of the entry `index`, whose caller was checked.
    ///
    /// # Errors
    /// etcd's, for what cannot be done. The state is as before.
    pub(crate) fn apply(&mut self, command: AuthCommand, index: u64) -> Result<(), Error> {
        match command {
            AuthCommand::Authenticate { name, checked_revision, token } => {
                self.authenticate(&name, checked_revision, token, index)
            }
            AuthCommand::Enable => self.enable(),
            AuthCommand::Disable => {
                if std::mem::replace(&mut self.is_enabled, false) {
                    self.revision += 1;
                    self.forget_tokens();
                }
                Ok(())
            }
            AuthCommand::UserAdd(request) => self.user_add(request),
            AuthCommand::UserChangePassword(request) => self.user_change_password(request),
            AuthCommand::UserDelete(request) => self.user_delete(&request.name),
            AuthCommand::UserGrantRole(request) => self.user_grant_role(&request.user, request.role),
            AuthCommand::UserRevokeRole(request) => self.user_revoke_role(&request.name, &request.role),
            AuthCommand::RoleAdd(request) => self.role_add(request.name),
            AuthCommand::RoleDelete(request) => self.role_delete(&request.role),
            AuthCommand::RoleGrantPermission(request) => self.role_grant_permission(request),
            AuthCommand::RoleRevokePermission(request) => self.role_revoke_permission(&request),
        }
    }

    fn authenticate(
        &mut self,
        name: &str,
        checked_revision: u64,
        token: Option<TokenHash>,
        index: u64,
    ) -> Result<(), Error> {
        if !self.is_enabled {
            return Err(Error::AuthNotEnabled);
        }
        if checked_revision != self.revision {
            return Err(Error::AuthOldRevision);
        }
        let Some(name) = self.users.shared_name(name).filter(|name| !self.no_password(name)) else {
            return Err(Error::AuthFailed);
        };
        if let Some(token) = token {
            self.tokens.write().assign(name, token, index);
        }
        Ok(())
    }

    /// Whether a user cannot authenticate by a password.
    fn no_password(&self, name: &str) -> bool {
        self.user(name).is_none_or(|user| user.no_password)
    }

    /// As in etcd, enabling changes no revision.
    fn enable(&mut self) -> Result<(), Error> {
        if self.is_enabled {
            return Ok(());
        }
        if self.user(ROOT).is_none() {
            return Err(Error::RootUserNotFound);
        }
        if !self.has_role(ROOT, ROOT) {
            return Err(Error::RootRoleNotGranted);
        }
        self.is_enabled = true;
        Ok(())
    }

    fn user_add(&mut self, request: pb::AuthUserAddRequest) -> Result<(), Error> {
        let pb::AuthUserAddRequest { name, options, hashed_password, .. } = request;
        if name.is_empty() {
            return Err(Error::UserEmpty);
        }
        if self.users.contains(&name) {
            return Err(Error::UserExists);
        }
        let no_password = options.is_some_and(|options| options.no_password);
        let password = if no_password { Bytes::new() } else { hashed_password.into_bytes().into() };
        self.put_user(AuthUser { name, password, no_password, roles: Vec::new() });
        self.revision += 1;
        Ok(())
    }

    fn user_change_password(&mut self, request: pb::AuthUserChangePasswordRequest) -> Result<(), Error> {
        let mut user = self.user(&request.name).cloned().ok_or(Error::UserNotFound)?;
        user.password = match user.no_password {
            true => Bytes::new(),
            false => request.hashed_password.into_bytes().into(),
        };
        self.tokens.write().forget(&user.name);
        self.put_user(user);
        self.revision += 1;
        Ok(())
    }

    fn user_delete(&mut self, name: &str) -> Result<(), Error> {
        if self.is_enabled && name == ROOT {
            return Err(Error::InvalidAuthManagement);
        }
        let entry = self.users.remove(name).ok_or(Error::UserNotFound)?;
        self.subtract(hash_of_user(&entry.user), user_bytes(&entry.user));
        self.tokens.write().forget(name);
        self.revision += 1;
        Ok(())
    }

    fn user_grant_role(&mut self, name: &str, role: String) -> Result<(), Error> {
        let mut user = self.user(name).cloned().ok_or(Error::UserNotFound)?;
        if role != ROOT && !self.roles.contains_key(role.as_str()) {
            return Err(Error::RoleNotFound);
        }
        if let Err(position) = user.roles.binary_search(&role) {
            user.roles.insert(position, role);
            self.put_user(user);
            self.revision += 1;
        }
        Ok(())
    }

    fn user_revoke_role(&mut self, name: &str, role: &str) -> Result<(), Error> {
        if self.is_enabled && name == ROOT && role == ROOT {
            return Err(Error::InvalidAuthManagement);
        }
        let mut user = self.user(name).cloned().ok_or(Error::UserNotFound)?;
        let position = user.roles.iter().position(|own| own == role).ok_or(Error::RoleNotGranted)?;
        user.roles.remove(position);
        self.put_user(user);
        self.revision += 1;
        Ok(())
    }

    fn role_add(&mut self, name: String) -> Result<(), Error> {
        if name.is_empty() {
            return Err(Error::RoleEmpty);
        }
        if self.roles.contains_key(name.as_str()) {
            return Err(Error::RoleExists);
        }
        self.put_role(AuthRole { name, permissions: Vec::new() });
        self.revision += 1;
        Ok(())
    }

    fn role_delete(&mut self, name: &str) -> Result<(), Error> {
        if self.is_enabled && name == ROOT {
            return Err(Error::InvalidAuthManagement);
        }
        if !self.roles.contains_key(name) {
            return Err(Error::RoleNotFound);
        }
        let removed = Arc::make_mut(&mut self.roles).remove(name);
        let RoleEntry { role, .. } = removed.ok_or(Error::RoleNotFound)?;
        self.subtract(hash_of_role(&role), role_bytes(&role));
        let has_it = |user: &&AuthUser| self.has_role(&user.name, name);
        let users: Vec<AuthUser> = self.users().filter(has_it).cloned().collect();
        for mut user in users {
            user.roles.retain(|own| own != name);
            self.put_user(user);
        }
        self.revision += 1;
        Ok(())
    }

    fn role_grant_permission(&mut self, request: pb::AuthRoleGrantPermissionRequest) -> Result<(), Error> {
        let permission = request.perm.ok_or(Error::PermissionNotGiven)?;
        let authpb::Permission { key: start, range_end: end, perm_type: kind } = permission;
        let is_range = end.is_empty() || end[..] == [0] || start < end;
        if start.is_empty() || !is_range {
            return Err(Error::InvalidAuthManagement);
        }
        let mut role = self.role(&request.name).cloned().ok_or(Error::RoleNotFound)?;
        let position = role.permissions.partition_point(|own| own.start < start);
        // As in etcd, of the permissions that begin here only the first one is compared.
        match role.permissions.get_mut(position) {
            Some(own) if own.start == start && own.end == end => own.kind = kind,
            _ => {
                let behind = role.permissions.partition_point(|own| own.start <= start);
                role.permissions.insert(behind, RangePermission { start, end, kind });
            }
        }
        self.put_role(role);
        self.revision += 1;
        Ok(())
    }

    fn role_revoke_permission(&mut self, request: &pb::AuthRoleRevokePermissionRequest) -> Result<(), Error> {
        let mut role = self.role(&request.role).cloned().ok_or(Error::RoleNotFound)?;
        let before = role.permissions.len();
        role.permissions.retain(|own| own.start != request.key || own.end != request.range_end);
        if role.permissions.len() == before {
            return Err(Error::PermissionNotGranted);
        }
        self.put_role(role);
        self.revision += 1;
        Ok(())
    }
}
