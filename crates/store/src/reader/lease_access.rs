//! Whether a caller may renew a lease, or learn which leases there are: it may write, or read, all of their keys.
//!
//! Leases may have many keys, so they are visited in bounded steps, between which others run. The keys change between
//! the steps. A key that is attached all the time is visited; one that is attached during the check may be missed, as
//! if the call had come before. A command in progress has attached and detached nothing until its end.

use api::Error;

use super::handle::Reader;
use crate::auth::{Caller, Permit};

/// A check of the keys of some leases.
pub struct LeaseAccess {
    reader: Reader,
    caller: Caller,
    /// Whether the caller must be allowed to write the keys, not to read them.
    is_to_write: bool,
    /// The leases that are left.
    leases: std::vec::IntoIter<i64>,
    /// The first slot of the first of them that was not visited.
    next_slot: u32,
    /// The state that the slot belongs to, by the number of snapshots installed before it.
    installs: u64,
}

impl Reader {
    /// Begins to check whether a caller may renew a lease.
    pub fn access_to_renew(&self, caller: Caller, lease: i64) -> LeaseAccess {
        self.access(caller, true, vec![lease])
    }

    /// Begins to check whether a caller may know of these leases.
    pub fn access_to_list(&self, caller: Caller, leases: Vec<i64>) -> LeaseAccess {
        self.access(caller, false, leases)
    }

    fn access(&self, caller: Caller, is_to_write: bool, leases: Vec<i64>) -> LeaseAccess {
        let leases = leases.into_iter();
        LeaseAccess { reader: self.clone(), caller, is_to_write, leases, next_slot: 0, installs: 0 }
    }
}

impl LeaseAccess {
    /// Visits [`Limits::chunk_keys`](crate::Limits::chunk_keys) keys and leases in one hold of the lock. Returns
    /// whether all were visited, and are permitted.
    ///
    /// # Errors
    /// [`Error::UserEmpty`], [`Error::AuthOldRevision`], [`Error::PermissionDenied`]
    pub fn step(&mut self) -> Result<bool, Error> {
        if !self.reader.is_auth_enabled() {
            return Ok(true);
        }
        let state = self.reader.shared.state.read();
        if state.installs != self.installs {
            (self.installs, self.next_slot) = (state.installs, 0);
        }
        if self.is_to_write {
            state.auth.check_user(&self.caller)?;
        }
        if state.auth.check_root(&self.caller).is_ok() {
            return Ok(true);
        }
        let permit = state.auth.permit(&self.caller);
        let mut left = self.reader.shared.limits.chunk_keys;
        while let Some(lease) = self.leases.as_slice().first().copied() {
            let known = match &permit {
                Permit::Ranges(ranges) if self.is_to_write => state.lessor.unchecked_from(lease, ranges),
                _ => 0,
            };
            for slot in state.lease_slots_from(lease, self.next_slot.max(known)) {
                if left == 0 {
                    self.next_slot = slot;
                    return Ok(false);
                }
                left -= 1;
                let Some(key) = state.key_attached(lease, slot) else { continue };
                if self.is_to_write { permit.write(&key, &[])? } else { permit.read(&key, &[])? }
            }
            self.leases.next();
            self.next_slot = 0;
            left = left.saturating_sub(1);
            if left == 0 {
                break;
            }
        }
        Ok(self.leases.as_slice().is_empty())
    }
}
