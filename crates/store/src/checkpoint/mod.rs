//! Checkpoints: the whole state as bytes, or what changed since the one before.
//!
//! A *base* holds everything, a *delta* what changed since the checkpoint before it began. [`restore()`]
//! takes a base and any number of deltas. The format is described to the byte in
//! `docs/internals/store-checkpoint.md`.
//!
//! A checkpoint is consistent at the applied point where it began although it is written while commands are
//! applied: the versions of a key that existed then can be told by their revisions, and nothing is purged
//! meanwhile. Only small things are copied at the beginning: lists of what changed, members, alarms, and for
//! a base the leases.

mod addresses;
mod codec;
mod dirty;
mod frame;
mod restore;
mod source;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use addresses::{chunk_values, with_addresses};
use dirty::Baseline;
pub(crate) use dirty::Dirty;
pub(crate) use restore::restore;
pub use restore::{Restoration, RestoreError, Restored};
pub use source::CheckpointSource;

use crate::index::tree::Bounds;
use crate::state::{Shared, State, release};
use crate::types::{ValueRef, Values};

/// The format this version writes, and the only one it reads.
pub(crate) const FORMAT_VERSION: u16 = 2;

/// What a checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// The whole state.
    Base,
    /// What changed since the checkpoint before it began.
    Delta,
}

/// See [`Store::begin_checkpoint`](crate::Store::begin_checkpoint).
pub(crate) fn begin(shared: &Arc<Shared>, kind: CheckpointKind) -> CheckpointSource {
    let mut state = shared.state.write();
    let baseline = Baseline { position: state.applied, revision: state.revision };
    let changed = state.dirty.rebase(baseline).filter(|_| kind == CheckpointKind::Delta);
    let pin = shared.pin(state.purged);
    CheckpointSource::new(Arc::clone(shared), &state, changed, pin)
}

/// See [`Store::begin_snapshot`](crate::Store::begin_snapshot).
pub(crate) fn begin_detached(shared: &Arc<Shared>) -> CheckpointSource {
    let state = shared.state.read();
    let pin = shared.pin(state.purged);
    CheckpointSource::new(Arc::clone(shared), &state, None, pin)
}

/// Takes all references of a restored state.
pub(crate) fn retain_all(state: &State, values: &dyn Values) {
    values.retain_all(&mut all_values(state).filter(|value| value.len > 0));
}

/// Drops all references of a state that is given up.
pub(crate) fn release_all(state: &State, values: &dyn Values) {
    all_values(state).for_each(|value| release(values, &value));
}

fn all_values(state: &State) -> impl Iterator<Item = ValueRef> + '_ {
    let records = state.index.walk(&Bounds::ALL).map(|(record, _)| record);
    records.flat_map(|record| record.versions().map(|version| version.value))
}
