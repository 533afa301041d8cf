//! Who a caller is, what it may do, and users and roles for their listings.
//!
//! A read is checked before, and its caller again after it. Permissions that changed in between may have changed before
//! what was read, so the read is refused, and its client asks again:
//!
//! ```text
//! reader                           apply
//! check_range(ann at 4, k): ok
//!                                  revoke k from ann (auth revision 5), put k "secret"
//! read k -> "secret"
//! check_unchanged(ann at 4): revision is old, nothing is sent
//! ```

use api::Error;
use api::etcdserverpb as pb;

use super::handle::Reader;
use crate::auth::{AuthRole, AuthUser, Caller, FrozenAuth, TokenHash, TokenLookup, TokenPosition, check_txn};

impl Reader {
    /// Whether permissions are demanded.
    pub fn is_auth_enabled(&self) -> bool {
        self.shared.is_auth_enabled()
    }

    /// The auth revision.
    pub fn auth_revision(&self) -> u64 {
        self.shared.auth_revision()
    }

    /// The auth revision, and whether auth is enabled, which does not raise it: what was permitted at the same number
    /// is still permitted.
    pub fn auth_shown(&self) -> u64 {
        self.auth_revision() << 1 | u64::from(self.is_auth_enabled())
    }

    /// Whose token this is. `index` is the entry that assigned it, as the token says. A token that was not used for
    /// longer than `ttl_s` seconds has ended; this use is at `now_s`, in seconds of a clock that never goes back.
    pub fn token(&self, hash: &TokenHash, index: u64, now_s: u64, ttl_s: u64) -> TokenLookup {
        let state = self.shared.state.read();
        match state.auth.token(hash, index, now_s, ttl_s) {
            TokenLookup::Unknown if state.applied.index < index => TokenLookup::NotApplied,
            found => found,
        }
    }

    /// Who a caller with a simple token is; the parameters are those of [`Reader::token`]. While auth is disabled, all
    /// are anonymous. `None` if the entry that assigned the token is not applied here: a client has the token, so it is
    /// after a linearizable read.
    pub fn caller_with_token(
        &self,
        hash: &TokenHash,
        index: u64,
        now_s: u64,
        ttl_s: u64,
    ) -> Option<Result<Caller, Error>> {
        if !self.is_auth_enabled() {
            return Some(Ok(Caller::Anonymous));
        }
        match self.token(hash, index, now_s, ttl_s) {
            TokenLookup::User { name, revision } => Some(Ok(Caller::User { name, revision })),
            TokenLookup::Unknown => Some(Err(Error::InvalidAuthToken)),
            TokenLookup::NotApplied => None,
        }
    }

    /// Ends the tokens that were not used for longer than `ttl_s`, among the next few from `from` on in the order
    /// they were assigned, in one hold of the lock. Returns where to go on; `None` at the end.
    pub fn expire_tokens(&self, from: TokenPosition, now_s: u64, ttl_s: u64) -> Option<TokenPosition> {
        self.shared.state.read().auth.expire_tokens(from, now_s, ttl_s)
    }

    /// Whether a caller has the role root, or auth is disabled.
    ///
    /// # Errors
    /// [`Error::UserEmpty`], [`Error::UserNotFound`], [`Error::PermissionDenied`]
    pub fn check_root(&self, caller: &Caller) -> Result<(), Error> {
        if !self.is_auth_enabled() {
            return Ok(());
        }
        self.shared.state.read().auth.check_root(caller)
    }

    /// Whether a caller may see a user's roles: as root, or its own.
    ///
    /// # Errors
    /// As [`Reader::check_root`].
    pub fn check_user_get(&self, caller: &Caller, user: &str) -> Result<(), Error> {
        match caller {
            Caller::User { name, .. } if **name == *user => Ok(()),
            // As in etcd, a caller without a name may see the user without a name. There is none.
            Caller::Anonymous if user.is_empty() => Err(Error::UserNotFound),
            _ => self.check_root(caller),
        }
    }

    /// Whether a caller may see a role's permissions: as root, or having the role.
    ///
    /// # Errors
    /// As [`Reader::check_root`].
    pub fn check_role_get(&self, caller: &Caller, role: &str) -> Result<(), Error> {
        let state = self.shared.state.read();
        let has_it = matches!(caller, Caller::User { name, .. } if state.auth.has_role(name, role));
        if has_it { Ok(()) } else { state.auth.check_root(caller) }
    }

    /// Whether a caller may read a key, or the range up to `end` if that is not empty.
    ///
    /// # Errors
    /// [`Error::UserEmpty`], [`Error::AuthOldRevision`], [`Error::PermissionDenied`]
    pub fn check_range(&self, caller: &Caller, start: &[u8], end: &[u8]) -> Result<(), Error> {
        if !self.is_auth_enabled() {
            return Ok(());
        }
        let permit = self.shared.state.read().auth.permit(caller);
        permit.read(start, end)
    }

    /// Whether a caller may carry out a transaction that attaches no lease, with all that is nested in it.
    ///
    /// # Errors
    /// As [`Reader::check_range`].
    pub fn check_txn(&self, caller: &Caller, request: &pb::TxnRequest) -> Result<(), Error> {
        if !self.is_auth_enabled() {
            return Ok(());
        }
        let permit = self.shared.state.read().auth.permit(caller);
        check_txn(&permit, request)
    }

    /// Whether permissions are those at which the caller was looked up. To be asked after a read that was permitted.
    ///
    /// # Errors
    /// [`Error::AuthOldRevision`]; [`Error::UserEmpty`] if auth was enabled meanwhile.
    pub fn check_unchanged(&self, caller: &Caller) -> Result<(), Error> {
        match caller {
            Caller::Internal => Ok(()),
            Caller::Anonymous if self.is_auth_enabled() => Err(Error::UserEmpty),
            Caller::User { revision, .. } if *revision != self.auth_revision() => Err(Error::AuthOldRevision),
            Caller::Anonymous | Caller::User { .. } => Ok(()),
        }
    }

    /// A user.
    pub fn auth_user(&self, name: &str) -> Option<AuthUser> {
        self.shared.state.read().auth.user(name).cloned()
    }

    /// The names of all users, in order.
    pub fn auth_users(&self) -> Vec<String> {
        self.frozen().users().map(|user| user.name.clone()).collect()
    }

    /// A role.
    pub fn auth_role(&self, name: &str) -> Option<AuthRole> {
        self.shared.state.read().auth.role(name).cloned()
    }

    /// The names of all roles, in order.
    pub fn auth_roles(&self) -> Vec<String> {
        self.frozen().roles().map(|role| role.name.clone()).collect()
    }

    /// Users and roles as they are, for reading them without the lock.
    fn frozen(&self) -> FrozenAuth {
        self.shared.state.read().auth.freeze()
    }
}
