//! What is made of versions: the same state that commands make, and the errors.

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::testing::MapValues;
use crate::types::KvRef;
use crate::values::ValueRef;
use crate::{Limits, Reader, Sequential, Store};

fn kv(key: &'static str, main: i64, create: i64, version: i64, lease: i64) -> KvRef {
    let value = ValueRef { address: 100 + main as u64, len: 1, checksum: 7 };
    let mod_revision = Revision { main, sub: 0 };
    KvRef { key: Bytes::from(key), create_revision: create, mod_revision, version, lease, value }
}

fn put(key: &'static str, main: i64, create: i64, version: i64, lease: i64) -> RetainedVersion {
    RetainedVersion { kv: kv(key, main, create, version, lease), tombstone: false }
}

fn delete(key: &'static str, main: i64) -> RetainedVersion {
    let kv = KvRef { value: ValueRef::default(), ..kv(key, main, 0, 0, 0) };
    RetainedVersion { kv, tombstone: true }
}

/// Installs what was imported, checks it, and loads it again from its checkpoint.
fn loaded(import: StateImport) -> (ImportTotals, Reader) {
    let (restored, totals) = import.finish().unwrap();
    let (mut store, _) = Store::new(Arc::new(MapValues::default()), Limits::default());
    drop(store.install(restored));
    store.check_all();
    let chunks: Vec<Bytes> = store.begin_snapshot().collect();
    let values = Arc::new(MapValues::default());
    let (store, reader) =
        Store::restore(values, Limits::default(), [chunks.into_iter()], &Sequential).unwrap();
    store.check_all();
    (totals, reader)
}

fn revisions(reader: &Reader) -> Vec<(i64, Bytes, bool)> {
    let mut walk = reader.versions();
    let mut all = Vec::new();
    loop {
        let chunk = walk.next_chunk(10).unwrap();
        if chunk.is_empty() {
            return all;
        }
        all.extend(chunk.into_iter().map(|one| (one.kv.mod_revision.main, one.kv.key, one.tombstone)));
    }
}

#[test]
fn a_state_is_what_its_versions_say() {
    let mut import = StateImport::new(Some(5));
    import.lease(LeaseInfo { id: 7, ttl: 60, remaining: 0 });
    let versions = [put("a", 3, 2, 2, 7), put("c", 4, 4, 1, 9), delete("b", 5), put("a", 6, 2, 3, 0)];
    versions.iter().for_each(|version| import.version(version).unwrap());
    let (totals, reader) = loaded(import);
    let expected = ImportTotals { revision: 6, compacted: 5, keys: 2, missing_leases: 1 };
    assert_eq!(totals, expected, "lease 9 did not come");
    assert_eq!(reader.current_revision(), 6);
    let all: [(i64, Bytes, bool); 4] =
        [(3, "a".into(), false), (4, "c".into(), false), (5, "b".into(), true), (6, "a".into(), false)];
    assert_eq!(revisions(&reader), all);
}

#[test]
fn users_roles_alarms_and_members_come_along() {
    let mut import = StateImport::new(None);
    let id = AppliedId { index: 1, term: 1 };
    let member = ClusterMember { id: 5, name: "five".into(), learner: true, ..ClusterMember::default() };
    let imported = ImportedMembers {
        members: vec![member.clone()],
        removed: vec![6],
        cluster_version: Some("3.7.0".into()),
        downgrade_target: Some("3.6.0".into()),
    };
    import.members(id, imported, 4);
    import.alarm(&pb::AlarmMember { member_id: 9, alarm: pb::AlarmType::Nospace as i32 });
    let user = AuthUser { name: "u".into(), roles: vec!["b".into(), "a".into()], ..AuthUser::default() };
    import.auth(true, 8, [user], [AuthRole { name: "a".into(), permissions: Vec::new() }]);
    let (_, reader) = loaded(import);
    let state = reader.capture().expect("nothing is applied");
    assert_eq!((state.applied, state.members, state.alarms.len()), (id, vec![member], 1));
    assert_eq!(state.removed_members, [6]);
    let versions = (state.cluster_version.as_deref(), state.downgrade_target.as_deref());
    assert_eq!(versions, (Some("3.7.0"), Some("3.6.0")));
    assert_eq!((state.is_auth_enabled, state.auth_revision), (true, 8));
    assert_eq!((state.users[0].roles.clone(), state.roles.len()), (vec!["a".into(), "b".into()], 1));
}

