//! A snapshot that a real etcd made is read: `golden/make.sh` says what is in it.

use api::etcdserverpb::AlarmType;
use dbfile::records::{
    AppliedEntry, BUCKETS, ConfStateRecord, KEY_BUCKET, RevisionKey, SmallRecords, VersionRecord, Versions,
};
use dbfile::{DbFile, FileLayout, FileWriter};

const SNAPSHOT: &[u8] = include_bytes!("golden/etcd.snapshot.db");

fn snapshot() -> DbFile<&'static [u8]> {
    DbFile::open(SNAPSHOT).unwrap()
}

#[test]
fn all_buckets_are_there_and_a_checksum_follows() {
    let file = snapshot();
    let names = file.bucket_names().unwrap();
    assert_eq!(names, BUCKETS.map(|name| name.as_bytes().to_vec()));
    assert_eq!(file.bytes() + 32, SNAPSHOT.len() as u64);
    assert!(file.bucket("absent").unwrap().is_none());
}

#[test]
fn the_small_records_are_those_of_the_script() {
    let records = SmallRecords::read(&snapshot()).unwrap();
    assert_eq!(records.applied, AppliedEntry { index: 25, term: 2 });
    assert_eq!((records.scheduled_compaction, records.finished_compaction), (Some(6), Some(6)));
    assert_eq!(records.storage_version.as_deref(), Some("3.7.0"));
    assert_eq!(records.cluster_version.as_deref(), Some("3.7.0"));
    assert_eq!((records.is_auth_enabled, records.auth_revision), (None, Some(5)));
    let [golden, learner] = &records.members[..] else { panic!("two members") };
    assert_eq!((golden.name.as_str(), golden.is_learner), ("golden", false));
    assert_eq!(golden.client_urls, ["http://127.0.0.1:23790"]);
    assert_eq!((learner.peer_urls[0].as_str(), learner.is_learner), ("http://127.0.0.1:2", true));
    assert_eq!(records.removed_members.len(), 1);
    let conf =
        ConfStateRecord { voters: vec![golden.id], learners: vec![learner.id], ..ConfStateRecord::default() };
    assert_eq!(records.conf_state, Some(conf));
    let alarms: Vec<_> = records.alarms.iter().map(|alarm| (alarm.member_id, alarm.alarm)).collect();
    assert_eq!(alarms, [(golden.id, AlarmType::Nospace as i32)]);
    assert_eq!(records.leases.iter().map(|lease| lease.ttl).collect::<Vec<_>>(), [3600]);
    assert_eq!(
        (&records.users[0].name[..], &records.users[0].roles[..]),
        (&b"alice"[..], &["reader".to_owned()][..])
    );
    assert_eq!(&records.roles[0].key_permission[0].key[..], b"key/");
}

#[test]
fn versions_come_in_order_with_their_tombstones() {
    let file = snapshot();
    let lease = SmallRecords::read(&file).unwrap().leases[0].id;
    let mut versions = Versions::of(&file).unwrap();
    let (mut deleted, mut live, mut last) = (0, 0, 0);
    while let Some((revision, kv)) = versions.next_version().unwrap() {
        let expected = if revision.is_tombstone { 0 } else { revision.main };
        assert_eq!(kv.mod_revision, expected);
        if revision.is_tombstone {
            deleted += 1
        } else {
            live += 1
        }
        match &kv.key[..] {
            b"large" => assert_eq!(kv.value.len(), 9000),
            b"empty" => assert!(kv.value.is_empty()),
            b"leased" => assert_eq!(kv.lease, lease),
            key => assert!(key.starts_with(b"key/")),
        }
        last = revision.main;
    }
    // 150 keys in three transactions, large, empty, key/001 twice, leased; key/001 and key/020 to key/039 were deleted.
    assert_eq!((live, deleted, last), (155, 21, 11));
}

/// What is read from etcd's file and written again is read again as the same, and each record has the same bytes.
#[test]
fn records_are_written_as_etcd_writes_them() {
    let file = snapshot();
    let mut records = SmallRecords::read(&file).unwrap();
    records.sort();
    for bucket in BUCKETS.into_iter().filter(|bucket| *bucket != KEY_BUCKET) {
        let mut walk = file.bucket(bucket).unwrap().unwrap();
        let mut same = |key: &[u8], value: &[u8]| -> Result<(), dbfile::ReadError> {
            assert_eq!(walk.next_pair()?, Some((key, value)), "in {bucket}");
            Ok(())
        };
        records.visit(bucket, &mut same).unwrap();
        assert!(walk.next_pair().unwrap().is_none());
    }
    let (mut walk, mut versions) = (file.bucket(KEY_BUCKET).unwrap().unwrap(), Versions::of(&file).unwrap());
    while let Some((revision, kv)) = versions.next_version().unwrap() {
        let record = VersionRecord {
            revision,
            key: &kv.key,
            create_revision: kv.create_revision,
            version: kv.version,
            lease: kv.lease,
            value_bytes: kv.value.len(),
        };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        revision.encode(&mut key);
        record.encode(&kv.value, &mut value);
        assert_eq!(walk.next_pair().unwrap(), Some((&key[..], &value[..])));
    }
}

#[test]
fn a_record_that_is_not_etcds_is_named() {
    let (mut layout, record) = (FileLayout::default(), [7; 5]);
    let mut key = Vec::new();
    RevisionKey { main: 1, sub: 0, is_tombstone: false }.encode(&mut key);
    for bucket in ["key", "lease"] {
        layout.bucket(bucket).unwrap();
        layout.pair(key.len(), record.len()).unwrap();
    }
    let mut writer = FileWriter::new(Vec::new(), layout.finish().unwrap()).unwrap();
    for bucket in ["key", "lease"] {
        writer.bucket(bucket).unwrap();
        writer.pair(&key, &record).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let file = DbFile::open(&bytes[..]).unwrap();
    let text = Versions::of(&file).unwrap().next_version().unwrap_err().to_string();
    assert!(text.contains("bucket key") && text.contains("revision 1.0"), "{text}");
    let text = SmallRecords::read(&file).unwrap_err().to_string();
    assert!(text.contains("bucket lease"), "{text}");
}
