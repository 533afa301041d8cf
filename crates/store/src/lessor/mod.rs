//! The lessor: the replicated part of leases. It knows which leases exist, the TTL each was granted, the remainder that
//! was recorded, and which keys are attached.
//!
//! It has no clock. Deadlines belong to the lease clock of the leader (crate `member`), which renews leases and
//! proposes their expiry; here, a lease is granted, has keys attached, and ends. A million idle leases cost memory
//! only.
//!
//! An attachment is stored in both directions: the key's newest version names its lease, and the lease names the slots
//! (see [`crate::index`]) of its live keys:
//!
//! ```text
//! grant(7, 60 s)            lease 7 { ttl 60, slots {} }
//! put(a, lease 7)           lease 7 { ttl 60, slots {a} }        a's newest version: lease 7
//! put(a, lease 0)           lease 7 { ttl 60, slots {} }         a's newest version: no lease
//! put(a, lease 7)              revoking it deletes a, then forgets the lease, in one revision
//! ```
//!
//! `StoreState::check_all` verifies that both directions agree.

mod frozen;
mod info;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Error;

use crate::auth::{CHECKED_LEASE_BYTES, CheckedLease, LeaseCheck, UserRanges, check_slots};
use crate::index::KeyIndex;

pub(crate) use self::frozen::{FrozenLeases, MAX_LEASES_AT_ONCE};
pub use self::info::{LeaseInfo, MAX_LEASE_TTL};

/// A lease and its keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    ttl: i64,
    remaining: i64,
    /// Slots of the attached keys; all live.
    slots: BTreeSet<u32>,
    /// Which users may write its keys; not part of the state.
    checked: Option<Box<CheckedLease>>,
}

/// All leases, by id.
#[derive(Default)]
pub(crate) struct Lessor {
    leases: BTreeMap<i64, Lease>,
    /// Sum over all leases, for the state hash.
    hash: u64,
    /// Sum of [`slots_bytes`] over all leases.
    slots_bytes: u64,
    /// Leases that remember which users may write their keys.
    checked: u64,
    /// Who reads the leases as they were.
    readers: frozen::Readers,
}

/// Accounted memory of a lease without keys: its place here, and its deadline in the clock of the leader, which any
/// member may become. Both are in B-trees, whose nodes are hardly more than half full if ids ascend.
const LEASE_BYTES: u64 = 192;

/// A node of the B-tree of a lease's slots: room for eleven, of which six are used if slots ascend.
const SLOT_NODE_BYTES: u64 = 64;
const SLOTS_PER_NODE: u64 = 6;

