//! Checkpoints: the bytes, damage, chains.

mod bounds;

use std::sync::Arc;

use api::etcdserverpb as pb;
use bytes::Bytes;

use super::error::OLDEST_FORMAT;
use super::frame::{FrameKind, frame};
use super::*;
use crate::DOWNGRADE_COMMAND_SET;
use crate::index::Version;
use crate::parallel::Sequential;
use crate::state::StoreState;
use crate::testing::{MapValues, TestStore, checkpoints, grant, put_request, range_request, small_limits};
use crate::{AppliedId, ClusterMember, Command, MemberChange, Reader, Revision, Store, ValueRef};

/// A store with some of everything.
fn rich() -> TestStore {
    let mut bench = TestStore::new();
    let member = ClusterMember {
        id: 0xABCD,
        name: "m0".into(),
        peer_urls: vec!["http://10.0.0.1:2380".into()],
        client_urls: vec!["http://10.0.0.1:2379".into()],
        learner: false,
        incarnation: 0x77,
    };
    let next = |bench: &TestStore| AppliedId { index: bench.reader.applied().index + 1, term: 1 };
    let at = next(&bench);
    bench.store.apply_member_change(at, MemberChange::Add(member.clone())).unwrap();
    let other = ClusterMember { id: 0xBEEF, peer_urls: vec![], client_urls: vec![], learner: true, ..member };
    let at = next(&bench);
    bench.store.apply_member_change(at, MemberChange::Add(other)).unwrap();
    let at = next(&bench);
    bench.store.apply_member_change(at, MemberChange::Remove { id: 0xBEEF }).unwrap();
    let version = api::membershippb::ClusterVersionSetRequest { ver: "3.7.0".into() };
    bench.outcome(Command::ClusterVersionSet(version)).unwrap();
    let alarm = pb::AlarmRequest { action: 1, member_id: 0xABCD, alarm: 1 };
    bench.outcome(grant(-5, 60)).unwrap();
    bench.outcome(grant(6, 600)).unwrap();
    bench
        .outcome(Command::Put(pb::PutRequest { lease: -5, ..put_request("/registry/a", "leased") }))
        .unwrap();
    bench.put("/registry/b", "first");
    bench.put("/registry/b", "second");
    bench.put("empty", "");
    bench.delete("/registry/a", "/registry/c");
    bench.put("/registry/b", "again");
    bench.outcome(Command::Alarm(alarm)).unwrap();
    bench
}

fn base(bench: &mut TestStore) -> Vec<Bytes> {
    bench.store.begin_checkpoint(CheckpointKind::Base).collect()
}

/// Some changes after the base, and the delta with them.
fn delta(bench: &mut TestStore) -> Vec<Bytes> {
    bench.outcome(Command::Alarm(pb::AlarmRequest { action: 2, member_id: 0xABCD, alarm: 1 })).unwrap();
    let reply = bench.reader.range(&range_request("/registry/b", "")).unwrap();
    let moved = &reply.kvs[0];
    assert!(bench.store.relocate(&moved.key, moved.mod_revision, &moved.value, 9 << 32));
    bench.values.store(9 << 32, &Bytes::from_static(b"again"));
    bench.outcome(Command::Put(pb::PutRequest { lease: 6, ..put_request("new", "value") })).unwrap();
    let revision = bench.delete("empty", "");
    bench.put("new", "er");
    bench.compact(revision + 1).unwrap();
    assert!(bench.store.purge_step(100));
    let revoke = pb::LeaseRevokeRequest { id: -5 };
    bench.outcome(Command::LeaseRevoke { request: revoke, expiry_term: None }).unwrap();
    let source = bench.store.begin_checkpoint(CheckpointKind::Delta);
    assert_eq!(source.kind(), CheckpointKind::Delta);
    source.collect()
}

fn restore_bench(bench: &TestStore, chunks: &[Bytes]) -> Result<(Store, Reader), RestoreError> {
    bench.values.forget_references();
    let restored = Store::restore(bench.values.clone(), small_limits(), checkpoints(chunks), &Sequential);
    restored.inspect(|(store, _)| store.check_all())
}

/// Restores a chain whose chunks follow each other.
fn restore<C: AsRef<[u8]>>(chunks: impl IntoIterator<Item = C>) -> Result<StoreState, RestoreError> {
    let chunks: Vec<Bytes> = chunks.into_iter().map(|chunk| Bytes::copy_from_slice(chunk.as_ref())).collect();
    let round_bytes = small_limits().merge_round_bytes;
    super::restore(checkpoints(&chunks), &MapValues::default(), round_bytes, &Sequential)
}

