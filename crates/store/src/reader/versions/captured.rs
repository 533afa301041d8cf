//! The whole state as of one applied entry, for a backup.

use api::etcdserverpb as pb;

use super::VersionWalk;
use super::sorted::CompactedVersions;
use crate::auth::{AuthRole, AuthUser};
use crate::lessor::LeaseInfo;
use crate::reader::handle::Reader;
use crate::reader::pinned::PinnedRevision;
use crate::state::ClusterMember;
use crate::types::AppliedId;

/// The whole state as of one applied entry: what is small as a copy, and a walk over the versions. While it lives,
/// nothing of it is purged.
pub struct CapturedState {
    /// The entry.
    pub applied: AppliedId,
    /// The newest revision.
    pub revision: i64,
    /// The hash of the data; see [`DataState`](crate::DataState).
    pub data_hash: u64,
    /// The compact revision; -1 before the first compaction.
    pub compacted: i64,
    /// All leases, by id; 24 bytes each.
    pub leases: Vec<LeaseInfo>,
    /// The raised alarms.
    pub alarms: Vec<pb::AlarmMember>,
    /// The members, by id.
    pub members: Vec<ClusterMember>,
    /// Ids of former members.
    pub removed_members: Vec<u64>,
    /// As in "3.7.0"; `None` until it is set.
    pub cluster_version: Option<String>,
    /// Whether auth is enabled.
    pub is_auth_enabled: bool,
    /// The auth revision.
    pub auth_revision: u64,
    /// All users, by name.
    pub users: Vec<AuthUser>,
    /// All roles, by name.
    pub roles: Vec<AuthRole>,
    /// The version to downgrade to; `None` while no downgrade is enabled.
    pub downgrade_target: Option<String>,
    /// All retained versions up to the newest revision.
    pub versions: VersionWalk,
}

impl Reader {
    /// Captures the state. One hold of the lock copies what is small. The leases are read in several, as they were in
    /// this one: a lease that ended in between would leave keys that never expire.
    ///
    /// `None` while an entry is being applied in several slices, and when a snapshot was installed meanwhile. That
    /// takes milliseconds: ask again.
    pub fn capture(&self) -> Option<CapturedState> {
        let state = self.shared.state.read();
        if state.unfinished.hash_before.is_some() {
            return None;
        }
        let (revision, compacted) = (state.revision, state.compacted);
        let data_hash = state.data_hash();
        let pinned = PinnedRevision::new(&self.shared, &state, compacted);
        let (applied, mut frozen) = (state.applied, state.lessor.freeze());
        let alarms = state.alarms.list(pb::AlarmType::None as i32);
        let members = state.members.clone();
        let auth = state.auth.freeze();
        drop(state);
        let mut leases = Vec::new();
        while let Some(more) = pinned.same_state().ok()?.lessor.next_frozen(&mut frozen) {
            leases.extend(more);
        }
        let versions = VersionWalk::new(self, compacted, revision, CompactedVersions::All, pinned);
        Some(CapturedState {
            applied,
            revision,
            data_hash,
            compacted,
            leases,
            alarms,
            members: members.members.into_values().collect(),
            removed_members: members.removed.into_iter().collect(),
            cluster_version: members.cluster_version,
            is_auth_enabled: auth.is_enabled,
            auth_revision: auth.revision,
            users: auth.users().cloned().collect(),
            roles: auth.roles().cloned().collect(),
            downgrade_target: members.downgrade_target,
            versions,
        })
    }
}
