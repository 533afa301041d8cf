//! The versions at or below the compact revision, in the order of revisions. The index has them in the order of keys,
//! and the revision log does not reach so far back.
//!
//! All of them would take 16 bytes for each key, hundreds of megabytes for a large store. So they are sorted a *window*
//! at a time: a walk over the index finds the oldest versions that were not visited yet, as many as a window holds.
//!
//! ```text
//! index    a@7 b@3 c@9 d@5 e@4        window of two
//! walk 1   b@3 e@4                    visited in this order; the next walk looks for versions after 4
//! walk 2   d@5 a@7
//! walk 3   c@9
//! ```
//!
//! A window is noted by slots. The walk pins the compact revision: a version that a read at that revision sees is not
//! purged, nor is a tombstone of that revision, so their keys keep their slots.

use crate::index::{IndexKey, KeyBounds, KeyIndex, Version, walk_slots};
use crate::reader::pinned::PinnedRevision;
use crate::state::StateReplaced;
use crate::types::Revision;

/// Which versions at or below the compact revision a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reader) enum CompactedVersions {
    /// Those that a read at the compact revision sees, and tombstones of that revision itself.
    All,
    /// Those that a read at the compact revision sees.
    Live,
    /// Those that a read at this later revision sees.
    LiveAt(i64),
}

/// A version, by its revision and the slot of its key: 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SortedVersion {
    main: i64,
    sub: u32,
    slot: u32,
}

impl SortedVersion {
    fn revision(&self) -> Revision {
        Revision { main: self.main, sub: self.sub }
    }
}

/// The versions at or below the compact revision that are still to be visited.
pub(super) struct SortedVersions {
    wanted: CompactedVersions,
    compacted: i64,
    max_window: usize,
    /// Ascending.
    window: Vec<SortedVersion>,
    /// Where in the window the next version is.
    next: usize,
    state: WindowState,
}

/// What the window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowState {
    /// It is still to be filled, with versions after this revision.
    Unfilled(Revision),
    /// All versions are in it.
    Whole,
    /// Versions follow that are not in it.
    Part,
    /// It is the last of several.
    Last,
}

impl SortedVersions {
    /// Those that `wanted` says, for the compact revision `compacted`, in windows of `max_window`.
    pub(super) fn new(wanted: CompactedVersions, compacted: i64, max_window: usize) -> SortedVersions {
        let is_empty = compacted <= 0;
        let state = if is_empty { WindowState::Whole } else { WindowState::Unfilled(Revision::default()) };
        let (window, max_window) = (Vec::new(), max_window.max(1));
        SortedVersions { wanted, compacted, max_window, window, next: 0, state }
    }

    /// Begins again with the oldest.
    pub(super) fn rewind(&mut self) {
        self.next = 0;
        if self.state != WindowState::Whole {
            self.state = WindowState::Unfilled(Revision::default());
        }
    }

    /// Makes the next window if it is needed. Returns whether a version is left.
    ///
    /// # Errors
    /// [`StateReplaced`]
    pub(super) fn prepare(
        &mut self,
        pinned: &PinnedRevision,
        chunk_keys: usize,
    ) -> Result<bool, StateReplaced> {
        if self.state == WindowState::Part && self.next == self.window.len() {
            let last = self.window.last().map_or(Revision::default(), SortedVersion::revision);
            self.state = WindowState::Unfilled(last);
        }
        if let WindowState::Unfilled(after) = self.state {
            self.fill(pinned, chunk_keys, after)?;
        }
        Ok(self.next < self.window.len())
    }

    /// Visits the next versions of the window, at most `max`.
    pub(super) fn visit(&mut self, index: &KeyIndex, max: usize, visit: &mut impl FnMut(&[u8], &Version)) {
        let end = self.window.len().min(self.next + max.max(1));
        for found in &self.window[self.next..end] {
            if !index.is_valid(found.slot) {
                continue;
            }
            if let Some((version, _)) = index.at_slot(found.slot).version_exactly(found.revision()) {
                visit(&index.key(found.slot), &version);
            }
        }
        self.next = end;
    }

    /// Walks the index for the oldest versions after `after`.
    fn fill(
        &mut self,
        pinned: &PinnedRevision,
        chunk_keys: usize,
        after: Revision,
    ) -> Result<(), StateReplaced> {
        let mut start = IndexKey::default();
        let mut oldest =
            OldestVersions { max: self.max_window, found: std::mem::take(&mut self.window), cut: None };
        oldest.found.clear();
        loop {
            let state = pinned.same_state()?;
            let bounds = KeyBounds { start: start.as_slice(), end: None };
            let rest = walk_slots(&state.index, &bounds, chunk_keys, |slot| {
                if let Some(version) = self.wanted_version(&state.index, slot)
                    && version.revision > after
                {
                    let Revision { main, sub } = version.revision;
                    oldest.add(SortedVersion { main, sub, slot });
                }
            });
            match rest {
                Some(key) => start = key,
                None => break,
            }
        }
        let is_part = oldest.cut_down() | oldest.cut.is_some();
        self.window = oldest.found;
        self.window.sort_unstable();
        self.next = 0;
        self.state = match (is_part, after == Revision::default()) {
            (true, _) => WindowState::Part,
            (false, true) => WindowState::Whole,
            (false, false) => WindowState::Last,
        };
        Ok(())
    }

    /// The version of the key in `slot` that is to be visited, if there is one.
    fn wanted_version(&self, index: &KeyIndex, slot: u32) -> Option<Version> {
        let at = match self.wanted {
            CompactedVersions::LiveAt(revision) => revision,
            CompactedVersions::All | CompactedVersions::Live => self.compacted,
        };
        let version = index.at_slot(slot).version_until(Revision { main: at, sub: u32::MAX })?;
        let main = version.revision.main;
        let kept_tombstone = self.wanted == CompactedVersions::All && main == self.compacted;
        (main <= self.compacted && (!version.is_tombstone() || kept_tombstone)).then_some(version)
    }
}

/// Collects the oldest of many versions, in constant time for each, with room for twice as many.
struct OldestVersions {
    max: usize,
    found: Vec<SortedVersion>,
    /// What is not older does not belong to the oldest.
    cut: Option<SortedVersion>,
}

impl OldestVersions {
    fn add(&mut self, version: SortedVersion) {
        if self.cut.is_some_and(|cut| version >= cut) {
            return;
        }
        self.found.push(version);
        if self.found.len() >= 2 * self.max {
            self.cut_down();
        }
    }

    /// Drops what is too much. Returns whether it did.
    fn cut_down(&mut self) -> bool {
        if self.found.len() <= self.max {
            return false;
        }
        let (_, cut, _) = self.found.select_nth_unstable(self.max);
        self.cut = Some(*cut);
        self.found.truncate(self.max);
        true
    }
}
