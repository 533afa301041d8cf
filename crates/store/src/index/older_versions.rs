//! The older versions of a key, and the fields of its newest version that do not fit into the record.
//!
//! Most keys have neither; then the record has no box at all. The others use the smallest of three forms:
//!
//! | form | holds | bytes for the first, each further version |
//! |---|---|---|
//! | `One` | one older version without a lease, its version number below 2^32 | 48, - |
//! | `Plain` | any number of such versions | 48 + 40, 40 |
//! | `Full` | any versions, and a lease of the newest | 48 + 56, 56 |
//!
//! Capacity grows by a quarter instead of doubling: short histories are many, and copying one costs less than the
//! memory that would stand empty.

use std::collections::VecDeque;

use super::version::Version;
use crate::memory::block_bytes;
use crate::types::Revision;
use crate::values::ValueRef;

/// Older versions, from the oldest on. If it holds nothing, the record [drops it](OlderVersions::holds_nothing).
pub(super) enum OlderVersions {
    One(PlainVersion),
    Plain(VecDeque<PlainVersion>),
    Full(FullVersions),
}

const _: () =
    assert!(size_of::<OlderVersions>() == 48, "the allocator has blocks of 48 bytes, the next are of 64");

/// A version without a lease and with a version number below 2^32.
#[derive(Clone, Copy, Default)]
pub(super) struct PlainVersion {
    value: ValueRef,
    main: i64,
    create: i64,
    sub: u32,
    version: u32,
}

/// Versions of any kind.
#[derive(Default)]
pub(super) struct FullVersions {
    /// Of the newest version, whose other fields are in the record.
    newest: NewestExtra,
    older: VecDeque<Version>,
}

/// The fields of a key's newest version that do not fit into the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NewestExtra {
    /// The lease, 0 for none.
    pub(super) lease: i64,
    /// The upper half of the version number.
    pub(super) version_high: u32,
}

impl NewestExtra {
    pub(super) fn of(version: &Version) -> NewestExtra {
        NewestExtra { lease: version.lease, version_high: (version.version >> 32) as u32 }
    }

    fn is_default(self) -> bool {
        self == NewestExtra::default()
    }
}

impl PlainVersion {
    fn new(version: &Version) -> Option<PlainVersion> {
        let Version { revision, create, version: number, lease, value } = *version;
        let number = u32::try_from(number).ok().filter(|_| lease == 0)?;
        Some(PlainVersion { value, main: revision.main, create, sub: revision.sub, version: number })
    }

    fn revision(&self) -> Revision {
        Revision { main: self.main, sub: self.sub }
    }

    fn version(&self) -> Version {
        let (revision, version) = (self.revision(), i64::from(self.version));
        Version { revision, create: self.create, version, lease: 0, value: self.value }
    }
}

impl Default for OlderVersions {
    fn default() -> OlderVersions {
        OlderVersions::Plain(VecDeque::new())
    }
}

impl OlderVersions {
    /// The fields of the newest version that are not in the record.
    pub(super) fn newest(&self) -> NewestExtra {
        if let OlderVersions::Full(full) = self { full.newest } else { NewestExtra::default() }
    }

    /// Sets the fields of the newest version that are not in the record.
    pub(super) fn set_newest(&mut self, rest: NewestExtra) {
        match self {
            OlderVersions::Full(full) => full.newest = rest,
            _ if rest.is_default() => {}
            _ => self.full().newest = rest,
        }
    }

    /// The number of older versions.
    pub(super) fn len(&self) -> usize {
        match self {
            OlderVersions::One(_) => 1,
            OlderVersions::Plain(older) => older.len(),
            OlderVersions::Full(full) => full.older.len(),
        }
    }

    /// The older version at `position`, below `len`.
    pub(super) fn get(&self, position: usize) -> Version {
        match self {
            OlderVersions::One(version) => version.version(),
            OlderVersions::Plain(older) => older[position].version(),
            OlderVersions::Full(full) => full.older[position],
        }
    }

    /// The value reference of the older version at `position`, below `len`.
    pub(super) fn value_mut(&mut self, position: usize) -> &mut ValueRef {
        match self {
            OlderVersions::One(version) => &mut version.value,
            OlderVersions::Plain(older) => &mut older[position].value,
            OlderVersions::Full(full) => &mut full.older[position].value,
        }
    }

    /// The number of older versions with a revision of at most `at`.
    pub(super) fn until(&self, at: Revision) -> usize {
        match self {
            OlderVersions::One(version) => usize::from(version.revision() <= at),
            OlderVersions::Plain(older) => older.partition_point(|version| version.revision() <= at),
            OlderVersions::Full(full) => full.older.partition_point(|version| version.revision <= at),
        }
    }

    /// Adds a version newer than those here: the key's newest until now.
    pub(super) fn push(&mut self, version: &Version) {
        match (&mut *self, PlainVersion::new(version)) {
            (OlderVersions::Plain(older), Some(plain)) if older.is_empty() => {
                *self = OlderVersions::One(plain)
            }
            (OlderVersions::Plain(older), Some(plain)) => push_tight(older, plain),
            (OlderVersions::One(first), Some(plain)) => {
                let mut older = VecDeque::with_capacity(2);
                older.extend([*first, plain]);
                *self = OlderVersions::Plain(older);
            }
            (_, _) => push_tight(&mut self.full().older, *version),
        }
    }

    /// Drops the oldest of the older versions.
    pub(super) fn pop_front(&mut self) {
        match self {
            OlderVersions::One(_) => *self = OlderVersions::default(),
            OlderVersions::Plain(older) => {
                older.pop_front();
                match older.len() {
                    1 => *self = OlderVersions::One(older[0]),
                    _ => shrink(older),
                }
            }
            OlderVersions::Full(full) => {
                full.older.pop_front();
                shrink(&mut full.older);
            }
        }
    }

    /// Whether it holds nothing, so that the record needs no box.
    pub(super) fn holds_nothing(&self) -> bool {
        self.len() == 0 && self.newest().is_default()
    }

    /// Bytes of memory taken besides this value.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            OlderVersions::One(_) => 0,
            OlderVersions::Plain(older) => block_bytes(older.capacity() * size_of::<PlainVersion>()),
            OlderVersions::Full(full) => block_bytes(full.older.capacity() * size_of::<Version>()),
        }
    }

    /// Converts to the form that can hold any version.
    fn full(&mut self) -> &mut FullVersions {
        if !matches!(self, OlderVersions::Full(_)) {
            let older = (0..self.len()).map(|position| self.get(position)).collect();
            *self = OlderVersions::Full(FullVersions { older, ..FullVersions::default() });
        }
        let OlderVersions::Full(full) = self else { unreachable!("it was made one") };
        full
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