/// Accounted memory of that many attached keys of one lease.
fn slots_bytes(slots: usize) -> u64 {
    (slots as u64).div_ceil(SLOTS_PER_NODE) * SLOT_NODE_BYTES
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

    /// Records remaining seconds, clamped to the TTL; returns the recorded number, or `None` without such a lease.
    pub(crate) fn checkpoint(&mut self, id: i64, remaining: i64) -> Option<i64> {
        self.note_before(id);
        let lease = self.leases.get_mut(&id)?;
        let before = info(id, lease).hash();
        lease.remaining = remaining.clamp(0, lease.ttl);
        let after = info(id, lease).hash();
        self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
        Some(lease.remaining)
    }

    /// Moves the key in `slot` from one lease to another; 0 is none.
    pub(crate) fn reattach(&mut self, slot: u32, from: i64, to: i64) {
        if from == to {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&from) {
            self.slots_bytes -= slots_bytes(lease.slots.len());
            let attached = lease.slots.remove(&slot);
            self.slots_bytes += slots_bytes(lease.slots.len());
            assert!(attached, "a key was attached to the lease that its version names");
        }
        if let Some(lease) = self.leases.get_mut(&to) {
            self.slots_bytes -= slots_bytes(lease.slots.len());
            let attached = lease.slots.insert(slot);
            self.slots_bytes += slots_bytes(lease.slots.len());
            assert!(attached, "a key is attached to a lease once");
        }
    }

    /// Notes that the key in `slot` was attached, for what the lease remembers of users.
    pub(crate) fn note_attached(&mut self, lease: i64, slot: u32, key: &[u8]) {
        if let Some(checked) = self.leases.get_mut(&lease).and_then(|lease| lease.checked.as_mut()) {
            checked.note_attached(slot, key);
        }
    }

    /// Whether a user may write all keys of a lease. Visits no more than `left` of them, and takes those off it; what
    /// was visited is remembered.
    ///
    /// # Errors
    /// [`Error::PermissionDenied`]
    pub(crate) fn check_writable(
        &mut self,
        lease: i64,
        ranges: &Arc<UserRanges>,
        index: &KeyIndex,
        left: &mut usize,
    ) -> Result<LeaseCheck, Error> {
        let Some(Lease { slots, checked, .. }) = self.leases.get_mut(&lease) else {
            return Ok(LeaseCheck::Permitted);
        };
        let before = u64::from(checked.is_some());
        let found =
            check_slots(checked, slots.len(), |from| slots.range(from..).copied(), ranges, index, left);
        self.checked += u64::from(checked.is_some()) - before;
        found
    }

    /// The first slot of a lease whose key was not found writable for a user.
    pub(crate) fn unchecked_from(&self, lease: i64, ranges: &Arc<UserRanges>) -> u32 {
        let checked = self.leases.get(&lease).and_then(|lease| lease.checked.as_ref());
        checked.map_or(0, |checked| checked.unchecked_from(ranges))
    }

    /// Whether the lease exists.
    pub(crate) fn contains(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// How many leases there are.
    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    /// The next of `frozen` leases, by id; `None` after the last. There may be none among those that were looked at.
    pub(crate) fn next_frozen(&self, frozen: &mut FrozenLeases) -> Option<Vec<LeaseInfo>> {
        frozen.next(|from| self.iter_from(from), MAX_LEASES_AT_ONCE)
    }

    /// These of `frozen` leases, `None` for one that did not exist. The ids ascend, also from one call to the next.
    pub(crate) fn read_frozen(
        &self,
        frozen: &mut FrozenLeases,
        ids: &[i64],
    ) -> Vec<(i64, Option<LeaseInfo>)> {
        frozen.read(ids, |id| self.get(id))
    }

    /// One lease.
    pub(crate) fn get(&self, id: i64) -> Option<LeaseInfo> {
        self.leases.get(&id).map(|lease| info(id, lease))
    }

    /// Slots of the keys attached to a lease, from `from` on, in order.
    pub(crate) fn slots_from(&self, id: i64, from: u32) -> impl Iterator<Item = u32> + '_ {
        self.leases.get(&id).into_iter().flat_map(move |lease| lease.slots.range(from..).copied())
    }

    /// How many keys are attached to a lease.
    pub(crate) fn slots_len(&self, id: i64) -> usize {
        self.leases.get(&id).map_or(0, |lease| lease.slots.len())
    }

    /// All leases from `from` on, by id.
    pub(crate) fn iter_from(&self, from: i64) -> impl Iterator<Item = LeaseInfo> + '_ {
        self.leases.range(from..).map(|(id, lease)| info(*id, lease))
    }

    /// The leases as they are now, to be read in steps while they change.
    pub(crate) fn freeze(&self) -> FrozenLeases {
        self.readers.add()
    }

    /// A lease is about to change.
    fn note_before(&self, id: i64) {
        if !self.readers.is_empty() {
            let lease = self.get(id);
            self.readers.note(id, lease);
        }
    }

    /// Adds or replaces a lease, without keys.
    pub(crate) fn restore(&mut self, lease: LeaseInfo) {
        self.forget(lease.id);
        let LeaseInfo { id, ttl, remaining } = lease;
        self.leases.insert(id, Lease { ttl, remaining, ..Lease::default() });
        self.hash = self.hash.wrapping_add(lease.hash());
    }

    /// Removes a lease.
    pub(crate) fn forget(&mut self, id: i64) -> Option<Lease> {
        self.note_before(id);
        let lease = self.leases.remove(&id)?;
        self.hash = self.hash.wrapping_sub(info(id, &lease).hash());
        self.slots_bytes -= slots_bytes(lease.slots.len());
        self.checked -= u64::from(lease.checked.is_some());
        Some(lease)
    }

    /// Recomputes the sum over all leases, which [`hash`](Self::hash) maintains.
    pub(crate) fn recomputed_hash(&self) -> u64 {
        self.iter_from(i64::MIN).fold(0, |sum, lease| sum.wrapping_add(lease.hash()))
    }

    /// [Accounted](crate::memory) bytes of all leases.
    pub(crate) fn accounted_bytes(&self) -> u64 {
        self.leases.len() as u64 * LEASE_BYTES + self.slots_bytes + self.checked * CHECKED_LEASE_BYTES
    }

    /// The same by a walk over the leases.
    pub(crate) fn walk_accounted_bytes(&self) -> u64 {
        let of = |lease: &Lease| {
            let checked = lease.checked.as_ref().map_or(0, |_| CHECKED_LEASE_BYTES);
            LEASE_BYTES + slots_bytes(lease.slots.len()) + checked
        };
        self.leases.values().map(of).sum()
    }

    /// All attachments, as (lease, slot).
    pub(crate) fn attachments(&self) -> impl Iterator<Item = (i64, u32)> + '_ {
        self.leases.iter().flat_map(|(id, lease)| lease.slots.iter().map(|slot| (*id, *slot)))
    }

    /// The sum over all leases, for the state hash.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