#[test]
fn a_raised_revision_is_compacted_and_keeps_the_newest_versions() {
    let mut import = StateImport::new(None);
    let versions = [put("a", 2, 2, 1, 0), put("b", 3, 3, 1, 0), put("a", 4, 2, 2, 0), delete("b", 5)];
    versions.iter().for_each(|version| import.version(version).unwrap());
    import.raise_revision(1_000_000_000).unwrap();
    let (totals, reader) = loaded(import);
    assert_eq!((totals.revision, totals.compacted), (1_000_000_005, 1_000_000_005));
    assert_eq!(revisions(&reader), [(4, "a".into(), false)]);
}

#[test]
fn a_compaction_may_have_left_no_change_of_its_revision() {
    let mut import = StateImport::new(Some(9));
    import.version(&put("a", 3, 2, 2, 0)).unwrap();
    let (totals, reader) = loaded(import);
    assert_eq!((totals.revision, reader.current_revision()), (9, 9));
    let mut import = StateImport::new(None);
    import.version(&put("a", 2, 2, 1, 0)).unwrap();
    import.unknown_revision(4).unwrap();
    assert!(import.finish().is_err(), "a change above the compact revision is missing");
}

#[test]
fn what_no_store_has_is_refused() {
    for bad in [put("a", 3, 4, 1, 0), put("a", 3, 3, 0, 0), put("", 3, 3, 1, 0), put("a", 1 << 62, 3, 1, 0)] {
        assert!(StateImport::new(None).version(&bad).is_err(), "{bad:?}");
    }
    let mut import = StateImport::new(None);
    import.version(&put("a", 3, 3, 1, 0)).unwrap();
    assert!(import.version(&put("b", 3, 3, 1, 0)).is_err(), "the same revision");
    assert!(import.version(&put("b", 1 << 40, 3, 1, 0)).is_err(), "too many are missing");
    let mut long = put("", 3, 3, 1, 0);
    for (bytes, is_taken) in [(32 << 20, true), ((32 << 20) + 1, false)] {
        long.kv.key = vec![b'k'; bytes].into();
        assert_eq!(StateImport::new(None).version(&long).is_ok(), is_taken, "a key of {bytes} bytes");
    }
    assert!(StateImport::new(None).raise_revision(u64::MAX).is_err());
    assert!(StateImport::new(Some(i64::MAX)).finish().is_err());
}

#[test]
fn changes_may_be_missing_directly_above_the_compact_revision() {
    for compacted in [None, Some(5)] {
        let begin = compacted.unwrap_or(1);
        let mut import = StateImport::new(compacted);
        import.version(&put("a", begin + 4, begin + 4, 1, 0)).unwrap();
        let (totals, reader) = loaded(import);
        assert_eq!((totals.revision, reader.current_revision()), (begin + 4, begin + 4));
        let mut import = StateImport::new(compacted);
        let refused = import.version(&put("a", begin + 2 + MAX_UNKNOWN_CHANGES as i64, 2, 1, 0));
        assert!(matches!(refused, Err(RestoreError::Malformed(why)) if why.contains("are missing")));
    }
}

#[test]
fn a_lineage_tells_states_apart() {
    let lineage = |versions: &[RetainedVersion], bump: u64| {
        let mut import = StateImport::new(None);
        versions.iter().for_each(|version| import.version(version).unwrap());
        if bump > 0 {
            import.raise_revision(bump).unwrap();
        }
        loaded(import).1.lineage()
    };
    let versions = [put("a", 2, 2, 1, 0), put("a", 3, 2, 2, 0), put("b", 4, 4, 1, 0)];
    let mut moved = versions.clone();
    moved[2].kv.value.address += 7;
    assert_eq!(lineage(&versions, 0), lineage(&moved, 0), "where a value lies is a member's own affair");
    let deleted = [put("c", 2, 2, 1, 0), delete("c", 3), put("a", 4, 4, 1, 0)];
    let other_deleted = [put("d", 2, 2, 1, 0), delete("d", 3), put("a", 4, 4, 1, 0)];
    let all = [
        lineage(&versions, 0),
        lineage(&versions, 10),
        lineage(&versions[..2], 0),
        lineage(&deleted, 0),
        lineage(&other_deleted, 0),
    ];
    assert!(all.iter().all(|one| *one != 0));
    assert!((1..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:x?}");
}
