//! A state that comes from elsewhere, such as the database file of another server, version by version.
//!
//! Versions come in the order of their revisions, as etcd's file has them; the index is made from them as from
//! commands, but nothing is decided: each version says all that belongs to it.
//!
//! ```text
//! compact revision 5                                  what is made of it
//! a@3 (create 2, version 2), lease 7                  a: 3      lease 7 has a        not in the revision log
//! b@5 deleted                                         b: 5x                          revision log 5 -> b
//! a@6 (create 2, version 3)                           a: 3 6    lease 7 has nothing  revision log 6 -> a
//! ```
//!
//! The result is a [`Restored`] state, as of a snapshot that was received. What its server had logged and not yet
//! written into its file is applied to it as commands ([`ImportReplay`]).

mod history;
mod replay;

use api::etcdserverpb as pb;

use crate::auth::{AuthRole, AuthUser};
use crate::checkpoint::{RestoreError, Restored};
use crate::hash::{PartHasher, PartKind, key_hash};
use crate::index::Version;
use crate::lessor::{LeaseInfo, MAX_LEASE_TTL};
use crate::reader::RetainedVersion;
use crate::state::{ClusterMember, StoreState};
use crate::types::{AppliedId, Revision};

use history::{MAX_IMPORTED_REVISION, begin_history_at, lineage, raised};

pub use history::ImportTotals;
pub use replay::ImportReplay;

/// The longest key that is taken: that of the largest request.
const MAX_IMPORTED_KEY_BYTES: usize = 32 << 20;

/// Changes that may be missing between those that come. Servers leave none out above the compact revision; each takes a
/// little memory.
const MAX_UNKNOWN_CHANGES: u64 = 1 << 20;

/// The members that an imported state begins with, and what its cluster has decided together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedMembers {
    /// The members.
    pub members: Vec<ClusterMember>,
    /// Ids that are never used again.
    pub removed: Vec<u64>,
    /// As in "3.7.0"; `None` if the members are to decide it.
    pub cluster_version: Option<String>,
    /// As in "3.6.0"; `None` without a downgrade.
    pub downgrade_target: Option<String>,
}

/// A state that is being made. Leases come before the versions that name them.
pub struct StateImport {
    state: StoreState,
    last: Revision,
    unknown: u64,
    /// Of all versions so far.
    history_hash: u64,
}

impl StateImport {
    /// A state without keys. Below the compact revision `compacted`, history is incomplete; `None` if nothing was
    /// compacted.
    pub fn new(compacted: Option<i64>) -> StateImport {
        let mut state = StoreState::default();
        if let Some(compacted) = compacted.filter(|compacted| *compacted > 0) {
            (state.compacted, state.purged) = (compacted, compacted);
        }
        StateImport { state, last: Revision::default(), unknown: 0, history_hash: 0 }
    }

    /// Sets the entry that the state is of, and the members.
    pub fn members(&mut self, applied: AppliedId, imported: ImportedMembers, command_set: u8) {
        let ImportedMembers { members, removed, cluster_version, downgrade_target } = imported;
        self.state.applied = applied;
        let state = &mut self.state.members;
        state.members = members.into_iter().map(|member| (member.id, member)).collect();
        state.removed = removed.into_iter().collect();
        (state.cluster_version, state.downgrade_target) = (cluster_version, downgrade_target);
        state.command_set = command_set;
    }

    /// Adds a lease. Times that no lease has become the next that one has; the id 0 means no lease.
    pub fn lease(&mut self, lease: LeaseInfo) {
        if lease.id != 0 {
            let ttl = lease.ttl.clamp(1, MAX_LEASE_TTL);
            self.state.lessor.restore(LeaseInfo { ttl, remaining: lease.remaining.clamp(0, ttl), ..lease });
        }
    }

    /// Adds an alarm.
    pub fn alarm(&mut self, alarm: &pb::AlarmMember) {
        let action = pb::alarm_request::AlarmAction::Activate as i32;
        let (member_id, alarm) = (alarm.member_id, alarm.alarm);
        self.state.alarms.apply(&pb::AlarmRequest { action, member_id, alarm });
    }

    /// Sets users and roles.
    pub fn auth(
        &mut self,
        is_enabled: bool,
        revision: u64,
        users: impl IntoIterator<Item = AuthUser>,
        roles: impl IntoIterator<Item = AuthRole>,
    ) {
        let sorted = |mut user: AuthUser| {
            user.roles.sort_unstable();
            user
        };
        self.state.auth.restore(is_enabled, revision.max(1), users.into_iter().map(sorted), roles);
    }

