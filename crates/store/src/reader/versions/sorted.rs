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
//! So N versions take N / window walks, each over the whole index: ten million, in windows of a million, take ten walks
//! over ten million keys, some seconds each. The order of revisions leaves no other way but more memory. A walk is made
//! in [steps](SortedVersions::step) of one short hold of the lock; what the steps have found so far is cut down and
//! sorted without it, at a million versions in some tens of milliseconds.
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

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortedStep {
    /// Some keys were looked at for the window.
    Walked,
    /// A version is next in the window.
    Ready,
    /// All versions were visited.
    AtEnd,
}

/// What the window is.
enum WindowState {
    /// It is still to be filled, with versions after this revision.
    Unfilled(Revision),
    /// A walk fills it.
    Filling(WindowFill),
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
        if !matches!(self.state, WindowState::Whole) {
            self.state = WindowState::Unfilled(Revision::default());
        }
    }

    /// Looks at up to `chunk_keys` keys, in one hold of the lock, if a window is to be filled.
    ///
    /// # Errors
    /// [`StateReplaced`]
    pub(super) fn step(
        &mut self,
        pinned: &PinnedRevision,
        chunk_keys: usize,
    ) -> Result<SortedStep, StateReplaced> {
        if matches!(self.state, WindowState::Part) && self.next == self.window.len() {
            let last = self.window.last().map_or(Revision::default(), SortedVersion::revision);
            self.state = WindowState::Unfilled(last);
        }
        if let WindowState::Unfilled(after) = self.state {
            let found = std::mem::take(&mut self.window);
            self.state = WindowState::Filling(WindowFill::new(after, self.max_window, found));
        }
        if matches!(self.state, WindowState::Filling(_)) {
            self.fill(pinned, chunk_keys)?;
            return Ok(SortedStep::Walked);
        }
        Ok(if self.next < self.window.len() { SortedStep::Ready } else { SortedStep::AtEnd })
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

    /// Walks the index some keys further. At its end the window is complete.
    fn fill(&mut self, pinned: &PinnedRevision, chunk_keys: usize) -> Result<(), StateReplaced> {
        let (wanted, compacted) = (self.wanted, self.compacted);
        let WindowState::Filling(fill) = &mut self.state else { return Ok(()) };
        let state = pinned.same_state()?;
        let bounds = KeyBounds { start: fill.start.as_slice(), end: None };
        let (after, oldest) = (fill.after, &mut fill.oldest);
        let rest = walk_slots(&state.index, &bounds, chunk_keys, |slot| {
            if let Some(version) = wanted_version(&state.index, slot, wanted, compacted)
                && version.revision > after
            {
                let Revision { main, sub } = version.revision;
                oldest.add(SortedVersion { main, sub, slot });
            }
        });
        drop(state);
        oldest.make_room();
        if let Some(key) = rest {
            fill.start = key;
            return Ok(());
        }
        let is_part = oldest.cut_down() | oldest.cut.is_some();
        self.window = std::mem::take(&mut oldest.found);
        self.window.sort_unstable();
        self.next = 0;
        self.state = match (is_part, after == Revision::default()) {
            (true, _) => WindowState::Part,
            (false, true) => WindowState::Whole,
            (false, false) => WindowState::Last,
        };
        Ok(())
    }
}

/// The version of the key in `slot` that is to be visited, if there is one.
fn wanted_version(index: &KeyIndex, slot: u32, wanted: CompactedVersions, compacted: i64) -> Option<Version> {
    let at = match wanted {
        CompactedVersions::LiveAt(revision) => revision,
        CompactedVersions::All | CompactedVersions::Live => compacted,
    };
    let version = index.at_slot(slot).version_until(Revision { main: at, sub: u32::MAX })?;
    let main = version.revision.main;
    let kept_tombstone = wanted == CompactedVersions::All && main == compacted;
    (main <= compacted && (!version.is_tombstone() || kept_tombstone)).then_some(version)
}

/// A walk over the index that fills a window.
struct WindowFill {
    /// Versions up to this revision were visited.
    after: Revision,
    /// The key where the walk goes on.
    start: IndexKey,
    oldest: OldestVersions,
}

impl WindowFill {
    /// A walk for the `max` oldest versions after `after`. `found` is memory to use again.
    fn new(after: Revision, max: usize, mut found: Vec<SortedVersion>) -> WindowFill {
        found.clear();
        WindowFill { after, start: IndexKey::default(), oldest: OldestVersions { max, found, cut: None } }
    }
}

/// Collects the oldest of many versions, in constant time for each, with room for twice as many and those of one hold.
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
    }

    /// After each hold of the lock: drops what is too much, if it has become twice as many.
    fn make_room(&mut self) {
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
