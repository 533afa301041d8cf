//! The keys of a lease, collected in bounded steps.
//!
//! Attachments have no history, so what is found is not the state of one moment: a key that is attached or detached
//! meanwhile may be found or not. A key that is attached all the time is found, because it keeps its slot. A command
//! in progress has attached and detached nothing until its end. If a snapshot replaces the state meanwhile, the walk
//! begins again.

use api::Error;
use bytes::Bytes;

use super::handle::Reader;
use crate::auth::Caller;

/// A walk over the keys of a lease.
pub struct LeaseKeyScan {
    reader: Reader,
    lease: i64,
    /// The first slot that was not examined.
    next_slot: u32,
    keys: Vec<Bytes>,
    /// The state that the slots belong to, by the number of snapshots installed before it.
    installs: u64,
}

impl Reader {
    /// Begins to collect the keys that are attached to a lease.
    pub fn lease_keys(&self, lease: i64) -> LeaseKeyScan {
        let installs = self.shared.state.read().installs;
        LeaseKeyScan { reader: self.clone(), lease, next_slot: 0, keys: Vec::new(), installs }
    }
}

impl LeaseKeyScan {
    /// Examines [`Limits::chunk_keys`](crate::Limits::chunk_keys) keys in one hold of the lock. Returns all keys, in
    /// key order, once the walk is complete; without such a lease there are none.
    pub fn step(&mut self) -> Option<Vec<Bytes>> {
        // Who may do everything is refused nothing.
        self.step_as(&Caller::Internal).unwrap_or_default()
    }

    /// The same for a caller who must be allowed to read each key.
    ///
    /// # Errors
    /// [`Error::UserEmpty`], [`Error::AuthOldRevision`], [`Error::PermissionDenied`]
    pub fn step_as(&mut self, caller: &Caller) -> Result<Option<Vec<Bytes>>, Error> {
        let max_keys = self.reader.shared.limits.chunk_keys;
        let state = self.reader.shared.state.read();
        if state.installs != self.installs {
            (self.installs, self.next_slot) = (state.installs, 0);
            self.keys.clear();
        }
        let permit = state.auth.permit(caller);
        let mut slots = state.lease_slots_from(self.lease, self.next_slot);
        let found = slots.by_ref().take(max_keys);
        for key in found.filter_map(|slot| state.key_attached(self.lease, slot)) {
            permit.read(&key, &[])?;
            self.keys.push(Bytes::copy_from_slice(&key));
        }
        if let Some(next) = slots.next() {
            self.next_slot = next;
            return Ok(None);
        }
        drop(slots);
        drop(state);
        let mut keys = std::mem::take(&mut self.keys);
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(keys))
    }
}
