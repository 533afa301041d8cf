//! Users, roles and the auth revision, with what is derived from them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::ranges::UserRanges;
use super::shared_ranges::SharedRanges;
use super::tokens::{TOKEN_BYTES, TokenHash, TokenLookup, TokenPosition, Tokens};
use super::types::{AuthRole, AuthUser, hash_of_role, hash_of_user, role_bytes, user_bytes};
use super::users::{UserEntry, Users};
use crate::hash::{PartHasher, PartKind};

/// The user that must exist before auth is enabled, and the role that may do everything.
pub(super) const ROOT: &str = "root";

/// The auth revision of a cluster that never had users, as in etcd.
const FIRST_AUTH_REVISION: u64 = 1;

/// A role, and since when it is as it is.
#[derive(Clone, Debug)]
pub(super) struct RoleEntry {
    pub(super) role: Arc<AuthRole>,
    /// The auth revision that its last change has made, at the latest.
    changed_at: u64,
}

/// Users, roles, the auth revision, and the tokens of this process.
#[derive(Debug)]
pub(crate) struct AuthState {
    pub(super) is_enabled: bool,
    pub(super) revision: u64,
    pub(super) users: Users,
    pub(super) roles: Arc<BTreeMap<Arc<str>, RoleEntry>>,
    /// Sum over users and roles, for the state hash.
    hash: u64,
    /// Accounted bytes of users and roles.
    bytes: u64,
    pub(super) tokens: RwLock<Tokens>,
    /// The merged ranges that users hold.
    pub(super) shared_ranges: Mutex<SharedRanges>,
    /// Accounted bytes of all of these.
    merged_bytes: Arc<AtomicU64>,
}

impl Default for AuthState {
    fn default() -> AuthState {
        let merged_bytes = Arc::<AtomicU64>::default();
        AuthState {
            is_enabled: false,
            revision: FIRST_AUTH_REVISION,
            users: Users::default(),
            roles: Arc::default(),
            hash: 0,
            bytes: 0,
            tokens: RwLock::default(),
            shared_ranges: Mutex::new(SharedRanges::new(merged_bytes.clone())),
            merged_bytes,
        }
    }
}

impl AuthState {
    /// Whether permissions are demanded.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// The auth revision; it rises with every change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether there never was a change.
    pub(crate) fn is_untouched(&self) -> bool {
        self.revision == FIRST_AUTH_REVISION
    }

    /// A user.
    pub(crate) fn user(&self, name: &str) -> Option<&AuthUser> {
        self.users.get(name).map(|entry| &*entry.user)
    }

    /// All users, by name.
    pub(crate) fn users(&self) -> impl ExactSizeIterator<Item = &AuthUser> {
        self.users.iter()
    }

    /// A role.
    pub(crate) fn role(&self, name: &str) -> Option<&AuthRole> {
        self.roles.get(name).map(|entry| &*entry.role)
    }

    /// All roles, by name.
    pub(crate) fn roles(&self) -> impl ExactSizeIterator<Item = &AuthRole> {
        self.roles.values().map(|entry| &*entry.role)
    }

    /// Whether a user exists and has a role.
    pub(crate) fn has_role(&self, user: &str, role: &str) -> bool {
        self.user(user).is_some_and(|user| user.has_role(role))
    }

    /// A user with its merged ranges.
    pub(super) fn entry(&self, user: &str) -> Option<&UserEntry> {
        self.users.get(user)
    }

    /// The merged ranges of a user's roles. Those that were merged before are good as long as none of these roles has
    /// changed; a change of the user makes a new entry.
    pub(super) fn ranges_of(&self, entry: &UserEntry) -> Arc<UserRanges> {
        let known = entry.merged.read().clone();
        if let Some((revision, ranges)) = &known
            && *revision == self.revision
        {
            return ranges.clone();
        }
        let names = &entry.user.roles;
        let roles = || names.iter().filter_map(|name| self.roles.get(name.as_str()));
        let is_good = |revision: u64| roles().all(|own| own.changed_at <= revision);
        let ranges = match known {
            Some((revision, ranges)) if is_good(revision) => ranges,
            _ => {
                let merge = || UserRanges::of(roles().flat_map(|own| &own.role.permissions));
                self.shared_ranges.lock().of(names, self.revision, is_good, merge)
            }
        };
        *entry.merged.write() = Some((self.revision, ranges.clone()));
        ranges
    }

