//! The older versions of a key, and what of its newest version does not fit into the record.
//!
//! Most keys have neither; then the record has no box at all. The others have a box of 48 bytes: the address of the
//! newest version's value, which is in the record otherwise, and the smallest of four forms of:
//!
//! | form | holds | bytes besides the box for each older version |
//! |---|---|---|
//! | `One` | one older version that fits into a [`PackedVersion`] | 0 |
//! | `Packed` | any number of such versions | 32 |
//! | `Leased` | any versions, and a lease of the newest | 56 |
//! | `Wide` | any versions, and a newest one that does not fit into the record | 56, and 96 for the newest |
//!
//! Capacity grows by a quarter instead of doubling: short histories are many, and copying one costs less than the
//! memory that would stand empty.

use std::collections::VecDeque;

use super::packed_version::PackedVersion;
use super::version::Version;
use crate::memory::block_bytes;
use crate::types::Revision;

/// What a record has in a box. If it holds nothing, the record [drops it](KeyHistory::holds_nothing).
pub(crate) struct KeyHistory {
    /// The address of the newest version's value, unless that is wide.
    newest_address: u64,
    older: OlderVersions,
}

const _: () =
    assert!(size_of::<KeyHistory>() == 48, "the allocator has blocks of 48 bytes, the next are of 64");

/// Older versions, from the oldest on.
enum OlderVersions {
    One(PackedVersion, u64),
    Packed(VecDeque<OlderVersion>),
    Leased(LeasedVersions),
    Wide(Box<WideVersions>),
}

/// A packed version with the address of its value.
#[derive(Clone, Copy)]
struct OlderVersion {
    packed: PackedVersion,
    address: u64,
}

const _: () = assert!(size_of::<OlderVersion>() == 32);

/// Versions of any kind, the newest packed.
struct LeasedVersions {
    /// The newest version's lease, 0 for none.
    newest_lease: i64,
    older: VecDeque<Version>,
}

/// Versions of any kind.
struct WideVersions {
    newest: Version,
    older: VecDeque<Version>,
}

impl OlderVersion {
    fn new(version: &Version) -> Option<OlderVersion> {
        let packed = PackedVersion::whole(version)?;
        Some(OlderVersion { packed, address: version.value.address })
    }

    fn version(&self) -> Version {
        self.packed.with_address(self.address)
    }
}

impl KeyHistory {
    /// No older version, and a newest one whose value is at `address`.
    pub(super) fn of_newest_at(address: u64) -> KeyHistory {
        KeyHistory { newest_address: address, older: OlderVersions::Packed(VecDeque::new()) }
    }

    /// The address of the newest version's value, unless that is wide.
    pub(super) fn newest_address(&self) -> u64 {
        self.newest_address
    }

    /// The newest version, of which the record has the lowest bytes.
    pub(super) fn newest(&self, packed: &PackedVersion) -> Version {
        let newest = packed.with_address(self.newest_address);
        match &self.older {
            OlderVersions::One(..) | OlderVersions::Packed(_) => newest,
            OlderVersions::Leased(leased) => Version { lease: leased.newest_lease, ..newest },
            OlderVersions::Wide(wide) => wide.newest,
        }
    }

    /// Sets the newest version, of which the record has the lowest bytes.
    pub(super) fn set_newest(&mut self, version: &Version) {
        self.newest_address = version.value.address;
        let without_lease = Version { lease: 0, ..*version };
        let is_wide = PackedVersion::whole(&without_lease).is_none();
        match &mut self.older {
            OlderVersions::Wide(wide) if is_wide => wide.newest = *version,
            OlderVersions::Leased(leased) if !is_wide => leased.newest_lease = version.lease,
            OlderVersions::One(..) | OlderVersions::Packed(_) if !is_wide && version.lease == 0 => {}
            older => {
                let versions = older.take_all();
                *older = match is_wide {
                    true => OlderVersions::Wide(Box::new(WideVersions { newest: *version, older: versions })),
                    false => {
                        OlderVersions::Leased(LeasedVersions { newest_lease: version.lease, older: versions })
                    }
                };
            }
        }
    }

    /// The number of older versions.
    pub(super) fn len(&self) -> usize {
        match &self.older {
            OlderVersions::One(..) => 1,
            OlderVersions::Packed(older) => older.len(),
            OlderVersions::Leased(LeasedVersions { older, .. }) => older.len(),
            OlderVersions::Wide(wide) => wide.older.len(),
        }
    }

    /// The older version at `position`, below `len`.
    pub(super) fn get(&self, position: usize) -> Version {
        match &self.older {
            OlderVersions::One(packed, address) => packed.with_address(*address),
            OlderVersions::Packed(older) => older[position].version(),
            OlderVersions::Leased(LeasedVersions { older, .. }) => older[position],
            OlderVersions::Wide(wide) => wide.older[position],
        }
    }

