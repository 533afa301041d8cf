//! The state hash: one number for the newest version of every live key and the small state.
//!
//! It is a sum of the hashes of its parts, so their order does not matter, a change costs one subtraction and
//! one addition, and history (thus compaction and purging) is not in it. Members with the same applied index
//! must have the same number. It finds divergence, it does not withstand someone who builds collisions.

use crate::index::Version;

/// Odd constants with well-spread bits, from the fraction of the golden ratio and of the square roots of 3
/// and 5.
const MULTIPLIERS: [u64; 3] = [0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B, 0x3C6E_F372_FE94_F82B];

/// What the parts are, so that equal bytes of different kinds differ.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Key = 1,
    Lease = 2,
    Alarm = 3,
    Member = 4,
    Removed = 5,
    ClusterVersion = 6,
}

/// The hash of one part.
pub(crate) struct PartHash(u64);

impl PartHash {
    /// Starts a part.
    pub(crate) fn new(part: Part) -> PartHash {
        PartHash(MULTIPLIERS[0].wrapping_mul(part as u64))
    }

    /// Adds a number.
    pub(crate) fn number(mut self, number: u64) -> PartHash {
        let product = u128::from(self.0 ^ number ^ MULTIPLIERS[1]) * u128::from(MULTIPLIERS[2]);
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_mul(MULTIPLIERS[0]);
        self
    }

    /// Adds bytes with their length.
    pub(crate) fn bytes(self, bytes: &[u8]) -> PartHash {
        let mut hash = self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = hash.number(u64::from_le_bytes(word));
        }
        hash
    }

    /// The number to add to the sum.
    pub(crate) fn finish(self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

/// The part of a live key. The place of its value is local to a member and no part of it.
pub(crate) fn key_part(key: &[u8], version: &Version) -> u64 {
    PartHash::new(Part::Key)
        .bytes(key)
        .number(version.create as u64)
        .number(version.revision.main as u64)
        .number(u64::from(version.revision.sub))
        .number(version.version as u64)
        .number(version.lease as u64)
        .number(u64::from(version.value.len) << 32 | u64::from(version.value.checksum))
        .finish()
}
