//! What others see of a lease.

use crate::hash::{PartHasher, PartKind};

/// The longest TTL that may be granted, in seconds; etcd's, about 285 years.
pub const MAX_LEASE_TTL: i64 = 9_000_000_000;

/// A lease without its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// Its id.
    pub id: i64,
    /// Granted TTL in seconds.
    pub ttl: i64,
    /// Recorded remaining seconds; 0 if none is recorded, and the full TTL counts.
    pub remaining: i64,
}

impl LeaseInfo {
    /// Its term of the state hash.
    pub(super) fn hash(&self) -> u64 {
        let hash = PartHasher::new(PartKind::Lease).number(self.id as u64);
        hash.number(self.ttl as u64).number(self.remaining as u64).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_lease_counts_in_its_hash() {
        let lease = LeaseInfo { id: 1, ttl: 2, remaining: 0 };
        let others = [
            LeaseInfo { id: 2, ..lease },
            LeaseInfo { ttl: 3, ..lease },
            LeaseInfo { remaining: 1, ..lease },
            LeaseInfo { id: 2, ttl: 1, remaining: 0 },
        ];
        others.iter().for_each(|other| assert_ne!(other.hash(), lease.hash(), "{other:?}"));
    }
}
