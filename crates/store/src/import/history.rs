//! The end of an imported history: what it came to, a newest revision that is raised, and the lineage of the cluster
//! that begins with it.

use crate::checkpoint::RestoreError;
use crate::hash::{PartHasher, PartKind};
use crate::state::StoreState;

/// The highest revision that is taken: what a checkpoint may have.
pub(super) const MAX_IMPORTED_REVISION: i64 = 1 << 61;

/// What became of a state that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportTotals {
    /// The newest revision.
    pub revision: i64,
    /// The compact revision; -1 without one.
    pub compacted: i64,
    /// Live keys.
    pub keys: u64,
    /// Leases that keys are attached to, but that did not come. They are made with the longest time there is.
    pub missing_leases: u64,
}

/// A newest revision, raised by so much.
///
/// # Errors
/// [`RestoreError::Malformed`] when no store reaches that revision.
pub(super) fn raised(newest: i64, by: u64) -> Result<i64, RestoreError> {
    let raised = i64::try_from(by).ok().and_then(|by| newest.checked_add(by));
    let raised = raised.filter(|raised| *raised <= MAX_IMPORTED_REVISION);
    raised.ok_or(RestoreError::Malformed("no store reaches the raised revision"))
}

/// Compacts a state at a revision that it does not have: nothing is known of what changed there or before.
pub(super) fn begin_history_at(state: &mut StoreState, revision: i64) {
    (state.compacted, state.purged) = (revision, revision);
    state.index.begin_log_at(revision);
}

/// The lineage of a cluster that begins with a state: members of another lineage are refused, so members that begin
/// with different states, or without one, do not form a cluster. Equal states have equal numbers, none has 0.
pub(super) fn lineage(state: &StoreState, history_hash: u64) -> u64 {
    let hash = PartHasher::new(PartKind::Key).number(history_hash).number(state.hash());
    hash.number(state.compacted as u64).number(state.revision as u64).finish().max(1)
}