fn info(id: i64, lease: &Lease) -> LeaseInfo {
    LeaseInfo { id, ttl: lease.ttl, remaining: lease.remaining }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_refused_for_what_cannot_be() {
        let mut lessor = Lessor::default();
        assert_eq!(lessor.grant(0, 10), Err(Error::LeaseNotFound));
        assert_eq!(lessor.grant(1, MAX_LEASE_TTL + 1), Err(Error::LeaseTtlTooLarge));
        assert_eq!(lessor.grant(1, MAX_LEASE_TTL), Ok(MAX_LEASE_TTL));
        assert_eq!(lessor.grant(1, 5), Err(Error::LeaseExists));
        assert_eq!(lessor.grant(-2, -5), Ok(1), "a negative id is an id, a TTL is at least a second");
    }

    #[test]
    fn keys_follow_their_lease() {
        let mut lessor = Lessor::default();
        lessor.grant(1, 10).unwrap();
        lessor.grant(2, 10).unwrap();
        lessor.reattach(7, 0, 1);
        lessor.reattach(8, 0, 1);
        lessor.reattach(7, 1, 2);
        assert_eq!(lessor.slots_from(1, 0).collect::<Vec<_>>(), [8]);
        assert_eq!(lessor.slots_from(2, 0).collect::<Vec<_>>(), [7]);
        assert_eq!(lessor.slots_from(2, 8).count(), 0);
        assert!(lessor.forget(2).is_some());
        assert!(lessor.forget(2).is_none());
    }

    #[test]
    fn a_remainder_is_recorded_and_taken_back() {
        let mut lessor = Lessor::default();
        lessor.grant(1, 10).unwrap();
        assert_eq!(lessor.checkpoint(1, 4), Some(4));
        assert_eq!(lessor.get(1), Some(LeaseInfo { id: 1, ttl: 10, remaining: 4 }));
        assert_eq!(lessor.checkpoint(1, 0), Some(0));
        assert_eq!(lessor.get(1), Some(LeaseInfo { id: 1, ttl: 10, remaining: 0 }));
        assert_eq!(lessor.checkpoint(1, 99), Some(10), "no more than was granted");
        assert_eq!(lessor.checkpoint(9, 4), None);
    }
}
