//! The captured state as the records of etcd's database file.

use api::version::STORAGE_VERSION;
use dbfile::records::{
    AppliedEntry, ConfStateRecord, LeaseRecord, MemberRecord, RevisionKey, SmallRecords, VersionRecord,
};
use store::{CapturedState, RetainedVersion};

/// The revision of users and roles where there never were any, as in a new etcd.
const FIRST_AUTH_REVISION: u64 = 1;

/// All records but those of versions.
pub(super) fn small(state: &CapturedState) -> SmallRecords {
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
        storage_version: Some(STORAGE_VERSION.to_owned()),
        // What is compacted is left out of the file, whether it is purged here or not.
        scheduled_compaction: compaction,
        finished_compaction: compaction,
        cluster_version: state.cluster_version.clone(),
        members: state.members.iter().map(member).collect(),
        removed_members: state.removed_members.clone(),
        alarms: state.alarms.clone(),
        leases: state.leases.iter().map(lease).collect(),
        auth_revision: Some(FIRST_AUTH_REVISION),
        ..SmallRecords::default()
    };
    records.sort();
    records
}

/// The record of a version.
pub(super) fn version(version: &RetainedVersion) -> VersionRecord<'_> {
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
