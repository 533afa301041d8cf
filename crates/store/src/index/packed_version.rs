//! A version in 23 bytes and an address.
//!
//! Its fields are narrower than those of a [`Version`], because nearly all versions fit: revisions below 2^48, values
//! below 16 MiB, fewer than 2^24 writes of a key, fewer than 257 puts of a transaction. What holds a packed version
//! must have another form for those that do not fit, or have a lease.
//!
//! A tombstone has no value, so its sub takes the place of the checksum: one request may delete any number of keys.

use super::version::Version;
use crate::types::Revision;
use crate::values::ValueRef;

/// A version without its lease and the address of its value. Numbers are little-endian.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PackedVersion {
    main: [u8; 6],
    create: [u8; 6],
    /// The value's checksum; of a tombstone the sub of its revision.
    checksum_or_sub: [u8; 4],
    len: [u8; 3],
    /// 0 for a tombstone.
    version: [u8; 3],
    /// The sub of the revision, unless it is a tombstone.
    sub: u8,
}

const _: () = assert!(size_of::<PackedVersion>() == 23 && align_of::<PackedVersion>() == 1);

/// The lowest bytes of a number.
#[inline]
fn low<const N: usize>(number: u64) -> [u8; N] {
    let bytes = number.to_le_bytes();
    std::array::from_fn(|at| bytes[at])
}

/// The number that has these lowest bytes, and zeros above.
#[inline]
fn widen<const N: usize>(bytes: [u8; N]) -> u64 {
    let mut number = [0; 8];
    number[..N].copy_from_slice(&bytes);
    u64::from_le_bytes(number)
}

impl PackedVersion {
    /// The lowest bytes of each field, which need not be [all of the version](PackedVersion::is_all_of).
    pub(super) fn low_bytes(version: &Version) -> PackedVersion {
        let sub = version.revision.sub;
        let checksum_or_sub = if version.is_tombstone() { sub } else { version.value.checksum };
        PackedVersion {
            main: low(version.revision.main as u64),
            create: low(version.create as u64),
            checksum_or_sub: checksum_or_sub.to_le_bytes(),
            len: low(version.value.len.into()),
            version: low(version.version as u64),
            sub: sub as u8,
        }
    }

    /// Whether nothing of `version` is missing here but the address of its value.
    pub(super) fn is_all_of(&self, version: &Version) -> bool {
        self.with_address(version.value.address) == *version
    }

    /// `version`, if nothing is missing but the address.
    pub(super) fn whole(version: &Version) -> Option<PackedVersion> {
        Some(PackedVersion::low_bytes(version)).filter(|packed| packed.is_all_of(version))
    }

    /// The version, without a lease.
    #[inline]
    pub(super) fn with_address(&self, address: u64) -> Version {
        let checksum = if self.is_tombstone() { 0 } else { u32::from_le_bytes(self.checksum_or_sub) };
        Version {
            value: ValueRef { address, len: widen(self.len) as u32, checksum },
            create: widen(self.create) as i64,
            version: widen(self.version) as i64,
            lease: 0,
            revision: self.revision(),
        }
    }

    /// The revision.
    #[inline]
    pub(super) fn revision(&self) -> Revision {
        let sub =
            if self.is_tombstone() { u32::from_le_bytes(self.checksum_or_sub) } else { self.sub.into() };
        Revision { main: widen(self.main) as i64, sub }
    }

    /// Whether these bytes are those of a tombstone, or the lowest of a version whose number does not fit.
    #[inline]
    fn is_tombstone(&self) -> bool {
        self.version == [0; 3]
    }

    /// Whether these bytes alone tell that the version is no tombstone.
    #[inline]
    pub(super) fn is_surely_live(&self) -> bool {
        !self.is_tombstone()
    }
}