fn hex(chunks: &[Bytes]) -> String {
    let line = |chunk: &Bytes| chunk.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    chunks.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The format is what `docs/internals/store-checkpoint.md` says, and stays it.
#[test]
fn bytes_are_those_of_the_format_version() {
    let mut bench = rich();
    let base = base(&mut bench);
    assert_eq!(hex(&base), include_str!("../../../testdata/checkpoint_base_v2.hex").trim_end());
    let delta = delta(&mut bench);
    assert_eq!(hex(&delta), include_str!("../../../testdata/checkpoint_delta_v2.hex").trim_end());
}

/// A state with a newer command set than the first is written in the newest format, and both are read; a chain may
/// begin in the older one.
#[test]
fn the_format_follows_the_command_set() {
    let mut bench = rich();
    let mut chain = base(&mut bench);
    bench.outcome(Command::CommandSet(2)).unwrap();
    chain.extend(delta(&mut bench));
    let (_, reader) = restore_bench(&bench, &chain).unwrap();
    assert_eq!((reader.command_set(), reader.state_hash()), (2, bench.reader.state_hash()));
    bench.outcome(Command::CommandSet(1)).unwrap();
    assert_eq!(bench.reader.command_set(), 2, "it never falls");
    let newest = base(&mut bench);
    assert_eq!(hex(&newest[..2]), include_str!("../../../testdata/checkpoint_base_v3.hex").trim_end());
    let (_, reader) = restore_bench(&bench, &newest).unwrap();
    assert_eq!(reader.command_set(), 2);
}

/// The target of a downgrade is in the checkpoints of clusters that can have one, and is restored.
#[test]
fn a_downgrade_is_restored() {
    let mut bench = rich();
    bench.outcome(Command::CommandSet(DOWNGRADE_COMMAND_SET)).unwrap();
    let request =
        |enabled, ver: &str| api::membershippb::DowngradeInfoSetRequest { enabled, ver: ver.into() };
    bench.outcome(Command::DowngradeInfoSet(request(true, "3.6.0"))).unwrap();
    let newest = base(&mut bench);
    assert_eq!(hex(&newest[..2]), include_str!("../../../testdata/checkpoint_base_v5.hex").trim_end());
    let (_, reader) = restore_bench(&bench, &newest).unwrap();
    assert_eq!(
        (reader.downgrade_target(), reader.state_hash()),
        (Some("3.6.0".to_owned()), bench.reader.state_hash())
    );
    let before = bench.reader.state_hash().1;
    bench.outcome(Command::DowngradeInfoSet(request(false, "3.6.0"))).unwrap();
    assert_eq!(bench.reader.downgrade_target(), None);
    assert_ne!(bench.reader.state_hash().1, before);
}

/// The lineage of a forced cluster is in its checkpoints, whatever its command set, and is restored.
#[test]
fn a_lineage_is_restored() {
    let mut bench = rich();
    bench.store.force_alone(0xABCD, 0x51).unwrap();
    let oldest = base(&mut bench);
    let (_, reader) = restore_bench(&bench, &oldest).unwrap();
    assert_eq!((reader.lineage(), reader.command_set()), (0x51, crate::FIRST_COMMAND_SET));
    bench.outcome(Command::CommandSet(DOWNGRADE_COMMAND_SET)).unwrap();
    let newest = base(&mut bench);
    assert_eq!(hex(&newest[..2]), include_str!("../../../testdata/checkpoint_base_v6.hex").trim_end());
    let (_, reader) = restore_bench(&bench, &newest).unwrap();
    assert_eq!((reader.lineage(), reader.command_set()), (0x51, DOWNGRADE_COMMAND_SET));
}

#[test]
fn everything_is_restored() {
    let mut bench = rich();
    let mut chain = base(&mut bench);
    for step in 0..2 {
        let before = bench.reader.clone();
        let references = bench.values.references();
        let (_, reader) = restore_bench(&bench, &chain).unwrap();
        assert_eq!(bench.values.references(), references);
        assert_eq!(reader.state_hash(), before.state_hash());
        assert_eq!(reader.members(), before.members());
        assert_eq!(reader.alarms(), before.alarms());
        assert_eq!(reader.cluster_version(), before.cluster_version());
        assert!(reader.was_removed(0xBEEF));
        assert_eq!(reader.leases(i64::MIN, 10), before.leases(i64::MIN, 10));
        assert_eq!(reader.compacted(), before.compacted());
        assert_eq!(reader.purged(), before.purged());
        assert_eq!(reader.referenced_bytes(), before.referenced_bytes());
        assert_eq!(reader.counts().history, before.counts().history);
        if step == 0 {
            chain.extend(delta(&mut bench));
        }
    }
    assert!(bench.lease_keys(6).is_empty(), "the second put of the key had no lease");
}

#[test]
fn chunks_may_be_cut_anywhere() {
    let mut bench = rich();
    let chain = [base(&mut bench), delta(&mut bench)].concat();
    let bytes = chain.concat();
    for size in [1, 7, 64, bytes.len()] {
        let state = restore(bytes.chunks(size)).unwrap();
        assert_eq!(state.hash(), bench.reader.state_hash().1);
    }
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    let mut bench = rich();
    let bytes = [base(&mut bench), delta(&mut bench)].concat().concat();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(restore([damaged]).is_err(), "byte {at}");
    }
    let base_len = rich_base_len();
    for len in (0..bytes.len()).filter(|len| *len != base_len) {
        assert!(restore([&bytes[..len]]).is_err(), "length {len}");
    }
}

