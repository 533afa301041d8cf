//! Walking all retained versions in the order of revisions, for HashKV, export and backup.
//!
//! Versions at or below the compact revision C come from the index, later ones from the revision log:
//!
//! ```text
//! index, one pass: (revision, key) of each version that a read at C sees, sorted by revision
//! revision log:    C + 1, C + 2, ... up to the revision at which the walk began
//! ```
//!
//! The first part is the only read whose memory grows with the number of keys, by about 40 bytes each. The walk pins
//! C, so nothing of it is purged meanwhile. A state that a snapshot brings has another C: the walk cannot go on in it.

use std::cell::Cell;
use std::cmp::Reverse;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
use crate::index::{IndexKey, KeyBounds, Version, walk_chunk};
use crate::range::kv_ref;
use crate::state::StateReplaced;
use crate::types::{KvRef, Revision};

/// A retained version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedVersion {
    /// The version; for a tombstone the key and mod revision alone.
    pub kv: KvRef,
    /// Whether it ends a generation.
    pub tombstone: bool,
}

/// Which versions at or below the compact revision a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompactedVersions {
    /// Those that a read at the compact revision sees, and tombstones of that revision itself.
    All,
    /// Those that a read at the compact revision sees.
    Live,
    /// Those that a read at this later revision sees.
    LiveAt(i64),
}

/// A walk over all retained versions.
pub struct VersionWalk {
    reader: Reader,
    compacted: i64,
    until: i64,
    /// Sorted, the oldest last.
    old: Vec<(Revision, IndexKey)>,
    next: Revision,
    pinned: PinnedRevision,
}

impl Reader {
    /// Walks all retained versions, from the oldest up to the present.
    pub fn versions(&self) -> VersionWalk {
        from_the_beginning(|| {
            let state = self.shared.state.read();
            let (compacted, until) = (state.compacted, state.revision);
            let pinned = PinnedRevision::new(&self.shared, &state, compacted);
            drop(state);
            VersionWalk::new(self, compacted, until, CompactedVersions::All, pinned)
        })
    }
}

impl VersionWalk {
    /// Walks up to revision `until`. `pinned` pins `compacted`.
    ///
    /// # Errors
    /// [`StateReplaced`]
    pub(super) fn new(
        reader: &Reader,
        compacted: i64,
        until: i64,
        old: CompactedVersions,
        pinned: PinnedRevision,
    ) -> Result<VersionWalk, StateReplaced> {
        let next = Revision { main: compacted + 1, sub: 0 };
        let mut walk =
            VersionWalk { reader: reader.clone(), compacted, until, old: Vec::new(), next, pinned };
        if compacted > 0 {
            walk.collect(old)?;
        }
        Ok(walk)
    }

    /// Whose state is walked.
    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The revision the walk ends at.
    pub fn until(&self) -> i64 {
        self.until
    }

    /// The next versions, at most `max`; empty at the end.
    ///
    /// # Errors
    /// [`StateReplaced`]: begin another walk.
    pub fn next_chunk(&mut self, max: usize) -> Result<Vec<RetainedVersion>, StateReplaced> {
        let mut chunk = Vec::new();
        self.visit_chunk(max, |key, version| chunk.push(retained(key, version)))?;
        Ok(chunk)
    }

    /// Visits the next versions, at most `max`. Returns whether there were any; false at the end.
    ///
    /// # Errors
    /// [`StateReplaced`]
    pub(super) fn visit_chunk(
        &mut self,
        max: usize,
        mut visit: impl FnMut(&[u8], &Version),
    ) -> Result<bool, StateReplaced> {
        let visited = Cell::new(false);
        let mut visit = |key: &[u8], version: &Version| {
            visited.set(true);
            visit(key, version);
        };
        while !self.old.is_empty() || self.next.main <= self.until {
            if self.old.is_empty() {
                self.visit_new(max, &mut visit)?;
            } else {
                self.visit_old(max, &mut visit)?;
            }
            if visited.get() {
                break;
            }
        }
        Ok(visited.get())
    }

    fn collect(&mut self, old: CompactedVersions) -> Result<(), StateReplaced> {
        let at = match old {
            CompactedVersions::LiveAt(revision) => revision,
            CompactedVersions::All | CompactedVersions::Live => self.compacted,
        };
        let at = Revision { main: at, sub: u32::MAX };
        let compacted = self.compacted;
        let wanted = |version: &Version| {
            let kept_tombstone = old == CompactedVersions::All && version.revision.main == compacted;
            version.revision.main <= compacted && (!version.is_tombstone() || kept_tombstone)
        };
        let mut start = IndexKey::default();
        loop {
            let state = self.pinned.same_state()?;
            let bounds = KeyBounds { start: start.as_slice(), end: None };
            let max_keys = self.reader.shared.limits.chunk_keys;
            let rest = walk_chunk(&state.index, &bounds, max_keys, |key, record, _| {
                if let Some(version) = record.version_until(at).filter(wanted) {
                    self.old.push((version.revision, IndexKey::new(key)));
                }
                ControlFlow::Continue(())
            });
            match rest {
                Some(key) => start = key,
                None => break,
            }
        }
        self.old.sort_unstable_by_key(|(revision, _)| Reverse(*revision));
        Ok(())
    }

    fn visit_old(
        &mut self,
        max: usize,
        visit: &mut impl FnMut(&[u8], &Version),
    ) -> Result<(), StateReplaced> {
        let state = self.pinned.same_state()?;
        let from = self.old.len().saturating_sub(max.max(1));
        for (revision, key) in self.old.drain(from..).rev() {
            let record = state.index.record(key.as_slice());
            if let Some((version, _)) = record.and_then(|record| record.version_exactly(revision)) {
                visit(key.as_slice(), &version);
            }
        }
        Ok(())
    }

    fn visit_new(
        &mut self,
        max: usize,
        visit: &mut impl FnMut(&[u8], &Version),
    ) -> Result<(), StateReplaced> {
        let state = self.pinned.same_state()?;
        let mut entries = state.index.log().iter_at(self.next);
        self.next = Revision { main: self.until + 1, sub: 0 };
        for entry in entries.by_ref().take(max.max(1)) {
            if entry.revision.main > self.until {
                return Ok(());
            }
            let Some(slot) = entry.slot else { continue };
            let record = state.index.at_slot(slot);
            if let Some((version, _)) = record.version_exactly(entry.revision) {
                visit(&state.index.key(slot), &version);
            }
        }
        if let Some(entry) = entries.next() {
            self.next = entry.revision;
        }
        Ok(())
    }
}

fn retained(key: &[u8], version: &Version) -> RetainedVersion {
    RetainedVersion { kv: kv_ref(Bytes::copy_from_slice(key), version), tombstone: version.is_tombstone() }
}
