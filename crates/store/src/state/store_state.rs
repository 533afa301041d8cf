//! The replicated state itself.

use std::collections::BTreeSet;

use super::alarms::Alarms;
use super::changes::ChangeTracker;
use super::compaction_hash::CompactionHash;
use super::members::{FIRST_COMMAND_SET, Members};
use crate::auth::AuthState;
use crate::hash::{PartHasher, PartKind};
use crate::index::{KeyBounds, KeyIndex};
use crate::lessor::Lessor;
use crate::memory::StoreMemory;
use crate::types::{AppliedId, Revision};
use crate::values::ValueRef;

/// The revision of an empty store, as in etcd.
pub(super) const FIRST_REVISION: i64 = 1;

/// The compact revision of a store without a compaction. Clients see it in HashKV.
pub(crate) const NEVER_COMPACTED: i64 = -1;

/// A snapshot replaced the state during a walk that cannot go on in another one. The walk may begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a snapshot replaced the state")]
pub struct StateReplaced;

/// What a checkpoint holds, and what is derived from it.
pub(crate) struct StoreState {
    pub(crate) index: KeyIndex,
    pub(crate) lessor: Lessor,
    pub(crate) alarms: Alarms,
    pub(crate) members: Members,
    pub(crate) auth: AuthState,
    /// The newest revision.
    pub(crate) revision: i64,
    /// The compact revision, or [`NEVER_COMPACTED`].
    pub(crate) compacted: i64,
    /// The revision purging has reached; at most `compacted`.
    pub(crate) purged: i64,
    /// The last change that was purged at the revision that purging goes on at, until all of them are.
    pub(crate) purged_at_target: Option<Revision>,
    /// Of the compaction that is being purged. Local to this process: neither replicated nor in checkpoints, so a
    /// compaction whose purge a restart interrupts leaves no hash. The next one does.
    pub(crate) compaction_hash: Option<CompactionHash>,
    /// Of the compaction that was purged last, while the versions that it kept are not hashed and nothing more is
    /// purged.
    pub(crate) purged_hash: Option<CompactionHash>,
    /// Index and term of the last applied entry.
    pub(crate) applied: AppliedId,
    /// The state hash's sum over live keys, maintained incrementally.
    pub(crate) key_hash: u64,
    /// What changed since the last checkpoint began.
    pub(crate) changes: ChangeTracker,
    /// How often a snapshot replaced the whole state. Slots noted before are meaningless after.
    pub(crate) installs: u64,
    /// Of a batch that is in progress; local to this process.
    pub(crate) unfinished: UnfinishedBatch,
}

/// What readers must know of a batch that is applied in several slices, between two of them.
///
/// A command in progress has changed the index already, at the revision after the newest. Readers do not see that,
/// because they read at the newest revision or an older one. What does not depend on a revision is corrected with the
/// help of this:
///
/// ```text
/// revision 8, keys a b c of lease 7; the command in progress deletes [a, z)
/// slice 1   a @9.0 deleted       lease 7 has b c, detached [(7, a)]     a reader of lease 7 still finds a b c
/// slice 2   b @9.1, c @9.2       revision 9; lease 7 has no keys        detached []
/// ```
#[derive(Default)]
pub(crate) struct UnfinishedBatch {
    /// Whether a command is in progress.
    pub(crate) is_mid_command: bool,
    /// The state hash after the last applied entry, while a batch is in progress.
    pub(crate) hash_before: Option<u64>,
    /// Keys that the command in progress has detached from a lease: (lease, slot).
    pub(crate) detached: BTreeSet<(i64, u32)>,
}

impl Default for StoreState {
    fn default() -> StoreState {
        StoreState {
            index: KeyIndex::default(),
            lessor: Lessor::default(),
            alarms: Alarms::default(),
            members: Members::default(),
            auth: AuthState::default(),
            revision: FIRST_REVISION,
            compacted: NEVER_COMPACTED,
            purged: NEVER_COMPACTED,
            purged_at_target: None,
            compaction_hash: None,
            purged_hash: None,
            applied: AppliedId::default(),
            key_hash: 0,
            changes: ChangeTracker::default(),
            installs: 0,
            unfinished: UnfinishedBatch::default(),
        }
    }
}

impl StoreState {
    /// The revision that an unfinished purge has reached: versions below are dropped, and the files of their values may
    /// be gone. Equals `purged` when no purge is under way.
    pub(crate) fn purge_progress(&self) -> i64 {
        let next = self.index.log().front().map_or(self.compacted, |entry| entry.revision.main);
        self.purged.max(next.min(self.compacted))
    }

    /// What is accounted as its memory.
    pub(crate) fn memory(&self) -> StoreMemory {
        StoreMemory {
            index: self.index.accounted_bytes(),
            revision_log: self.index.log().accounted_bytes() as u64,
            leases: self.lessor.accounted_bytes(),
            auth: self.auth.accounted_bytes(),
            changes: self.changes.accounted_bytes(),
        }
    }

    /// The state hash, see [`crate::hash`].
    pub(crate) fn hash(&self) -> u64 {
        self.hash_with(self.key_hash, self.lessor.hash())
    }

    /// The state hash, given its sums over live keys and over leases.
    pub(super) fn hash_with(&self, key_hash: u64, lease_hash: u64) -> u64 {
        let mut sum = self.data_hash_with(key_hash, lease_hash);
        let mut add = |part: PartHasher| sum = sum.wrapping_add(part.finish());
        for member in self.members.members.values() {
            let mut part =
                PartHasher::new(PartKind::Member).number(member.id).number(u64::from(member.learner));
            part = part.bytes(member.name.as_bytes());
            for url in member.peer_urls.iter().chain(&member.client_urls) {
                part = part.bytes(url.as_bytes());
            }
            add(part.number(member.peer_urls.len() as u64).number(member.incarnation));
        }
        for id in &self.members.removed {
            add(PartHasher::new(PartKind::Removed).number(*id));
        }
        if let Some(version) = &self.members.cluster_version {
            add(PartHasher::new(PartKind::ClusterVersion).bytes(version.as_bytes()));
        }
        if let Some(target) = &self.members.downgrade_target {
            add(PartHasher::new(PartKind::Downgrade).bytes(target.as_bytes()));
        }
        if self.members.command_set > FIRST_COMMAND_SET {
            let part = PartHasher::new(PartKind::CommandSet).number(u64::from(self.members.command_set));
            add(part.number(self.members.changed_at));
        }
        sum.wrapping_add(self.revision as u64)
    }

    /// All references to values, without those to empty ones.
    pub(crate) fn all_values(&self) -> impl Iterator<Item = ValueRef> + '_ {
        let records = self.index.walk(&KeyBounds::ALL).map(|(entry, _)| entry.record());
        let values = records.flat_map(|record| record.versions().map(|version| version.value));
        values.filter(|value| value.len > 0)
    }
}