fn rich_base_len() -> usize {
    base(&mut rich()).iter().map(Bytes::len).sum()
}

#[test]
fn only_a_chain_is_restored() {
    let mut bench = rich();
    let base = base(&mut bench);
    let index = bench.reader.applied().index;
    let delta = delta(&mut bench);
    let error = |chunks: Vec<Bytes>| restore(chunks).err().expect("this is no chain");
    assert_eq!(error(delta.clone()), RestoreError::OutOfOrder { follows: index, after: 0 });
    let twice = [base.clone(), delta.clone(), delta.clone()].concat();
    assert!(matches!(error(twice), RestoreError::OutOfOrder { .. }));
    assert_eq!(error(Vec::new()), RestoreError::Truncated);
    assert_eq!(error(base[..base.len() - 1].to_vec()), RestoreError::Truncated);
    let mut without_keys = base.clone();
    without_keys.remove(base.len() - 2);
    assert_eq!(error(without_keys), RestoreError::Malformed("keys are missing"));
}

#[test]
fn a_later_format_is_refused_by_name() {
    let mut body = super::frame::MAGIC.to_vec();
    body.extend(7u16.to_le_bytes());
    body.resize(71, 0);
    let error = restore([frame(FrameKind::Header, &body)]).err().unwrap();
    assert_eq!(error, RestoreError::Version { found: 7 });
    assert_eq!(error.to_string(), "the checkpoint has format version 7, this Stele reads 2 to 6");
}

/// Bodies with right checksums and wrong content: errors, not panics.
#[test]
fn forged_frames_are_errors() {
    let mut bench = rich();
    let base = base(&mut bench);
    for kind in
        [FrameKind::Small, FrameKind::Leases, FrameKind::Removed, FrameKind::Relocated, FrameKind::Keys]
    {
        for fill in [0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF] {
            for len in 0..24 {
                let forged = frame(kind, &vec![fill; len]);
                let mut chunks = base.clone();
                chunks.insert(base.len() - 1, forged);
                let _ = restore(chunks);
            }
        }
    }
}

#[test]
fn after_an_abandoned_first_checkpoint_comes_a_base() {
    let mut bench = rich();
    assert_eq!(bench.store.begin_checkpoint(CheckpointKind::Delta).kind(), CheckpointKind::Base);
    bench.store.abandon_checkpoint();
    assert_eq!(bench.store.begin_checkpoint(CheckpointKind::Delta).kind(), CheckpointKind::Base);
    bench.store.checkpoint_written();
    assert_eq!(bench.store.begin_checkpoint(CheckpointKind::Delta).kind(), CheckpointKind::Delta);
}

/// What an abandoned checkpoint of either kind would have held is in the next delta, before what changed later.
#[test]
fn a_delta_holds_what_abandoned_checkpoints_would_have_held() {
    let mut bench = rich();
    let mut chain = base(&mut bench);
    bench.store.checkpoint_written();
    let now = bench.reader.current_revision();
    for (round, kind) in [CheckpointKind::Delta, CheckpointKind::Base].into_iter().enumerate() {
        bench.put("changed twice", &format!("in round {round}"));
        bench.put(&format!("only in round {round}"), "kept");
        let source = bench.store.begin_checkpoint(kind);
        assert_eq!(source.kind(), kind);
        drop(source);
        bench.store.abandon_checkpoint();
    }
    bench.compact(now).unwrap();
    bench.store.purge_step(1_000);
    bench.put("later", "too");
    let source = bench.store.begin_checkpoint(CheckpointKind::Delta);
    assert_eq!(source.kind(), CheckpointKind::Delta);
    chain.extend(source);
    let state = restore(&chain).unwrap();
    assert_eq!(state.hash(), bench.reader.state_hash().1);
}

