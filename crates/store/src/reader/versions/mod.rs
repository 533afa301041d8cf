//! Walking all retained versions in the order of revisions, for HashKV, export and backup.
//!
//! Versions at or below the compact revision C come from the index, later ones from the revision log:
//!
//! ```text
//! index:           each version that a read at C sees, sorted by revision, a window at a time
//! revision log:    C + 1, C + 2, ... up to the revision at which the walk began
//! ```
//!
//! The walk pins C, so nothing of it is purged meanwhile. A state that a snapshot brings has another C: the walk cannot
//! go on in it.

mod captured;
mod sorted;

use std::cell::Cell;

use bytes::Bytes;

pub use captured::CapturedState;
pub(super) use sorted::CompactedVersions;
use sorted::{SortedStep, SortedVersions};

use super::handle::Reader;
use super::pinned::PinnedRevision;
use crate::index::Version;
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

/// A walk over all retained versions.
pub struct VersionWalk {
    reader: Reader,
    compacted: i64,
    until: i64,
    old: SortedVersions,
    next: Revision,
    pinned: PinnedRevision,
}

impl Reader {
    /// Walks all retained versions, from the oldest up to the present.
    pub fn versions(&self) -> VersionWalk {
        let state = self.shared.state.read();
        let (compacted, until) = (state.compacted, state.revision);
        let pinned = PinnedRevision::new(&self.shared, &state, compacted);
        drop(state);
        VersionWalk::new(self, compacted, until, CompactedVersions::All, pinned)
    }
}

impl VersionWalk {
    /// Walks up to revision `until`. `pinned` pins `compacted`. Looks at nothing yet: any thread may begin a walk.
    pub(super) fn new(
        reader: &Reader,
        compacted: i64,
        until: i64,
        old: CompactedVersions,
        pinned: PinnedRevision,
    ) -> VersionWalk {
        let old = SortedVersions::new(old, compacted, reader.shared.limits.sorted_versions);
        let next = Revision { main: compacted + 1, sub: 0 };
        VersionWalk { reader: reader.clone(), compacted, until, old, next, pinned }
    }

    /// Begins again with the oldest version.
    pub fn rewind(&mut self) {
        self.old.rewind();
        self.next = Revision { main: self.compacted + 1, sub: 0 };
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

    /// Visits the next versions, at most `max`, and at least one unless none is left.
    fn visit_chunk(
        &mut self,
        max: usize,
        mut visit: impl FnMut(&[u8], &Version),
    ) -> Result<(), StateReplaced> {
        let visited = Cell::new(false);
        let mut visit = |key: &[u8], version: &Version| {
            visited.set(true);
            visit(key, version);
        };
        while !visited.get() && self.step(max, &mut visit)? {}
        Ok(())
    }

    /// Visits the next versions, at most `max`, or looks for them, at one chunk of keys; in one hold of the lock.
    /// Returns false at the end.
    ///
    /// # Errors
    /// [`StateReplaced`]
    pub(super) fn step(
        &mut self,
        max: usize,
        visit: &mut impl FnMut(&[u8], &Version),
    ) -> Result<bool, StateReplaced> {
        match self.old.step(&self.pinned, self.reader.shared.limits.chunk_keys)? {
            SortedStep::Walked => {}
            SortedStep::Ready => self.old.visit(&self.pinned.same_state()?.index, max, visit),
            SortedStep::AtEnd if self.next.main <= self.until => self.visit_new(max, visit)?,
            SortedStep::AtEnd => return Ok(false),
        }
        Ok(true)
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
