//! One key with all its retained versions. A key that was written once, without a lease, takes one cache line.
//!
//! ```text
//! KeyRecord, 64 bytes
//! | key 16 | value ref 16 | main 8 | create 8 | sub 4 | version, low half 4 | box 8 | -> OlderVersions, if needed
//!          \____________________ newest version _______________________/
//! ```
//!
//! The newest version's lease, and a version number above 2^32, do not fit; they are in the box, with the older
//! versions. A read at the newest revision of a key without a box touches this cache line only.

use std::ops::Range;

use super::key::IndexKey;
use super::older_versions::{NewestExtra, OlderVersions};
use super::version::Version;
use crate::memory::block_bytes;
use crate::types::Revision;
use crate::values::ValueRef;

#[cfg(test)]
mod tests;

/// A key and its versions; at least one.
#[derive(Default)]
pub(crate) struct KeyRecord {
    key: IndexKey,
    value: ValueRef,
    main: i64,
    create: i64,
    sub: u32,
    version_low: u32,
    history: Option<Box<OlderVersions>>,
}

const _: () = assert!(size_of::<KeyRecord>() == 64, "one key, one cache line");

impl KeyRecord {
    /// A key with one version.
    pub(crate) fn new(key: IndexKey, first: Version) -> KeyRecord {
        let mut record = KeyRecord { key, ..KeyRecord::default() };
        record.set_newest(first);
        record
    }

    /// The key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.as_slice()
    }

    /// The key of a record that was removed.
    pub(crate) fn into_key(self) -> IndexKey {
        self.key
    }

    /// The newest version; may be a tombstone.
    pub(crate) fn newest(&self) -> Version {
        self.newest_with(self.history.as_ref().map_or(NewestExtra::default(), |history| history.newest()))
    }

    /// The newest version, with the fields that are not in the record.
    #[inline]
    fn newest_with(&self, rest: NewestExtra) -> Version {
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

    /// Adds a version, which must be newer than all others.
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
        let rest = NewestExtra::of(&version);
        if rest != NewestExtra::default() || self.history.is_some() {
            self.history.get_or_insert_default().set_newest(rest);
        }
    }

    /// All versions, oldest first.
    pub(crate) fn versions(&self) -> RecordVersions<'_> {
        RecordVersions { record: self, left: 0..self.versions_len() }
    }

    /// The number of versions besides the newest.
    fn older_len(&self) -> usize {
        self.history.as_ref().map_or(0, |history| history.len())
    }

    /// The number of versions; at least 1.
    pub(crate) fn versions_len(&self) -> usize {
        1 + self.older_len()
    }

    /// The version at `position`, counted from the oldest.
    fn version_at(&self, position: usize) -> Version {
        match &self.history {
            Some(history) if position < history.len() => history.get(position),
            _ => self.newest(),
        }
    }

    /// The number of versions with a revision of at most `at`.
    pub(crate) fn versions_until(&self, at: Revision) -> usize {
        if self.revision() <= at {
            return self.versions_len();
        }
        self.history.as_ref().map_or(0, |history| history.until(at))
    }

    /// The version that a read at `at` finds; may be a tombstone.
    pub(crate) fn version_until(&self, at: Revision) -> Option<Version> {
        self.versions_until(at).checked_sub(1).map(|position| self.version_at(position))
    }

    /// The version that a read at `at` sees; `None` if the key did not exist then.
    #[inline]
    pub(crate) fn live_until(&self, at: Revision) -> Option<Version> {
        // Most keys have no box. Inlined, their version stays in registers.
        if self.history.is_none() {
            return (self.revision() <= at && self.is_live())
                .then(|| self.newest_with(NewestExtra::default()));
        }
        self.version_until(at).filter(|version| !version.is_tombstone())
    }

    /// The version made by exactly this change, and the version before it.
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

    /// Drops the oldest version if it is the tombstone of `revision`. Returns whether no version is left, so that the
    /// caller must remove the key.
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

    /// Drops the oldest version. Does nothing if it is also the newest.
    fn drop_oldest(&mut self) {
        let Some(history) = &mut self.history else { return };
        if history.len() > 0 {
            history.pop_front();
        }
        if history.holds_nothing() {
            self.history = None;
        }
    }

    /// Replaces the address of the value `old`, which the version made by the change `revision` has. Versions that
    /// share a value (`ignore_value`) follow each other; all of them change. Calls `changed` with the revision of each;
    /// returns false, and changes nothing, if that version does not have that value.
    pub(crate) fn relocate(
        &mut self,
        revision: Revision,
        old: &ValueRef,
        address: u64,
        mut changed: impl FnMut(Revision),
    ) -> bool {
        let has_old = |version: Version| version.value == *old;
        let Some(position) = self.versions_until(revision).checked_sub(1) else { return false };
        let version = self.version_at(position);
        if version.revision != revision || !has_old(version) {
            return false;
        }
        let before = (0..position).rev().take_while(|at| has_old(self.version_at(*at))).count();
        let sharing = (position - before..self.versions_len())
            .take_while(|at| *at <= position || has_old(self.version_at(*at)))
            .count();
        for at in position - before..position - before + sharing {
            changed(self.version_at(at).revision);
            self.value_mut(at).address = address;
        }
        true
    }

    /// The value reference of the version at `position`.
    fn value_mut(&mut self, position: usize) -> &mut ValueRef {
        match &mut self.history {
            Some(history) if position < history.len() => history.value_mut(position),
            _ => &mut self.value,
        }
    }

    /// Bytes of memory taken besides the record: a long key, older versions.
    pub(crate) fn heap_bytes(&self) -> usize {
        let history = self.history.as_ref();
        self.key.heap_bytes()
            + history.map_or(0, |history| block_bytes(size_of::<OlderVersions>()) + history.heap_bytes())
    }
}

/// The versions of a key, oldest first. `nth` takes constant time.
pub(crate) struct RecordVersions<'a> {
    record: &'a KeyRecord,
    left: Range<usize>,
}

impl Iterator for RecordVersions<'_> {
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

impl DoubleEndedIterator for RecordVersions<'_> {
    fn next_back(&mut self) -> Option<Version> {
        self.left.next_back().map(|position| self.record.version_at(position))
    }
}
