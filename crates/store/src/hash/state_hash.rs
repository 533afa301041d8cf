//! The state hash: one number over the newest version of every live key and the small state.
//!
//! It is a sum, modulo 2^64, of one term for each part: each live key, lease, alarm, member, removed member id, user,
//! role, the cluster version, the target of a downgrade, the command set unless it is the first, and whether auth is
//! enabled at which auth revision, once that was raised; plus the revision. Three properties follow:
//!
//! ```text
//! put(a, 1)        sum = h(a, v1) + 2
//! put(b, 1)        sum = h(a, v1) + h(b, v1) + 3        the order of parts does not matter
//! put(a, 2)        sum = h(a, v2) + h(b, v1) + 4        a change costs one subtraction and one addition
//! compact, purge   sum = h(a, v2) + h(b, v1) + 4        history is not part of it
//! ```
//!
//! Members with the same applied index must have the same hash. It detects divergence; it does not resist constructed
//! collisions. The log address of a value is local to a member and not hashed; its length and checksum are.

use crate::index::Version;

/// Odd constants with well-spread bits, from the fraction of the golden ratio and of the square roots of 3
/// and 5.
const MULTIPLIERS: [u64; 3] = [0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B, 0x3C6E_F372_FE94_F82B];

/// The kind of a part, so that equal bytes of different kinds hash differently.
#[derive(Clone, Copy)]
pub(crate) enum PartKind {
    Key = 1,
    Lease = 2,
    Alarm = 3,
    Member = 4,
    Removed = 5,
    ClusterVersion = 6,
    CommandSet = 7,
    User = 8,
    Role = 9,
    Auth = 10,
    Downgrade = 11,
}

/// Computes the term of one part.
pub(crate) struct PartHasher(u64);

impl PartHasher {
    /// Begins a part.
    pub(crate) fn new(part: PartKind) -> PartHasher {
        PartHasher(MULTIPLIERS[0].wrapping_mul(part as u64))
    }

    /// Adds a number.
    pub(crate) fn number(mut self, number: u64) -> PartHasher {
        let product = u128::from(self.0 ^ number ^ MULTIPLIERS[1]) * u128::from(MULTIPLIERS[2]);
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_mul(MULTIPLIERS[0]);
        self
    }

    /// Adds bytes and their length.
    pub(crate) fn bytes(self, bytes: &[u8]) -> PartHasher {
        let mut hash = self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = hash.number(u64::from_le_bytes(word));
        }
        hash
    }

    /// The term to add to the sum.
    pub(crate) fn finish(self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

/// The term of a live key.
pub(crate) fn key_hash(key: &[u8], version: &Version) -> u64 {
    PartHasher::new(PartKind::Key)
        .bytes(key)
        .number(version.create as u64)
        .number(version.revision.main as u64)
        .number(u64::from(version.revision.sub))
        .number(version.version as u64)
        .number(version.lease as u64)
        .number(u64::from(version.value.len) << 32 | u64::from(version.value.checksum))
        .finish()
}
