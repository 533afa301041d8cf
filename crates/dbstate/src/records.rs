//! The captured state as etcd's records.

use api::authpb;
use api::version::storage_version;
use dbfile::records::{
    AppliedEntry, ConfStateRecord, DowngradeRecord, LeaseRecord, MemberRecord, RevisionKey, SmallRecords,
    VersionRecord,
};
use store::{CapturedState, RetainedVersion};

/// All records but those of versions.
pub fn small(state: &CapturedState) -> SmallRecords {
    let compaction = (state.compacted > 0).then_some(state.compacted);
    let ids = |learner| {
        let members = state.members.iter().filter(move |member| member.learner == learner);
        members.map(|member| member.id).collect()
    };
    let conf_state =
        ConfStateRecord { voters: ids(false), learners: ids(true), ..ConfStateRecord::default() };
    let member = |member: &store::ClusterMember| MemberRecord {
        id: member.id,
        peer_urls: member.peer_urls.clone(),
        is_learner: member.learner,
        name: member.name.clone(),
        client_urls: member.client_urls.clone(),
    };
    let lease = |lease: &store::LeaseInfo| LeaseRecord {
        id: lease.id,
        ttl: lease.ttl,
        remaining_ttl: lease.remaining,
    };
    let mut records = SmallRecords {
        applied: AppliedEntry { index: state.applied.index, term: state.applied.term },
        conf_state: Some(conf_state),
        storage_version: Some(storage_version(state.cluster_version.as_deref())),
        // What is compacted is left out of the file, whether it is purged here or not.
        scheduled_compaction: compaction,
        finished_compaction: compaction,
        cluster_version: state.cluster_version.clone(),
        downgrade: state
            .downgrade_target
            .clone()
            .map(|target_version| DowngradeRecord { target_version, enabled: true }),
        members: state.members.iter().map(member).collect(),
        removed_members: state.removed_members.clone(),
        alarms: state.alarms.clone(),
        leases: state.leases.iter().map(lease).collect(),
        is_auth_enabled: state.is_auth_enabled.then_some(true),
        auth_revision: Some(state.auth_revision),
        users: state.users.iter().map(user).collect(),
        roles: state.roles.iter().map(role).collect(),
    };
    records.sort();
    records
}

fn user(user: &store::AuthUser) -> authpb::User {
    authpb::User {
        name: user.name.clone().into(),
        password: user.password.clone(),
        roles: user.roles.clone(),
        options: Some(authpb::UserAddOptions { no_password: user.no_password }),
    }
}

fn role(role: &store::AuthRole) -> authpb::Role {
    let permission = |own: &store::RangePermission| authpb::Permission {
        perm_type: own.kind,
        key: own.start.clone(),
        range_end: own.end.clone(),
    };
    authpb::Role {
        name: role.name.clone().into(),
        key_permission: role.permissions.iter().map(permission).collect(),
    }
}

/// The record of a version.
pub fn version(version: &RetainedVersion) -> VersionRecord<'_> {
    let kv = &version.kv;
    VersionRecord {
        revision: RevisionKey {
            main: kv.mod_revision.main,
            sub: i64::from(kv.mod_revision.sub),
            is_tombstone: version.tombstone,
        },
        key: &kv.key,
        create_revision: kv.create_revision,
        version: kv.version,
        lease: kv.lease,
        value_bytes: kv.value.len as usize,
    }
}