#[test]
fn a_delta_follows_a_restored_chain() {
    let mut bench = rich();
    let mut chain = base(&mut bench);
    (bench.store, bench.reader) = restore_bench(&bench, &chain).unwrap();
    chain.extend(delta(&mut bench));
    let state = restore(&chain).unwrap();
    assert_eq!(state.hash(), bench.reader.state_hash().1);
}

#[test]
fn nothing_is_purged_while_a_checkpoint_is_written() {
    let mut bench = rich();
    let now = bench.reader.current_revision();
    let source = bench.store.begin_checkpoint(CheckpointKind::Base);
    bench.compact(now).unwrap();
    bench.store.purge_step(100);
    assert_eq!(bench.reader.purged(), -1);
    drop(source);
    bench.store.purge_step(100);
    assert_eq!(bench.reader.purged(), now);
}

fn restored(chunks: &[Bytes]) -> Result<Restored, RestoreError> {
    let mut restoration = Restoration::default();
    chunks.iter().try_for_each(|chunk| restoration.push(chunk))?;
    restoration.finish()
}

/// A receiver of a snapshot replaces the addresses, and changes nothing else.
#[test]
fn addresses_are_read_and_replaced() {
    let from = rich();
    let chunks: Vec<Bytes> = from.store.begin_snapshot().collect();
    let values: Vec<ValueRef> = chunks.iter().flat_map(|chunk| chunk_values(chunk).unwrap()).collect();
    assert_eq!(values.len(), from.values.references().len());
    let shift = 5 << 32;
    let moved: Vec<Bytes> = chunks
        .iter()
        .map(|chunk| with_addresses(chunk, |value| Some(value.address + shift)).unwrap())
        .collect();
    let after: Vec<ValueRef> = moved.iter().flat_map(|chunk| chunk_values(chunk).unwrap()).collect();
    assert!(
        values.iter().zip(&after).all(|(old, new)| *new == ValueRef { address: old.address + shift, ..*old })
    );
    assert_eq!(restored(&moved).unwrap().applied(), from.reader.applied());
    let keys = chunks.iter().find(|chunk| !chunk_values(chunk).unwrap().is_empty()).unwrap();
    assert!(with_addresses(keys, |_| None).is_err(), "a value without a place");
    assert!(chunk_values(&keys[..keys.len() - 1]).is_err(), "cut off");
}

#[test]
fn an_installed_checkpoint_replaces_the_state_and_its_references() {
    let mut from = rich();
    let chunks = base(&mut from);
    let mut bench = TestStore::new();
    bench.put("old", "value");
    let mut writing = bench.store.begin_checkpoint(CheckpointKind::Base);
    let begun: Vec<Bytes> = writing.by_ref().take(1).collect();
    let before = bench.values.references();
    let state = restored(&chunks).unwrap();
    let values: Vec<ValueRef> = state.values().collect();
    let memory = (bench.reader.memory(), state.memory());
    let replaced = bench.store.install(state);
    assert_eq!((replaced.memory(), bench.reader.memory()), memory);
    assert_eq!(bench.values.references(), before, "the caller counts them");
    bench.values.replace_references(values.into_iter());
    let rest = begun.into_iter().chain(writing);
    assert_eq!(restore(rest).err(), Some(RestoreError::Truncated), "what it was a checkpoint of is gone");
    assert_eq!(bench.reader.state_hash(), from.reader.state_hash());
    assert_eq!(bench.values.references(), from.values.references());
    assert!(restored(&[Bytes::from_static(b"nonsense")]).is_err());
    assert_eq!(Arc::strong_count(&from.values), 2);
}

/// A half-finished purge had taken a tombstone that the base did not have yet, and the key came back to life.
#[test]
fn a_delta_removes_what_purging_removed() {
    let mut bench = TestStore::new();
    bench.put("k", "1");
    let mut chain = base(&mut bench);
    bench.delete("k", "");
    bench.put("other", "");
    bench.put("k", "2");
    bench.compact(4).unwrap();
    assert!(!bench.store.purge_step(2), "the purge is not through");
    chain.extend(bench.store.begin_checkpoint(CheckpointKind::Delta));
    let (_, reader) = restore_bench(&bench, &chain).unwrap();
    let at_compaction = pb::RangeRequest { revision: 4, ..range_request("k", "") };
    assert_eq!(reader.range(&at_compaction).unwrap().count, 0);
}

