//! Replaying committed entries at a start.

use consensus::ConfState;
use log::{Log, LogId};
use store::{Damaged, Store};

use super::error::OpenMemberError;
use crate::apply::{self, BatchBeingApplied, ReplayError};

/// Which entries a start replays.
#[derive(Clone, Copy)]
pub(super) struct ReplayRange {
    /// The recorded commit index.
    pub(super) commit: u64,
    /// The last entry that is whole.
    pub(super) last: u64,
    /// The member that is forced to go on alone: it wants every entry that it has, whether it was committed or not,
    /// but for a removal of itself that is not known to be.
    pub(super) forced: Option<u64>,
}

impl ReplayRange {
    fn is_committed(&self, index: u64) -> bool {
        index <= self.commit || self.forced.is_some()
    }

    /// Whether an entry is skipped.
    fn is_void(&self, entry: &consensus::Entry) -> bool {
        entry.index > self.commit && self.forced.is_some_and(|id| apply::is_removal_of(entry, id))
    }
}

/// The committed entries, as far as they could be applied.
pub(super) struct Replayed {
    /// The last one that was applied.
    pub(super) applied: LogId,
    /// Those after it, committed or not.
    pub(super) rest: Vec<consensus::Entry>,
    /// The committed entry after it compares a damaged value.
    pub(super) damaged: Option<DamagedCompare>,
}

/// A start stops before an entry that compares a damaged value. The member goes on as one that has not learned yet that
/// this entry is committed: it takes part, and when the leader says so it applies the entry once a peer has sent the
/// value.
pub(super) struct DamagedCompare {
    index: u64,
    damaged: Damaged,
    /// What is applied of the entry.
    pub(super) begun: Option<BatchBeingApplied>,
}

impl DamagedCompare {
    pub(super) fn refusal(&self) -> OpenMemberError {
        let reason = format!("it compares a value that is damaged here: {}", self.damaged);
        OpenMemberError::Replay { index: self.index, reason }
    }

    pub(super) fn warning(&self) -> String {
        let Self { index, damaged, .. } = self;
        format!("entry {index} compares a damaged value, which must come from another member: {damaged}")
    }
}

/// Applies the committed entries after `applied` to the store and to the configuration in force. A store that has begun
/// one of them, and misses a damaged value, applies nothing further.
pub(super) fn replay(
    log: &Log,
    (store, conf_state): (&mut Store, &mut ConfState),
    mut applied: LogId,
    range: ReplayRange,
) -> Result<Replayed, OpenMemberError> {
    let mut rest = Vec::new();
    let mut damaged = None;
    let mut is_stopped = store.is_applying();
    store.begin_replay();
    let count = usize::try_from(range.last - applied.index).unwrap_or(usize::MAX);
    for entry in log.entries_from(applied.index + 1).take(count) {
        let (entry, address) = entry.map_err(|error| OpenMemberError::Read { reason: error.to_string() })?;
        let (index, term) = (entry.index, entry.term);
        let broken = |reason: String| OpenMemberError::Replay { index, reason };
        let entry = apply::from_log(entry).ok_or_else(|| broken("its kind is not known here".to_owned()))?;
        if is_stopped || !range.is_committed(index) {
            rest.push(entry);
            continue;
        }
        let replayed = match range.is_void(&entry) {
            true => {
                store.apply_empty(apply::applied_id(&entry));
                Ok(())
            }
            false => apply::replay(store, conf_state, &entry, address),
        };
        match replayed {
            Ok(()) => applied = LogId { index, term },
            Err(ReplayError::Entry(reason)) => return Err(broken(reason)),
            Err(ReplayError::Damaged(value, begun)) => {
                is_stopped = true;
                damaged = Some(DamagedCompare { index, damaged: value, begun });
                rest.push(entry);
            }
        }
    }
    assert!(
        is_stopped || range.forced.is_some() || applied.index == range.commit.min(range.last),
        "the commit index is that of the checkpoint or of an entry after it"
    );
    store.end_replay();
    Ok(Replayed { applied, rest, damaged })
}
