//! The state between the lock holds of one read.
//!
//! A read that needs several holds pins its revision, so that what the holds see fits together. The pin does not bind a
//! snapshot: one that is installed between two holds replaces the whole state, and may have been compacted beyond the
//! revision. Both states are of one log, so a revision that the new one retains is equal in both.
//!
//! ```text
//! hold 1: revision 50, keys a to m
//!         installed: revision 90, compacted at 40      hold 2: goes on after m, at revision 50
//!         installed: revision 90, compacted at 60      hold 2: StateReplaced. Versions that revision 50 sees are gone.
//! ```
//!
//! Counts, slots and lists of revisions belong to the state they were taken from and begin again in the new one. Keys
//! and revisions mean the same in both.

use std::sync::Arc;

use parking_lot::RwLockReadGuard;

use crate::index::KeyBounds;
use crate::range::RangeCount;
use crate::state::{RevisionPin, StateReplaced, StoreShared, StoreState};

/// A revision that is read in several holds of the lock.
pub(super) struct PinnedRevision {
    shared: Arc<StoreShared>,
    revision: i64,
    /// The installs of the state in which the read began.
    installs: u64,
    _pin: RevisionPin,
}

impl PinnedRevision {
    /// Pins a revision that `state`, which the caller has locked, retains.
    pub(super) fn new(shared: &Arc<StoreShared>, state: &StoreState, revision: i64) -> PinnedRevision {
        let (installs, pin) = (state.installs, shared.pin(revision));
        PinnedRevision { shared: Arc::clone(shared), revision, installs, _pin: pin }
    }

    /// The revision.
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Locks the state for another hold.
    ///
    /// # Errors
    /// [`StateReplaced`] when another state was installed and is compacted beyond the revision.
    pub(super) fn state(&self) -> Result<RwLockReadGuard<'_, StoreState>, StateReplaced> {
        let state = self.shared.state.read();
        let is_lost = state.installs != self.installs && self.revision < state.compacted;
        if is_lost { Err(StateReplaced) } else { Ok(state) }
    }

    /// Locks the state for another hold of a walk that cannot go on in another state.
    ///
    /// # Errors
    /// [`StateReplaced`] when another state was installed.
    pub(super) fn same_state(&self) -> Result<RwLockReadGuard<'_, StoreState>, StateReplaced> {
        self.shared.state_of(self.installs)
    }

    /// Completes a count of the keys of `bounds` that began in the first hold. In a new state it begins again.
    ///
    /// # Errors
    /// As [`PinnedRevision::state`].
    pub(super) fn count(&self, mut count: RangeCount, bounds: &KeyBounds<'_>) -> Result<u64, StateReplaced> {
        let mut installs = self.installs;
        loop {
            let state = self.state()?;
            if state.installs != installs {
                installs = state.installs;
                count = RangeCount::new(&state.index, bounds, self.revision);
            }
            if let Some(total) = count.advance(&state.index, self.shared.limits.count_steps) {
                let bounds = (bounds.start.to_vec(), bounds.end.map(<[u8]>::to_vec));
                self.shared.known_counts.note(self.revision, bounds, total);
                return Ok(total);
            }
        }
    }
}

/// Carries out a read of which nothing was answered yet; from its beginning, whenever its revision is lost. Then a read
/// of the newest revision reads the new state's, and one of an older revision fails as compacted.
pub(super) fn from_the_beginning<T>(mut read: impl FnMut() -> Result<T, StateReplaced>) -> T {
    loop {
        if let Ok(done) = read() {
            return done;
        }
    }
}