/// A half-finished purge had dropped values whose files were then given back, and the chain still named them.
#[test]
fn a_delta_does_not_bring_back_values_that_purging_dropped() {
    let mut bench = TestStore::new();
    bench.put("k", "1");
    bench.put("k", "2");
    let mut chain = base(&mut bench);
    for value in ["3", "4", "5", "6"] {
        bench.put("other", value);
    }
    bench.compact(6).unwrap();
    assert!(!bench.store.purge_step(3), "the purge is not through");
    let addresses = |bench: &TestStore| -> Vec<u64> {
        let held = bench.values.references().into_iter().filter(|(_, count)| *count > 0);
        held.map(|(address, _)| address).collect()
    };
    let held = addresses(&bench);
    chain.extend(bench.store.begin_checkpoint(CheckpointKind::Delta));
    let _restored = restore_bench(&bench, &chain).unwrap();
    let named = addresses(&bench);
    assert!(named.iter().all(|address| held.contains(address)), "{named:?} are not all among {held:?}");
}

#[test]
fn a_snapshot_leaves_the_chain_alone() {
    let mut bench = rich();
    let mut chain = base(&mut bench);
    bench.put("between", "1");
    let snapshot: Vec<Bytes> = bench.store.begin_snapshot().collect();
    assert_eq!(restore(&snapshot).unwrap().hash(), bench.reader.state_hash().1);
    chain.extend(delta(&mut bench));
    assert_eq!(restore(&chain).unwrap().hash(), bench.reader.state_hash().1);
}

/// Checksums hold, but arithmetic on what they cover would overflow.
#[test]
fn numbers_that_no_store_has_are_refused() {
    let header = |index: u64, revision: i64, compacted: i64| {
        let mut body = super::frame::MAGIC.to_vec();
        body.extend(OLDEST_FORMAT.to_le_bytes());
        body.push(0);
        [index, 1, 0, 0].iter().for_each(|number| body.extend(number.to_le_bytes()));
        [revision, compacted, compacted, 0].iter().for_each(|number| body.extend(number.to_le_bytes()));
        restore([frame(FrameKind::Header, &body)]).err()
    };
    let refused = RestoreError::Malformed("revisions are out of order, or none that a store has");
    assert_eq!(header(1, 1, -1), Some(RestoreError::Truncated), "a sound one");
    for (index, revision, compacted) in [(1, i64::MAX, -1), (u64::MAX, 1, -1), (1, 1, i64::MIN), (1, 1, 2)] {
        assert_eq!(header(index, revision, compacted), Some(refused.clone()));
    }
}

#[test]
fn a_version_that_no_key_reaches_is_refused() {
    let mut bytes = Vec::new();
    let version =
        |version| Version { version, create: 3, ..Version::tombstone(Revision { main: 5, sub: 0 }) };
    for (count, is_sound) in [(3, true), (1 << 61, true), (i64::MAX, false)] {
        bytes.clear();
        super::codec::put_version(&mut bytes, &version(count));
        assert_eq!(super::codec::FieldReader(&bytes).version().is_ok(), is_sound, "{count}");
    }
}

/// It was some version until a restart, and none after: no checkpoint of it could be restored.
#[test]
fn an_empty_cluster_version_is_none() {
    let mut bench = rich();
    let request = api::membershippb::ClusterVersionSetRequest { ver: String::new() };
    bench.outcome(Command::ClusterVersionSet(request)).unwrap();
    assert_eq!(bench.reader.cluster_version(), None);
    let chunks = base(&mut bench);
    assert_eq!(restore(&chunks).unwrap().hash(), bench.reader.state_hash().1);
}

/// A restart counted up to the number of versions that a key was said to have, and would not have ended.
#[test]
fn versions_out_of_order_are_refused_at_once() {
    let mut bench = rich();
    let mut chunks = base(&mut bench);
    let mut body = Vec::new();
    super::codec::put_key(&mut body, b"", b"zzz");
    super::codec::put_number(&mut body, u64::MAX);
    let version = Version::tombstone(Revision { main: 5, sub: 0 });
    [version, version].iter().for_each(|version| super::codec::put_version(&mut body, version));
    chunks.insert(chunks.len() - 1, frame(FrameKind::Keys, &body));
    let refused = RestoreError::Malformed("versions or keys are out of order");
    assert_eq!(restore(&chunks).err(), Some(refused));
}