    /// Gives the value of the version at `position` another address; at `len` the newest version is meant.
    pub(super) fn set_address(&mut self, position: usize, address: u64) {
        if position == self.len() {
            self.newest_address = address;
            if let OlderVersions::Wide(wide) = &mut self.older {
                wide.newest.value.address = address;
            }
            return;
        }
        match &mut self.older {
            OlderVersions::One(_, old) => *old = address,
            OlderVersions::Packed(older) => older[position].address = address,
            OlderVersions::Leased(LeasedVersions { older, .. }) => older[position].value.address = address,
            OlderVersions::Wide(wide) => wide.older[position].value.address = address,
        }
    }

    /// The number of older versions with a revision of at most `at`.
    pub(super) fn until(&self, at: Revision) -> usize {
        match &self.older {
            OlderVersions::One(packed, _) => usize::from(packed.revision() <= at),
            OlderVersions::Packed(older) => older.partition_point(|version| version.packed.revision() <= at),
            OlderVersions::Leased(LeasedVersions { older, .. }) => {
                older.partition_point(|version| version.revision <= at)
            }
            OlderVersions::Wide(wide) => wide.older.partition_point(|version| version.revision <= at),
        }
    }

    /// Adds a version newer than those here: `version`, the key's newest until now. The new newest version is
    /// [set](KeyHistory::set_newest) next.
    pub(super) fn push(&mut self, version: &Version) {
        match (&mut self.older, OlderVersion::new(version)) {
            (OlderVersions::Packed(older), Some(new)) if older.is_empty() => {
                self.older = OlderVersions::One(new.packed, new.address);
            }
            (OlderVersions::Packed(older), Some(new)) => push_tight(older, new),
            (OlderVersions::One(packed, address), Some(new)) => {
                let mut older = VecDeque::with_capacity(2);
                older.extend([OlderVersion { packed: *packed, address: *address }, new]);
                self.older = OlderVersions::Packed(older);
            }
            (OlderVersions::Leased(LeasedVersions { older, .. }), _) => push_tight(older, *version),
            (OlderVersions::Wide(wide), _) => push_tight(&mut wide.older, *version),
            (older, None) => {
                let mut versions = older.take_all();
                push_tight(&mut versions, *version);
                *older = OlderVersions::Leased(LeasedVersions { newest_lease: 0, older: versions });
            }
        }
    }

    /// Drops the oldest of the older versions.
    pub(super) fn pop_front(&mut self) {
        match &mut self.older {
            OlderVersions::One(..) => self.older = OlderVersions::Packed(VecDeque::new()),
            OlderVersions::Packed(older) => {
                older.pop_front();
                match older.len() {
                    1 => self.older = OlderVersions::One(older[0].packed, older[0].address),
                    _ => shrink(older),
                }
            }
            OlderVersions::Leased(LeasedVersions { older, .. }) => {
                older.pop_front();
                shrink(older);
            }
            OlderVersions::Wide(wide) => {
                wide.older.pop_front();
                shrink(&mut wide.older);
            }
        }
    }

    /// Whether it holds nothing, so that the record needs no box.
    pub(super) fn holds_nothing(&self) -> bool {
        match &self.older {
            OlderVersions::One(..) | OlderVersions::Wide(_) => false,
            OlderVersions::Packed(older) => older.is_empty(),
            OlderVersions::Leased(leased) => leased.newest_lease == 0 && leased.older.is_empty(),
        }
    }

    /// Bytes of memory taken besides this value.
    pub(super) fn heap_bytes(&self) -> usize {
        let versions = |older: &VecDeque<Version>| block_bytes(older.capacity() * size_of::<Version>());
        match &self.older {
            OlderVersions::One(..) => 0,
            OlderVersions::Packed(older) => block_bytes(older.capacity() * size_of::<OlderVersion>()),
            OlderVersions::Leased(leased) => versions(&leased.older),
            OlderVersions::Wide(wide) => block_bytes(size_of::<WideVersions>()) + versions(&wide.older),
        }
    }
}

impl OlderVersions {
    /// Takes out all versions, to give them another form.
    fn take_all(&mut self) -> VecDeque<Version> {
        match self {
            OlderVersions::One(packed, address) => VecDeque::from([packed.with_address(*address)]),
            OlderVersions::Packed(older) => older.iter().map(OlderVersion::version).collect(),
            OlderVersions::Leased(LeasedVersions { older, .. }) => std::mem::take(older),
            OlderVersions::Wide(wide) => std::mem::take(&mut wide.older),
        }
    }
}

fn push_tight<T>(older: &mut VecDeque<T>, version: T) {
    if older.len() == older.capacity() {
        older.reserve_exact(older.len() / 4 + 1);
    }
    older.push_back(version);
}

fn shrink<T>(older: &mut VecDeque<T>) {
    if older.len() < older.capacity() / 4 {
        older.shrink_to_fit();
    }
}
