//! All leases, for a caller who may read every key of each of them.
//!
//! As in etcd, a lease with a key that the caller may not read hides all. Leases come and go between the steps: one
//! that is there all the time is listed.

use api::Error;

use crate::auth::Caller;
use crate::reader::{LeaseAccess, Reader};

/// A listing of the leases, in steps that hold the store's lock for a bounded time.
pub struct LeaseListing {
    reader: Reader,
    caller: Caller,
    /// Most leases that are copied in one step.
    max_leases: usize,
    found: Vec<i64>,
    /// The first id that was not looked at; `None` at the end.
    next: Option<i64>,
    /// The check of the leases that were found last.
    access: Option<LeaseAccess>,
}

impl Reader {
    /// Begins to list the leases, at most `max_leases` in a step. The caller was looked up a moment ago.
    pub fn list_leases(&self, caller: Caller, max_leases: usize) -> LeaseListing {
        LeaseListing {
            reader: self.clone(),
            caller,
            max_leases: max_leases.max(1),
            found: Vec::new(),
            next: Some(i64::MIN),
            access: None,
        }
    }
}

impl LeaseListing {
    /// Does the next step. Returns the ids of all leases in order, once they were all found and are permitted.
    ///
    /// # Errors
    /// [`Error::UserEmpty`], [`Error::PermissionDenied`]; [`Error::AuthOldRevision`] when users or roles have changed
    /// since the caller was looked up.
    pub fn step(&mut self) -> Result<Option<Vec<i64>>, Error> {
        if let Some(access) = &mut self.access {
            if access.step()? {
                self.access = None;
            }
            return Ok(None);
        }
        let Some(from) = self.next else {
            self.reader.check_unchanged(&self.caller)?;
            return Ok(Some(std::mem::take(&mut self.found)));
        };
        let found = self.reader.leases(from, self.max_leases);
        let last = found.last().filter(|_| found.len() == self.max_leases);
        self.next = last.and_then(|last| last.id.checked_add(1));
        let ids: Vec<i64> = found.iter().map(|lease| lease.id).collect();
        self.found.extend_from_slice(&ids);
        self.access = Some(self.reader.access_to_list(self.caller.clone(), ids));
        Ok(None)
    }
}
