//! The replicated part of leases: which there are, what TTL each was granted, what remainder was recorded,
//! and which keys hang on it.
//!
//! No clock: deadlines belong to `member`, which renews and expires. Here a lease only comes, goes, and
//! collects keys, so a million idle leases cost memory and nothing else. The lease of a key is kept with the
//! key's version; this module knows the other direction, as slots of the index.

use std::collections::{BTreeMap, BTreeSet};

use api::Error;

use crate::hash::{Part, PartHash};

#[cfg(test)]
mod tests;

/// The longest TTL that may be granted, in seconds; etcd's, about 285 years.
pub const MAX_LEASE_TTL: i64 = 9_000_000_000;

/// A lease as others may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// The lease.
    pub id: i64,
    /// Granted TTL in seconds.
    pub ttl: i64,
    /// Recorded remaining seconds, 0 when none is recorded and the full TTL counts.
    pub remaining: i64,
}

/// A lease with the slots of its keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    ttl: i64,
    remaining: i64,
    /// Slots of the live keys attached.
    slots: BTreeSet<u32>,
}

/// All leases, by id.
#[derive(Default)]
pub(crate) struct Lessor {
    leases: BTreeMap<i64, Lease>,
    /// Sum over all leases, for the state hash.
    hash: u64,
}

impl Lessor {
    /// Grants a lease; returns its TTL, at least 1.
    pub(crate) fn grant(&mut self, id: i64, ttl: i64) -> Result<i64, Error> {
        if id == 0 {
            return Err(Error::LeaseNotFound);
        }
        if ttl > MAX_LEASE_TTL {
            return Err(Error::LeaseTtlTooLarge);
        }
        if self.leases.contains_key(&id) {
            return Err(Error::LeaseExists);
        }
        let ttl = ttl.max(1);
        self.restore(LeaseInfo { id, ttl, remaining: 0 });
        Ok(ttl)
    }

    /// Ends a lease; returns the slots of its keys, in no useful order.
    pub(crate) fn revoke(&mut self, id: i64) -> Result<Vec<u32>, Error> {
        let lease = self.forget(id).ok_or(Error::LeaseNotFound)?;
        Ok(lease.slots.into_iter().collect())
    }

    /// Records remaining seconds, at most the TTL; returns what was recorded, `None` when there is no such
    /// lease.
    pub(crate) fn checkpoint(&mut self, id: i64, remaining: i64) -> Option<i64> {
        let lease = self.leases.get_mut(&id)?;
        let before = part(&info(id, lease));
        lease.remaining = remaining.clamp(0, lease.ttl);
        let after = part(&info(id, lease));
        self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
        Some(lease.remaining)
    }

    /// Moves the key in `slot` from one lease to another; 0 is none. Leases that are gone are skipped.
    pub(crate) fn reattach(&mut self, slot: u32, from: i64, to: i64) {
        if from == to {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&from) {
            lease.slots.remove(&slot);
        }
        if let Some(lease) = self.leases.get_mut(&to) {
            lease.slots.insert(slot);
        }
    }

    /// Whether the lease exists.
    pub(crate) fn contains(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// How many leases there are.
    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    /// One lease.
    pub(crate) fn get(&self, id: i64) -> Option<LeaseInfo> {
        self.leases.get(&id).map(|lease| info(id, lease))
    }

    /// Slots of the keys attached to a lease.
    pub(crate) fn slots(&self, id: i64) -> impl Iterator<Item = u32> + '_ {
        self.leases.get(&id).into_iter().flat_map(|lease| lease.slots.iter().copied())
    }

    /// All leases from `from` on, by id.
    pub(crate) fn iter_from(&self, from: i64) -> impl Iterator<Item = LeaseInfo> + '_ {
        self.leases.range(from..).map(|(id, lease)| info(*id, lease))
    }

    /// Puts a lease back as a checkpoint has it, without keys.
    pub(crate) fn restore(&mut self, lease: LeaseInfo) {
        self.forget(lease.id);
        let LeaseInfo { id, ttl, remaining } = lease;
        self.leases.insert(id, Lease { ttl, remaining, slots: BTreeSet::new() });
        self.hash = self.hash.wrapping_add(part(&lease));
    }

    /// Takes a lease away.
    pub(crate) fn forget(&mut self, id: i64) -> Option<Lease> {
        let lease = self.leases.remove(&id)?;
        self.hash = self.hash.wrapping_sub(part(&info(id, &lease)));
        Some(lease)
    }

    /// All leases in one number, for the state hash.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// A lease's part of the state hash.
fn part(lease: &LeaseInfo) -> u64 {
    let hash = PartHash::new(Part::Lease).number(lease.id as u64);
    hash.number(lease.ttl as u64).number(lease.remaining as u64).finish()
}

fn info(id: i64, lease: &Lease) -> LeaseInfo {
    LeaseInfo { id, ttl: lease.ttl, remaining: lease.remaining }
}