    /// Whose token this is. See [`crate::Reader::token`].
    pub(crate) fn token(&self, hash: &TokenHash, index: u64, now_s: u64, ttl_s: u64) -> TokenLookup {
        match self.tokens.read().user(hash, index, now_s, ttl_s) {
            Some(name) => TokenLookup::User { name, revision: self.revision },
            None => TokenLookup::Unknown,
        }
    }

    /// Ends some of the tokens that were not used. See [`crate::Reader::expire_tokens`].
    pub(crate) fn expire_tokens(&self, from: TokenPosition, now_s: u64, ttl_s: u64) -> Option<TokenPosition> {
        self.tokens.write().expire(from, now_s, ttl_s)
    }

    /// Ends all tokens.
    pub(crate) fn forget_tokens(&mut self) {
        *self.tokens.write() = Tokens::default();
    }

    /// Adds or replaces a user.
    pub(super) fn put_user(&mut self, user: AuthUser) {
        self.add(hash_of_user(&user), user_bytes(&user));
        let is_root = user.has_role(ROOT);
        let entry = UserEntry { user: Arc::new(user), is_root, merged: RwLock::default() };
        if let Some(old) = self.users.insert(entry) {
            self.subtract(hash_of_user(&old.user), user_bytes(&old.user));
        }
    }

    /// Adds or replaces a role.
    pub(super) fn put_role(&mut self, role: AuthRole) {
        self.add(hash_of_role(&role), role_bytes(&role));
        let (name, changed_at) = (role.name.as_str().into(), self.revision + 1);
        let entry = RoleEntry { role: Arc::new(role), changed_at };
        if let Some(old) = Arc::make_mut(&mut self.roles).insert(name, entry) {
            self.subtract(hash_of_role(&old.role), role_bytes(&old.role));
        }
    }

    fn add(&mut self, hash: u64, bytes: u64) {
        self.hash = self.hash.wrapping_add(hash);
        self.bytes += bytes;
    }

    pub(super) fn subtract(&mut self, hash: u64, bytes: u64) {
        self.hash = self.hash.wrapping_sub(hash);
        self.bytes -= bytes;
    }

    /// Restores what a checkpoint has.
    pub(crate) fn restore(
        &mut self,
        is_enabled: bool,
        revision: u64,
        users: impl IntoIterator<Item = AuthUser>,
        roles: impl IntoIterator<Item = AuthRole>,
    ) {
        *self = AuthState { is_enabled, revision, ..AuthState::default() };
        users.into_iter().for_each(|user| self.put_user(user));
        roles.into_iter().for_each(|role| self.put_role(role));
    }

    /// Its term of the state hash; 0 as long as there never was a change, as in releases without auth.
    pub(crate) fn hash(&self) -> u64 {
        if self.is_untouched() {
            return 0;
        }
        let small = PartHasher::new(PartKind::Auth).number(u64::from(self.is_enabled)).number(self.revision);
        self.hash.wrapping_add(small.finish())
    }

    /// [Accounted](crate::memory) bytes.
    pub(crate) fn accounted_bytes(&self) -> u64 {
        // Not the lock: who holds it may be merging the ranges of a large role.
        let merged = self.merged_bytes.load(Ordering::Relaxed);
        self.bytes + merged + self.tokens.read().len() as u64 * TOKEN_BYTES
    }

    /// Recomputes what is maintained: the sums over users and roles.
    ///
    /// # Panics
    /// When one of them is wrong.
    pub(crate) fn check(&self) {
        let users = self.users().fold(0u64, |sum, user| sum.wrapping_add(hash_of_user(user)));
        let all = self.roles().fold(users, |sum, role| sum.wrapping_add(hash_of_role(role)));
        assert_eq!(self.hash, all, "the incremental hash of users and roles is exact");
        let bytes = self.users().map(user_bytes).sum::<u64>() + self.roles().map(role_bytes).sum::<u64>();
        assert_eq!(self.bytes, bytes, "the memory of users and roles is accounted");
    }
}
