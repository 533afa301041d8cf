//! Callers, and what they may do in a state.

use std::sync::Arc;

use api::Error;

use super::ranges::UserRanges;
use super::state::AuthState;

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// The cluster itself, as when a lease expires: it may do everything.
    Internal,
    /// A client that did not say who it is.
    #[default]
    Anonymous,
    /// A user.
    User {
        /// Its name.
        name: Arc<str>,
        /// The auth revision at which the token was looked at, or that a signed token names.
        revision: u64,
    },
}

impl Caller {
    /// The same user, by the permissions of the present state, whatever the auth revision is by now: for what goes on
    /// while users and roles change.
    #[must_use]
    pub fn at_present(self) -> Caller {
        match self {
            Caller::User { name, .. } => Caller::User { name, revision: u64::MAX },
            other => other,
        }
    }
}

/// What a caller may do with keys, in one state.
#[derive(Clone, Debug)]
pub(crate) enum Permit {
    /// Everything: auth is disabled, or the caller has the role root.
    All,
    /// Nothing, for this reason.
    Refused(Error),
    /// What these ranges cover.
    Ranges(Arc<UserRanges>),
}

impl Permit {
    /// Whether the caller may read a key, or the range up to `end` if that is not empty.
    ///
    /// # Errors
    /// [`Error::PermissionDenied`], or why the caller may do nothing.
    pub(crate) fn read(&self, start: &[u8], end: &[u8]) -> Result<(), Error> {
        self.covers(|ranges| ranges.read.covers(start, end))
    }

    /// Whether the caller may write a key, or delete the range up to `end` if that is not empty.
    ///
    /// # Errors
    /// As [`Permit::read`].
    pub(crate) fn write(&self, start: &[u8], end: &[u8]) -> Result<(), Error> {
        self.covers(|ranges| ranges.write.covers(start, end))
    }

    fn covers(&self, covers: impl FnOnce(&UserRanges) -> bool) -> Result<(), Error> {
        match self {
            Permit::All => Ok(()),
            Permit::Refused(error) => Err(*error),
            Permit::Ranges(ranges) if covers(ranges) => Ok(()),
            Permit::Ranges(_) => Err(Error::PermissionDenied),
        }
    }
}

impl AuthState {
    /// What a caller may do with keys.
    pub(crate) fn permit(&self, caller: &Caller) -> Permit {
        if !self.is_enabled() {
            return Permit::All;
        }
        match caller {
            Caller::Internal => Permit::All,
            // As in etcd, a signed token without a revision belongs to no user.
            Caller::Anonymous | Caller::User { revision: 0, .. } => Permit::Refused(Error::UserEmpty),
            Caller::User { revision, .. } if *revision < self.revision() => {
                Permit::Refused(Error::AuthOldRevision)
            }
            Caller::User { name, .. } => match self.entry(name) {
                None => Permit::Refused(Error::PermissionDenied),
                Some(entry) if entry.is_root => Permit::All,
                Some(entry) => Permit::Ranges(self.ranges_of(entry)),
            },
        }
    }

    /// Whether a caller has the role root, or auth is disabled. As in etcd its revision does not matter: the role is
    /// that of the present state.
    ///
    /// # Errors
    /// [`Error::UserEmpty`], [`Error::UserNotFound`], [`Error::PermissionDenied`]
    pub(crate) fn check_root(&self, caller: &Caller) -> Result<(), Error> {
        match caller {
            _ if !self.is_enabled() => Ok(()),
            Caller::Internal => Ok(()),
            Caller::Anonymous => Err(Error::UserEmpty),
            Caller::User { name, .. } if name.is_empty() => Err(Error::UserEmpty),
            Caller::User { name, .. } if self.user(name).is_none() => Err(Error::UserNotFound),
            Caller::User { name, .. } if self.has_role(name, super::state::ROOT) => Ok(()),
            Caller::User { .. } => Err(Error::PermissionDenied),
        }
    }

    /// Whether a caller is a user, or auth is disabled.
    ///
    /// # Errors
    /// [`Error::UserEmpty`]; [`Error::PermissionDenied`] for a user that does not exist.
    pub(crate) fn check_user(&self, caller: &Caller) -> Result<(), Error> {
        match caller {
            _ if !self.is_enabled() => Ok(()),
            Caller::Internal => Ok(()),
            Caller::Anonymous => Err(Error::UserEmpty),
            Caller::User { name, .. } if self.user(name).is_none() => Err(Error::PermissionDenied),
            Caller::User { .. } => Ok(()),
        }
    }
}
