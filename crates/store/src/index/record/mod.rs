//! One key's retained versions. A key that was written once, or whose history is purged, takes half a cache line.
//!
//! ```text
//! KeyRecord, 32 bytes
//! | form 1 | PackedVersion 23: main 6, create 6, checksum 4, length 3, version 3, sub 1 | address 8 |      one version
//! | form 1 | PackedVersion 23                                                           | box 8 | -> KeyHistory
//! ```
//!
//! The packed fields are narrower than those of a [`Version`], but nothing is cut off: a key whose newest version does
//! not fit, or has a lease, has a box, as has a key with older versions. Such a version is one of more than 2^48
//! revisions, of a value of 16 MiB, the 2^24th of a key, or of the 257th put of a transaction. A read of a key
//! without a box touches this cache line only. The key itself is in the [tree](crate::index::KeyTree).

use std::ops::Range;

use super::older_versions::KeyHistory;
use super::packed_version::PackedVersion;
use super::version::Version;
use crate::memory::block_bytes;
use crate::types::Revision;
use crate::values::ValueRef;

#[cfg(test)]
mod tests;

/// The versions of a key; at least one.
pub(crate) enum KeyRecord {
    /// One version, and the address of its value.
    Alone(PackedVersion, u64),
    /// The newest version, without the address of its value and what does not fit.
    Boxed(PackedVersion, Box<KeyHistory>),
}

const _: () = assert!(size_of::<KeyRecord>() == 32, "two keys, one cache line");

impl Default for KeyRecord {
    fn default() -> KeyRecord {
        KeyRecord::Alone(PackedVersion::default(), 0)
    }
}

impl KeyRecord {
    /// A key with one version.
    pub(crate) fn new(first: Version) -> KeyRecord {
        let mut record = KeyRecord::default();
        record.set_newest(&first);
        record
    }

    /// Whether there is no box.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, KeyRecord::Alone(..))
    }

    fn history(&self) -> Option<&KeyHistory> {
        match self {
            KeyRecord::Alone(..) => None,
            KeyRecord::Boxed(_, history) => Some(history),
        }
    }

    /// The newest version; may be a tombstone.
    #[inline]
    pub(crate) fn newest(&self) -> Version {
        match self {
            KeyRecord::Alone(newest, address) => newest.with_address(*address),
            KeyRecord::Boxed(newest, history) => history.newest(newest),
        }
    }

    /// The revision of the newest version.
    #[inline]
    fn revision(&self) -> Revision {
        self.newest().revision
    }

    /// Whether the newest version is not a tombstone.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        let (KeyRecord::Alone(newest, _) | KeyRecord::Boxed(newest, _)) = self;
        newest.is_surely_live() || !self.newest().is_tombstone()
    }

    /// Adds a version, which must be newer than all others.
    pub(crate) fn push(&mut self, version: Version) {
        let newest = self.newest();
        assert!(version.revision > newest.revision, "versions come in the order of revisions");
        self.history_mut().push(&newest);
        self.set_newest(&version);
    }

    /// The box, made if there is none.
    fn history_mut(&mut self) -> &mut KeyHistory {
        if let KeyRecord::Alone(newest, address) = *self {
            *self = KeyRecord::Boxed(newest, Box::new(KeyHistory::of_newest_at(address)));
        }
        let KeyRecord::Boxed(_, history) = self else { unreachable!("it was made one") };
        history
    }

    fn set_newest(&mut self, version: &Version) {
        let packed = PackedVersion::low_bytes(version);
        if let (KeyRecord::Alone(newest, address), true) = (&mut *self, packed.is_all_of(version)) {
            (*newest, *address) = (packed, version.value.address);
            return;
        }
        self.history_mut().set_newest(version);
        if let KeyRecord::Boxed(newest, _) = self {
            *newest = packed;
        }
    }

    /// All versions, oldest first.
    pub(crate) fn versions(&self) -> RecordVersions<'_> {
        RecordVersions { record: self, left: 0..self.versions_len() }
    }

    /// The number of versions besides the newest.
    fn older_len(&self) -> usize {
        self.history().map_or(0, KeyHistory::len)
    }

    /// The number of versions; at least 1.
    pub(crate) fn versions_len(&self) -> usize {
        1 + self.older_len()
    }

    /// The version at `position`, counted from the oldest.
    fn version_at(&self, position: usize) -> Version {
        #[cfg(test)]
        crate::index::steps::count();
        match self.history() {
            Some(history) if position < history.len() => history.get(position),
            _ => self.newest(),
        }
    }

    /// The number of versions with a revision of at most `at`.
    pub(crate) fn versions_until(&self, at: Revision) -> usize {
        if self.revision() <= at {
            return self.versions_len();
        }
        self.history().map_or(0, |history| history.until(at))
    }

    /// The version that a read at `at` finds; may be a tombstone.
    pub(crate) fn version_until(&self, at: Revision) -> Option<Version> {
        self.versions_until(at).checked_sub(1).map(|position| self.version_at(position))
    }

    /// The version that a read at `at` sees; `None` if the key did not exist then.
    #[inline]
    pub(crate) fn live_until(&self, at: Revision) -> Option<Version> {
        // Most keys have no box. Inlined, their version stays in registers.
        if let KeyRecord::Alone(newest, address) = self {
            let newest = newest.with_address(*address);
            return (newest.revision <= at && !newest.is_tombstone()).then_some(newest);
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
        let KeyRecord::Boxed(newest, history) = self else { return };
        if history.len() > 0 {
            history.pop_front();
        }
        if history.holds_nothing() {
            *self = KeyRecord::Alone(*newest, history.newest_address());
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
            self.set_address_at(at, address);
        }
        true
    }

    fn set_address_at(&mut self, position: usize, address: u64) {
        match self {
            KeyRecord::Alone(_, newest) => *newest = address,
            KeyRecord::Boxed(_, history) => history.set_address(position, address),
        }
    }

    /// Bytes of memory taken besides the record: older versions, and what does not fit.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.history().map_or(0, |history| block_bytes(size_of::<KeyHistory>()) + history.heap_bytes())
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