    /// Adds the next version.
    ///
    /// # Errors
    /// [`RestoreError::Malformed`] for one that does not follow the one before, or that no store has.
    pub fn version(&mut self, version: &RetainedVersion) -> Result<(), RestoreError> {
        let kv = &version.kv;
        let revision = kv.mod_revision;
        if revision <= self.last || revision.main > MAX_IMPORTED_REVISION {
            return Err(RestoreError::Malformed("the revisions of versions do not ascend"));
        }
        let is_possible = kv.create_revision > 0 && kv.create_revision <= revision.main && kv.version > 0;
        let has_key = (1..=MAX_IMPORTED_KEY_BYTES).contains(&kv.key.len());
        if !has_key || !(version.tombstone || is_possible) {
            return Err(RestoreError::Malformed("a version has a key or numbers that no version has"));
        }
        let added = match version.tombstone {
            true => Version::tombstone(revision),
            false => Version {
                revision,
                create: kv.create_revision,
                version: kv.version,
                lease: kv.lease,
                value: kv.value,
            },
        };
        let hash = PartHasher::new(PartKind::Key).number(self.history_hash);
        self.history_hash = hash.number(key_hash(&kv.key, &added)).finish();
        let (slot, before) = self.state.index.import(&kv.key, added);
        if revision.main >= self.state.compacted {
            self.log(revision, slot)?;
        }
        self.last = revision;
        let before = before.filter(|before| !before.is_tombstone());
        if let Some(before) = &before {
            self.state.key_hash = self.state.key_hash.wrapping_sub(key_hash(&kv.key, before));
        }
        if !added.is_tombstone() {
            self.state.key_hash = self.state.key_hash.wrapping_add(key_hash(&kv.key, &added));
        }
        self.state.lessor.reattach(slot, before.map_or(0, |before| before.lease), added.lease);
        Ok(())
    }

    /// Notes a revision whose change is not known: it changed no key that the state could have.
    ///
    /// # Errors
    /// As [`version`](Self::version).
    pub fn unknown_revision(&mut self, main: i64) -> Result<(), RestoreError> {
        if main < self.last.main || main > MAX_IMPORTED_REVISION {
            return Err(RestoreError::Malformed("the revisions of versions do not ascend"));
        }
        self.last = self.last.max(Revision { main, sub: 0 });
        Ok(())
    }

    fn log(&mut self, revision: Revision, slot: u32) -> Result<(), RestoreError> {
        // The first revision of all, 1, has no change.
        let begin = self.state.compacted.max(1);
        if self.state.index.log().newest().is_none() && revision.main > begin + 1 {
            // Changes directly above the compact revision are missing: they count as others that are.
            self.state.index.begin_log_at(begin);
        }
        let log = self.state.index.log_mut();
        let (main, sub) = match log.newest() {
            Some(newest) if newest.main == revision.main => (0, revision.sub - newest.sub - 1),
            Some(newest) => (revision.main - newest.main - 1, revision.sub),
            None => (0, revision.sub),
        };
        self.unknown = self.unknown.saturating_add(main as u64).saturating_add(u64::from(sub));
        if self.unknown > MAX_UNKNOWN_CHANGES {
            return Err(RestoreError::Malformed("changes above the compact revision are missing"));
        }
        log.push_after_unknown(revision, slot);
        Ok(())
    }

    /// Raises the newest revision by so much and makes it the compact revision, so that no client that knows a later
    /// one than the newest here sees revisions fall: it must list its keys again. Only the newest version of each key
    /// remains.
    ///
    /// # Errors
    /// [`RestoreError::Malformed`] when no store reaches that revision.
    pub fn raise_revision(&mut self, by: u64) -> Result<(), RestoreError> {
        let raised = raised(self.newest_revision(), by)?;
        self.last = Revision { main: raised, sub: 0 };
        begin_history_at(&mut self.state, raised);
        Ok(())
    }

    fn newest_revision(&self) -> i64 {
        self.last.main.max(self.state.compacted).max(1)
    }

    /// Ends it, after the last version.
    ///
    /// # Errors
    /// [`RestoreError::Malformed`] when the change of the newest revision is missing and was not compacted.
    pub fn finish(mut self) -> Result<(Restored, ImportTotals), RestoreError> {
        let revision = self.newest_revision();
        if revision > MAX_IMPORTED_REVISION {
            return Err(RestoreError::Malformed("no store reaches the compact revision"));
        }
        let state = &mut self.state;
        state.revision = revision;
        let logged = state.index.log().newest().map_or(1, |newest| newest.main);
        if logged != revision {
            if state.compacted != revision {
                return Err(RestoreError::Malformed("the change of the newest revision is missing"));
            }
            state.index.begin_log_at(revision);
        }
        let missing_leases = grant_missing(state);
        state.members.lineage = lineage(state, self.history_hash);
        let (compacted, keys) = (state.compacted, state.index.live_keys());
        let totals = ImportTotals { revision, compacted, keys, missing_leases };
        Ok((Restored { state: self.state }, totals))
    }
}

/// Grants the leases that live keys are attached to and that do not exist: etcd keeps such keys forever. Returns how
/// many.
fn grant_missing(state: &mut StoreState) -> u64 {
    let StoreState { index, lessor, .. } = state;
    let mut granted = 0;
    let mut attached = Vec::new();
    for key in index.live_keys_in_order() {
        let lease = key.newest().lease;
        if lease != 0 && !lessor.contains(lease) {
            attached.push((lease, key.slot()));
        }
    }
    for (id, slot) in attached {
        if !lessor.contains(id) {
            lessor.restore(LeaseInfo { id, ttl: MAX_LEASE_TTL, remaining: 0 });
            granted += 1;
        }
        lessor.reattach(slot, 0, id);
    }
    granted
}

#[cfg(test)]
mod tests;
