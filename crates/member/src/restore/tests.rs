//! Entries are applied to a state from elsewhere as to their own, and may be left in their middle.
use std::sync::Arc;

use api::etcdserverpb as pb;
use bytes::Bytes;
use consensus::EntryKind;
use log::{Disk, Identity, MemDisk, Options};
use prost::Message;
use store::{Caller, ClusterMember, ImportedMembers, Sequential};

use super::{StateReplay, entry_clock_ms};
use crate::apply::decode_all;
use crate::proposals::batch::{self, CommandKind, LogCommand, Origin};
use crate::restore::{StateRestore, open_offline};

fn command(kind: CommandKind, request: &impl Message) -> LogCommand {
    let (origin, body) = (Origin { member: 9, run: 9 }, request.encode_to_vec().into());
    LogCommand { origin, sequence: 1, kind, auth: Bytes::new(), body }
}

fn put(key: &'static str, value: &'static str) -> LogCommand {
    let request = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
    command(CommandKind::Put, &request)
}

fn swap(key: &'static str, value: &'static str) -> LogCommand {
    let target_union = Some(pb::compare::TargetUnion::Value(value.into()));
    let target = pb::compare::CompareTarget::Value as i32;
    let compare = pb::Compare { target, key: key.into(), target_union, ..Default::default() };
    let put = pb::PutRequest { key: "swapped".into(), value: value.into(), ..Default::default() };
    let success = vec![pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) }];
    let txn = pb::TxnRequest { compare: vec![compare], success, ..Default::default() };
    command(CommandKind::Txn, &txn)
}

fn entry(index: u64, commands: &[LogCommand]) -> log::Entry {
    log::Entry { term: 5, index, kind: EntryKind::Batch as u8, payload: batch::encode(index * 10, commands) }
}

struct Restored {
    disk: Arc<dyn Disk>,
    options: Options,
    replay: StateReplay,
}

fn empty() -> Restored {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
    let options = Options { segment_bytes: 1 << 16, ..Options::new("/data") };
    let identity = Identity { cluster_id: 1, member_id: 2, incarnation: 3 };
    let named = ClusterMember { id: 2, name: "a".to_owned(), ..ClusterMember::default() };
    let learner = ClusterMember { id: 4, learner: true, ..ClusterMember::default() };
    let members =
        ImportedMembers { members: vec![named, learner], removed: vec![5], ..ImportedMembers::default() };
    let begun = StateRestore::begin(&disk, &options, identity, &members, None).expect("the disk is empty");
    Restored { disk, options, replay: begun.into_replay().expect("nothing is a state") }
}

#[test]
fn entries_are_applied_up_to_a_revision_in_their_middle() {
    let Restored { disk, options, mut replay } = empty();
    let publish = command(CommandKind::CommandSet, &pb::PutRequest::default());
    let entries = [
        entry(70, &[publish, put("a", "one"), put("b", "two")]),
        log::Entry { term: 5, index: 71, kind: EntryKind::Empty as u8, payload: Bytes::new() },
        entry(72, &[swap("b", "two"), swap("b", "other"), put("a", "three"), put("c", "four")]),
    ];
    assert_eq!(entry_clock_ms(&entries[2]), Some(720));
    for entry in &entries[..2] {
        assert!(!replay.apply_entry(entry, Some(5)).expect("it is applied"));
    }
    assert!(replay.apply_entry(&entries[2], Some(5)).expect("it is applied"), "`three` makes revision 5");
    let data = replay.data();
    assert_eq!((data.revision, replay.part()), (5, 3));
    let totals = replay.finish(Some(77)).expect("the disk is intact");
    assert_eq!((totals.revision, totals.keys), (5, 3));
    let opened = open_offline(&disk, &options, &Sequential).expect("it is a whole directory");
    assert_eq!((opened.reader.current_revision(), opened.reader.lineage()), (5, 77));
    assert_eq!(opened.reader.data_state().expect("nothing is applied").hash, data.hash);
    let members = opened.reader.members();
    let roles: Vec<_> = members.iter().map(|member| (member.id, &member.name[..], member.learner)).collect();
    assert_eq!((roles, opened.reader.was_removed(5)), (vec![(2, "a", false), (4, "", true)], true));
    assert_eq!(opened.identity.cluster_id, 1);
    let (references, _) = opened.reader.live_references(|_| true, &Default::default(), usize::MAX);
    let values: Vec<Bytes> =
        references.iter().map(|found| opened.values.read(&found.value).expect("it is intact")).collect();
    assert_eq!(values, ["one", "three", "two", "two"]);
}

#[test]
fn a_raised_revision_is_compacted() {
    let Restored { disk, options, mut replay } = empty();
    let puts = [put("a", "one"), put("b", "two"), put("a", "three")];
    assert!(replay.apply_entry(&entry(70, &puts), Some(4)).expect("it is applied"));
    assert!(replay.raise_revision(u64::MAX).is_err(), "no store reaches it");
    replay.raise_revision(1_000).expect("a store reaches it");
    let totals = replay.finish(Some(77)).expect("the disk is intact");
    assert_eq!((totals.revision, totals.compacted, totals.keys), (1_004, 1_004, 2));
    let reader = open_offline(&disk, &options, &Sequential).expect("it is a whole directory").reader;
    assert_eq!((reader.current_revision(), reader.compacted()), (1_004, 1_004));
    let (kept, _) = reader.live_references(|_| true, &Default::default(), usize::MAX);
    assert_eq!(kept.len(), 2, "the first version of `a` is compacted");
}

#[test]
fn requests_compare_values_that_were_just_written() {
    let Restored { disk, options, mut replay } = empty();
    let mut applied = Vec::new();
    for request in [put("b", "two"), swap("b", "two"), swap("b", "other")] {
        let (_, commands) = decode_all(vec![request.clone()]);
        let command = commands.into_iter().next().expect("it is one command");
        let outcome = replay.apply_request(Caller::Anonymous, command, &request.body);
        applied.push(outcome.expect("the disk is intact").is_ok());
    }
    assert_eq!(applied, [true, true, true]);
    let totals = replay.finish(None).expect("the disk is intact");
    assert_eq!((totals.revision, totals.keys), (3, 2), "the last compare does not hold");
    let opened = open_offline(&disk, &options, &Sequential).expect("it is a whole directory");
    let (references, _) = opened.reader.live_references(|_| true, &Default::default(), usize::MAX);
    for found in references {
        assert_eq!(opened.values.read(&found.value).expect("it is intact"), "two");
    }
    assert_ne!(opened.reader.lineage(), 0);
}

#[test]
fn what_this_release_cannot_apply_is_refused() {
    let mut replay = empty().replay;
    let newer = log::Entry { payload: [&[99][..], &[0; 15]].concat().into(), ..entry(8, &[]) };
    let unknown = log::Entry { kind: 9, ..entry(8, &[]) };
    for refused in [newer, unknown] {
        let error = replay.apply_entry(&refused, None).expect_err("it is not known").to_string();
        assert!(error.contains("entry 8 cannot be replayed"), "{error}");
    }
    let garbage = log::Entry { payload: "garbage that is no batch".into(), ..entry(9, &[]) };
    assert!(replay.apply_entry(&garbage, None).is_err(), "its first byte names a command set");
}
