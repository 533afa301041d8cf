//! One version of a key, as the index returns it.

use std::mem::offset_of;

use crate::types::Revision;
use crate::values::ValueRef;

/// One version of a key. A tombstone has no create revision, version, lease or value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Copied once for each key of a range. The only padding is at the end: the compiler would copy padding between two
// fields together with a neighbour, in one load that spans two recent stores. Such a load cannot be forwarded from the
// store buffer, and the processor would stall instead of fetching the next records.
#[repr(C)]
pub(crate) struct Version {
    /// Reference to the value.
    pub value: ValueRef,
    /// `main` of the change that began the generation.
    pub create: i64,
    /// Number within the generation, from 1; 0 for a tombstone.
    pub version: i64,
    /// The lease, 0 for none.
    pub lease: i64,
    /// The revision of the change that made this version.
    pub revision: Revision,
}

const _: () = assert!(offset_of!(Version, revision) + size_of::<Revision>() == size_of::<Version>());
const _: () = assert!(offset_of!(Version, revision) == size_of::<ValueRef>() + 3 * size_of::<i64>());

impl Version {
    /// The version that ends a generation.
    pub(crate) fn tombstone(revision: Revision) -> Version {
        Version { revision, ..Version::default() }
    }

    /// Whether this version is the deletion of the key.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.version == 0
    }
}
