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
use sorted::SortedVersions;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
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
        let limits = reader.shared.limits;
        let mut old = SortedVersions::new(old, compacted, limits.sorted_versions);
        old.prepare(&pinned, limits.chunk_keys)?;
        let next = Revision { main: compacted + 1, sub: 0 };
        Ok(VersionWalk { reader: reader.clone(), compacted, until, old, next, pinned })
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
        let chunk_keys = self.reader.shared.limits.chunk_keys;
        while !visited.get() {
            if self.old.prepare(&self.pinned, chunk_keys)? {
                self.old.visit(&self.pinned.same_state()?.index, max, &mut visit);
            } else if self.next.main <= self.until {
                self.visit_new(max, &mut visit)?;
            } else {
                break;
            }
        }
        Ok(visited.get())
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
