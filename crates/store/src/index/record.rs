//! One key with all its retained versions, in one cache line for a key that was written once.

use std::collections::VecDeque;

use super::Key;
use crate::types::{Revision, ValueRef};

/// One version of a key. A tombstone has no create revision, version, lease or value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// The change that made this version.
    pub revision: Revision,
    /// `main` of the change that created the generation.
    pub create: i64,
    /// Number within the generation, from 1; 0 for a tombstone.
    pub version: i64,
    /// The lease, 0 for none.
    pub lease: i64,
    /// Where the value is.
    pub value: ValueRef,
}

impl Version {
    /// The end of a generation.
    pub(crate) fn tombstone(revision: Revision) -> Version {
        Version { revision, ..Version::default() }
    }

    /// Whether this version says that the key is gone.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.version == 0
    }
}

/// A key and its versions. Older versions, a lease and the upper half of a version number past 32 bits are
/// rare, and lie in a box.
#[derive(Default)]
pub(crate) struct Record {
    key: Key,
    value: ValueRef,
    main: i64,
    create: i64,
    sub: u32,
    version_low: u32,
    more: Option<Box<More>>,
}

const _: () = assert!(size_of::<Record>() == 64, "one key, one cache line");

#[derive(Default)]
struct More {
    lease: i64,
    version_high: u32,
    /// From the oldest on; all older than the newest version.
    older: VecDeque<Version>,
}

impl More {
    fn is_needless(&self) -> bool {
        self.lease == 0 && self.version_high == 0 && self.older.is_empty()
    }
}

impl Record {
    /// A key with one version.
    pub(crate) fn new(key: Key, first: Version) -> Record {
        let mut record = Record { key, ..Record::default() };
        record.set_newest(first);
        record
    }

    /// The key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.as_slice()
    }

    /// The record's key, when the record is no longer needed.
    pub(crate) fn into_key(self) -> Key {
        self.key
    }

    /// The newest version, perhaps a tombstone.
    pub(crate) fn newest(&self) -> Version {
        let (lease, high) = self.more.as_ref().map_or((0, 0), |more| (more.lease, more.version_high));
        Version {
            revision: Revision { main: self.main, sub: self.sub },
            create: self.create,
            version: i64::from(high) << 32 | i64::from(self.version_low),
            lease,
            value: self.value,
        }
    }

    /// Whether the newest version is not a tombstone.
    pub(crate) fn is_live(&self) -> bool {
        self.create != 0
    }

    /// Makes `version` the newest; it must be newer than all others.
    pub(crate) fn push(&mut self, version: Version) {
        let newest = self.newest();
        assert!(version.revision > newest.revision, "versions come in the order of revisions");
        self.more.get_or_insert_default().older.push_back(newest);
        self.set_newest(version);
    }

    fn set_newest(&mut self, version: Version) {
        self.value = version.value;
        self.main = version.revision.main;
        self.sub = version.revision.sub;
        self.create = version.create;
        self.version_low = version.version as u32;
        let high = (version.version >> 32) as u32;
        if version.lease != 0 || high != 0 || self.more.is_some() {
            let more = self.more.get_or_insert_default();
            more.lease = version.lease;
            more.version_high = high;
        }
    }

    /// Versions older than the newest, from the oldest on.
    fn older(&self) -> (&[Version], &[Version]) {
        self.more.as_ref().map_or((&[], &[]), |more| more.older.as_slices())
    }

    /// All versions, from the oldest on.
    pub(crate) fn versions(&self) -> impl DoubleEndedIterator<Item = Version> + '_ {
        let (front, back) = self.older();
        front.iter().chain(back).copied().chain(std::iter::once(self.newest()))
    }

    /// How many versions there are; at least 1.
    pub(crate) fn versions_len(&self) -> usize {
        1 + self.more.as_ref().map_or(0, |more| more.older.len())
    }

    /// The version numbered `position` from the oldest on.
    fn version_at(&self, position: usize) -> Version {
        match &self.more {
            Some(more) if position < more.older.len() => more.older[position],
            _ => self.newest(),
        }
    }

    /// How many versions are not newer than `at`.
    fn versions_until(&self, at: Revision) -> usize {
        if (Revision { main: self.main, sub: self.sub }) <= at {
            return self.versions_len();
        }
        self.more.as_ref().map_or(0, |more| more.older.partition_point(|version| version.revision <= at))
    }

    /// The newest version not newer than `at`, perhaps a tombstone.
    pub(crate) fn version_until(&self, at: Revision) -> Option<Version> {
        self.versions_until(at).checked_sub(1).map(|position| self.version_at(position))
    }

    /// The newest version not newer than `at`, unless the key was deleted by then.
    pub(crate) fn live_until(&self, at: Revision) -> Option<Version> {
        self.version_until(at).filter(|version| !version.is_tombstone())
    }

    /// The version made by exactly this change, and the one before it.
    pub(crate) fn version_exactly(&self, revision: Revision) -> Option<(Version, Option<Version>)> {
        let position = self.versions_until(revision).checked_sub(1)?;
        let version = self.version_at(position);
        let before = position.checked_sub(1).map(|position| self.version_at(position));
        (version.revision == revision).then_some((version, before))
    }

    /// Drops the versions older than `revision`. The newest version always stays.
    pub(crate) fn drop_before(&mut self, revision: Revision, dropped: &mut impl FnMut(&Version)) {
        let Some(more) = &mut self.more else { return };
        while let Some(oldest) = more.older.front().filter(|oldest| oldest.revision < revision) {
            dropped(oldest);
            more.older.pop_front();
        }
        if more.is_needless() {
            self.more = None;
        } else if more.older.len() < more.older.capacity() / 4 {
            more.older.shrink_to_fit();
        }
    }

    /// Drops the oldest version when it is the tombstone of `revision`. Returns whether that left nothing:
    /// the key is to be removed.
    pub(crate) fn drop_tombstone(&mut self, revision: Revision, dropped: &mut impl FnMut(&Version)) -> bool {
        let oldest = self.version_at(0);
        if oldest.revision != revision || !oldest.is_tombstone() {
            return false;
        }
        dropped(&oldest);
        match &mut self.more {
            Some(more) if !more.older.is_empty() => {
                more.older.pop_front();
                if more.is_needless() {
                    self.more = None;
                }
                false
            }
            _ => true,
        }
    }

    /// The reference of the version made by exactly this change.
    pub(crate) fn value_mut(&mut self, revision: Revision) -> Option<&mut ValueRef> {
        let position = self.versions_until(revision).checked_sub(1)?;
        if self.version_at(position).revision != revision {
            return None;
        }
        match &mut self.more {
            Some(more) if position < more.older.len() => Some(&mut more.older[position].value),
            _ => Some(&mut self.value),
        }
    }
}
