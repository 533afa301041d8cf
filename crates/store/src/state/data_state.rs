//! The part of the state that a backup keeps, and its hash.
//!
//! A restored cluster has other members, another cluster version and its own command set. All else is as it was: keys,
//! leases, alarms, users and roles, the revision. The hash of these parts is a sum like the
//! [state hash](crate::hash), without what is not kept, so both sides of a restore can compute it.

use super::store_state::StoreState;
use crate::hash::{PartHasher, PartKind};
use crate::types::AppliedId;

/// Identifies the data after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataState {
    /// The last applied entry.
    pub applied: AppliedId,
    /// The newest revision.
    pub revision: i64,
    /// The compact revision; -1 before the first compaction.
    pub compacted: i64,
    /// The hash of keys, leases, alarms, users and roles, and the revision.
    pub hash: u64,
}

impl DataState {
    /// That of a state between two entries.
    pub(crate) fn of(state: &StoreState) -> DataState {
        let (applied, revision, compacted) = (state.applied, state.revision, state.compacted);
        DataState { applied, revision, compacted, hash: state.data_hash() }
    }
}

impl StoreState {
    /// The hash of the data; see [`DataState::hash`].
    pub(crate) fn data_hash(&self) -> u64 {
        self.data_hash_with(self.key_hash, self.lessor.hash()).wrapping_add(self.revision as u64)
    }

    /// The sum over the data without the revision, given those over live keys and over leases.
    pub(super) fn data_hash_with(&self, key_hash: u64, lease_hash: u64) -> u64 {
        let mut sum = key_hash.wrapping_add(lease_hash).wrapping_add(self.auth.hash());
        for alarm in self.alarms.list(0) {
            let part = PartHasher::new(PartKind::Alarm).number(alarm.alarm as u64).number(alarm.member_id);
            sum = sum.wrapping_add(part.finish());
        }
        sum
    }
}
