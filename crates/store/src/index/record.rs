//! One key with all its retained versions, in one cache line for a key that was written once.

use std::mem::offset_of;
use std::ops::Range;

use super::Key;
use super::history::{History, Rest};
use crate::types::{Revision, ValueRef};

#[cfg(test)]
mod tests;

/// One version of a key. A tombstone has no create revision, version, lease or value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Copied once for every key of a list. The only padding is at the end: between two fields, the compiler copies it with
// its neighbour, in one load across two fresh stores. That cannot be forwarded, so the processor stalls instead of
// fetching the next records.
#[repr(C)]
pub(crate) struct Version {
    /// Where the value is.
    pub value: ValueRef,
    /// `main` of the change that created the generation.
    pub create: i64,
    /// Number within the generation, from 1; 0 for a tombstone.
    pub version: i64,
    /// The lease, 0 for none.
    pub lease: i64,
    /// The change that made this version.
    pub revision: Revision,
}

const _: () = assert!(offset_of!(Version, revision) + size_of::<Revision>() == size_of::<Version>());
const _: () = assert!(offset_of!(Version, revision) == size_of::<ValueRef>() + 3 * size_of::<i64>());

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

/// A key and its versions.
#[derive(Default)]
pub(crate) struct Record {
    key: Key,
    value: ValueRef,
    main: i64,
    create: i64,
    sub: u32,
    version_low: u32,
    history: Option<Box<History>>,
}

const _: () = assert!(size_of::<Record>() == 64, "one key, one cache line");

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
        self.newest_with(self.history.as_ref().map_or(Rest::default(), |history| history.newest()))
    }

    /// The newest version, of which `rest` is what the record has no room for.
    #[inline]
    fn newest_with(&self, rest: Rest) -> Version {
        Version {
            revision: self.revision(),
            create: self.create,
            version: i64::from(rest.version_high) << 32 | i64::from(self.version_low),
            lease: rest.lease,
            value: self.value,
        }
    }

    /// The revision of the newest version.
    #[inline]
    fn revision(&self) -> Revision {
        Revision { main: self.main, sub: self.sub }
    }

    /// Whether the newest version is not a tombstone.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.create != 0
    }

    /// Makes `version` the newest; it must be newer than all others.
    pub(crate) fn push(&mut self, version: Version) {
        let newest = self.newest();
        assert!(version.revision > newest.revision, "versions come in the order of revisions");
        self.history.get_or_insert_default().push(&newest);
        self.set_newest(version);
    }

    fn set_newest(&mut self, version: Version) {
        self.value = version.value;
        self.main = version.revision.main;
        self.sub = version.revision.sub;
        self.create = version.create;
        self.version_low = version.version as u32;
        let rest = Rest::of(&version);
        if rest != Rest::default() || self.history.is_some() {
            self.history.get_or_insert_default().set_newest(rest);
        }
    }

    /// All versions, from the oldest on.
    pub(crate) fn versions(&self) -> Versions<'_> {
        Versions { record: self, left: 0..self.versions_len() }
    }

    /// How many are older than the newest.
    fn older_len(&self) -> usize {
        self.history.as_ref().map_or(0, |history| history.len())
    }

    /// How many versions there are; at least 1.
    pub(crate) fn versions_len(&self) -> usize {
        1 + self.older_len()
    }

    /// The version numbered `position` from the oldest on.
    fn version_at(&self, position: usize) -> Version {
        match &self.history {
            Some(history) if position < history.len() => history.get(position),
            _ => self.newest(),
        }
    }

    /// How many versions are not newer than `at`.
    fn versions_until(&self, at: Revision) -> usize {
        if self.revision() <= at {
            return self.versions_len();
        }
        self.history.as_ref().map_or(0, |history| history.until(at))
    }

    /// The newest version not newer than `at`, perhaps a tombstone.
    pub(crate) fn version_until(&self, at: Revision) -> Option<Version> {
        self.versions_until(at).checked_sub(1).map(|position| self.version_at(position))
    }

    /// The newest version not newer than `at`, unless the key was deleted by then.
    #[inline]
    pub(crate) fn live_until(&self, at: Revision) -> Option<Version> {
        // Most keys have no history: inlined, their version stays in registers.
        if self.history.is_none() {
            return (self.revision() <= at && self.is_live()).then(|| self.newest_with(Rest::default()));
        }
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
        while self.older_len() > 0 {
            let oldest = self.version_at(0);
            if oldest.revision >= revision {
                break;
            }
            dropped(&oldest);
            self.drop_oldest();
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
        let is_last = self.older_len() == 0;
        self.drop_oldest();
        is_last
    }

    /// Drops the oldest version, unless it is the newest too.
    fn drop_oldest(&mut self) {
        let Some(history) = &mut self.history else { return };
        if history.len() > 0 {
            history.pop_front();
        }
        if history.is_needless() {
            self.history = None;
        }
    }

    /// The reference of the version made by exactly this change.
    pub(crate) fn value_mut(&mut self, revision: Revision) -> Option<&mut ValueRef> {
        let position = self.versions_until(revision).checked_sub(1)?;
        if self.version_at(position).revision != revision {
            return None;
        }
        match &mut self.history {
            Some(history) if position < history.len() => Some(history.value_mut(position)),
            _ => Some(&mut self.value),
        }
    }

    /// Bytes of memory taken beside the record, without a long key's.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        self.history.as_ref().map_or(0, |history| size_of::<History>() + history.resident_bytes())
    }
}

/// The versions of a key. Skipping costs nothing.
pub(crate) struct Versions<'a> {
    record: &'a Record,
    left: Range<usize>,
}

impl Iterator for Versions<'_> {
    type Item = Version;

    fn next(&mut self) -> Option<Version> {
        self.nth(0)
    }

    fn nth(&mut self, skipped: usize) -> Option<Version> {
        self.left.nth(skipped).map(|position| self.record.version_at(position))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl DoubleEndedIterator for Versions<'_> {
    fn next_back(&mut self) -> Option<Version> {
        self.left.next_back().map(|position| self.record.version_at(position))
    }
}
