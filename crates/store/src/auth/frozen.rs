//! Users and roles as they were at one moment, read without the store's lock while they change.
//!
//! A checkpoint and a backup hold the state as of one entry, and listings need not hold others up. To take this copies
//! two pointers. The first change of a user while it is held copies the map of the users: two pointers for each, to its
//! name and to the user, which themselves are not copied. The same for roles:
//!
//! ```text
//! freeze          shares users {ann, bob}
//! delete bob      copies the map: users {ann}         what was taken has {ann, bob}
//! delete ann      users {}, nothing is copied
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{AuthState, RoleEntry};
use super::types::{AuthRole, AuthUser};

/// Users and roles as they were when this was made.
pub(crate) struct FrozenAuth {
    /// Whether permissions were demanded.
    pub(crate) is_enabled: bool,
    /// The auth revision.
    pub(crate) revision: u64,
    users: Arc<BTreeMap<Arc<str>, Arc<AuthUser>>>,
    roles: Arc<BTreeMap<Arc<str>, RoleEntry>>,
}

impl AuthState {
    /// Users and roles as they are.
    pub(crate) fn freeze(&self) -> FrozenAuth {
        let (users, roles) = (self.users.shared(), self.roles.clone());
        FrozenAuth { is_enabled: self.is_enabled, revision: self.revision, users, roles }
    }
}

impl FrozenAuth {
    /// All users, by name.
    pub(crate) fn users(&self) -> impl ExactSizeIterator<Item = &AuthUser> {
        self.users.values().map(|user| &**user)
    }

    /// All roles, by name.
    pub(crate) fn roles(&self) -> impl ExactSizeIterator<Item = &AuthRole> {
        self.roles.values().map(|entry| &*entry.role)
    }
}
