//! What one hold of the lock copies, how large frames become, and in which order they are accepted.

use std::ops::ControlFlow;

use super::*;
use crate::checkpoint::codec;
use crate::checkpoint::keys::{KeysChunk, MAX_FRAME_KEY_BYTES, MAX_HELD_VERSIONS};
use crate::checkpoint::merge::{DecodedKeys, MergedCheckpoint};
use crate::checkpoint::source::MAX_FRAME_ENTRIES;
use crate::index::{KeyIndex, KeyRecord, steps};
use crate::lessor::MAX_LEASES_AT_ONCE;

/// An index with these keys, each with so many versions.
fn index_of(keys: &[Vec<u8>], versions: usize) -> KeyIndex {
    let mut index = KeyIndex::default();
    let all = keys.iter().flat_map(|key| std::iter::repeat_n(key, versions));
    for (main, key) in all.enumerate() {
        index.put(key, Revision { main: main as i64 + 2, sub: 0 }, ValueRef::default(), 0);
    }
    index
}

fn record_of<'a>(index: &'a KeyIndex, key: &[u8]) -> &'a KeyRecord {
    index.record(key).expect("it was put")
}

const NEVER: Revision = Revision { main: i64::MAX, sub: 0 };

#[test]
fn the_history_of_one_key_is_copied_in_several_holds_of_the_lock() {
    let versions = 5 * MAX_HELD_VERSIONS + 7;
    let index = index_of(&[b"deep".to_vec()], versions);
    let mut chunk = KeysChunk::new(i64::MIN, NEVER, 64 << 10);
    chunk.begin_hold();
    let (flow, mut held) = steps::of(|| chunk.add(b"deep", record_of(&index, b"deep")));
    assert_eq!(flow, ControlFlow::Continue(()));
    let mut most = held;
    while chunk.is_unfinished() {
        let refused = chunk.add(b"later", record_of(&index, b"deep"));
        assert!(refused.is_break(), "the frame has the whole entry of a key before the next");
        ((), held) = steps::of(|| chunk.go_on(&index));
        most = most.max(held);
    }
    assert!(most <= 2 * MAX_HELD_VERSIONS, "{most} versions in one hold");
    let decoded = DecodedKeys::decode(&chunk.body, usize::MAX).expect("it is sound");
    assert_eq!((decoded.len(), decoded.entry(0).versions.len(), decoded.entry(0).whole), (1, versions, true));
}

/// Leases have no versions: those of a checkpoint are those of its beginning, however many holds it takes to copy them.
#[test]
fn leases_that_change_while_a_checkpoint_is_written_are_in_it_as_they_were() {
    for kind in [CheckpointKind::Base, CheckpointKind::Delta] {
        let mut bench = TestStore::new();
        let base: Vec<Bytes> = bench.store.begin_checkpoint(CheckpointKind::Base).collect();
        bench.store.checkpoint_written();
        let many = 2 * MAX_LEASES_AT_ONCE as i64;
        bench.apply((1..=many).map(|id| grant(id, 100)).collect());
        let expected = bench.reader.leases(i64::MIN, usize::MAX);
        let mut source = bench.store.begin_checkpoint(kind);
        let mut chunks: Vec<Bytes> = source.by_ref().take(3).collect();
        let revoked = [1, MAX_LEASES_AT_ONCE as i64 + 1, many];
        let request = |id| pb::LeaseRevokeRequest { id };
        let revoke = |id| Command::LeaseRevoke { request: request(id), expiry_term: None };
        bench.apply(revoked.into_iter().map(revoke).collect());
        bench.apply(vec![grant(many + 1, 100), grant(many, 7)]);
        chunks.extend(source);
        let chain = if kind == CheckpointKind::Base { vec![chunks] } else { vec![base, chunks] };
        let state = restore(chain.concat()).expect("it is sound");
        assert_eq!(state.lessor.iter_from(i64::MIN).collect::<Vec<_>>(), expected, "{kind:?}");
    }
}

#[test]
fn what_changed_of_a_deep_history_costs_what_changed() {
    let index = index_of(&[b"deep".to_vec()], 5_000);
    let mut chunk = KeysChunk::new(4_990, NEVER, 64 << 10);
    let (_, examined) = steps::of(|| chunk.add(b"deep", record_of(&index, b"deep")));
    assert!(examined < 50, "{examined} versions are looked at, of 11 that are new");
    let decoded = DecodedKeys::decode(&chunk.body, usize::MAX).expect("it is sound");
    assert_eq!((decoded.entry(0).versions.len(), decoded.entry(0).whole), (11, false));
}

#[test]
fn a_frame_is_full_when_its_keys_are_long_although_they_share_their_beginning() {
    let keys: Vec<_> = (0..40_u8).map(|last| [&[b'k'; 100_000][..], &[last]].concat()).collect();
    let index = index_of(&keys, 1);
    let mut chunk = KeysChunk::new(i64::MIN, NEVER, 64 << 20);
    let added = keys.iter().take_while(|key| chunk.add(key, record_of(&index, key)).is_continue()).count();
    assert_eq!(added, MAX_FRAME_KEY_BYTES.div_ceil(100_001));
    assert!(DecodedKeys::decode(&chunk.body, MAX_FRAME_KEY_BYTES + 100_001).is_ok());
}

#[test]
fn a_received_frame_does_not_grow_without_bound_when_it_is_decoded() {
    let mut bench = rich();
    let mut body = Vec::new();
    let mut before = vec![b'k'; 1 << 20];
    codec::put_key(&mut body, b"", &before);
    let version = |body: &mut Vec<u8>| {
        codec::put_number(body, 2);
        let version = Version { version: 1, create: 5, ..Version::tombstone(Revision { main: 5, sub: 0 }) };
        codec::put_version(body, &version);
    };
    version(&mut body);
    for _ in 0..80 {
        let key = [&before[..], b"k"].concat();
        codec::put_key(&mut body, &before, &key);
        version(&mut body);
        before = key;
    }
    assert!(body.len() < 2 << 20);
    let mut chunks = base(&mut bench);
    chunks.insert(chunks.len() - 1, frame(FrameKind::Keys, &body));
    let refused = RestoreError::Malformed("the keys of a frame are too long");
    assert_eq!(restored(&chunks).err(), Some(refused));
}

/// Each order of the frames of a base.
fn orders(frames: &[Bytes]) -> Vec<Vec<Bytes>> {
    let [] = frames else {
        let with_first = |first: usize| {
            let mut rest = frames.to_vec();
            let first = [rest.remove(first)];
            orders(&rest).into_iter().map(move |rest| [&first, &rest[..]].concat())
        };
        return (0..frames.len()).flat_map(with_first).collect();
    };
    vec![Vec::new()]
}

/// What a member receives it must be able to read at its next start.
#[test]
fn a_snapshot_is_accepted_in_the_order_in_which_a_restart_accepts_it() {
    let mut bench = rich();
    let frames = base(&mut bench);
    assert!(frames.len() <= 6, "{} frames have too many orders", frames.len());
    let accepted = orders(&frames).into_iter().filter(|order| {
        let (received, restarted) = (restored(order).is_ok(), restore(order).is_ok());
        assert_eq!(received, restarted, "{:?}", order.iter().map(|frame| frame[4]).collect::<Vec<_>>());
        received
    });
    assert_eq!(accepted.collect::<Vec<_>>(), std::slice::from_ref(&frames));
    for twice in 0..frames.len() {
        let mut doubled = frames.clone();
        doubled.insert(twice, frames[twice].clone());
        assert_eq!(restored(&doubled).is_ok(), restore(&doubled).is_ok(), "frame {twice}");
    }
}

/// Moves each version of a key.
fn move_all(bench: &mut TestStore, key: &str, round: u64) {
    let versions = bench.reader.versions().next_chunk(usize::MAX).unwrap();
    for version in versions.iter().filter(|version| version.kv.key == key && version.kv.value.len > 0) {
        let address = (round << 40) + version.kv.value.address;
        bench.values.store(address, &Bytes::from_static(b"value"));
        assert!(bench.store.relocate(&version.kv.key, version.kv.mod_revision, &version.kv.value, address));
    }
}

#[test]
fn the_relocated_values_of_one_key_are_divided_into_frames() {
    let mut bench = TestStore::new();
    let key = "k".repeat(50);
    (0..100).for_each(|_| _ = bench.put(&key, "value"));
    let mut chain = base(&mut bench);
    let mut deltas = Vec::new();
    for round in 1..3 {
        move_all(&mut bench, &key, round);
        deltas.push(bench.store.begin_checkpoint(CheckpointKind::Delta).collect::<Vec<_>>());
    }
    let merged = MergedCheckpoint::new(deltas.into_iter().map(Vec::into_iter).collect(), &small_limits());
    let merged: Vec<Bytes> = merged.unwrap().map(Result::unwrap).collect();
    let longest = small_limits().checkpoint_chunk_bytes + key.len() + 30;
    for frame in &merged {
        assert!(frame.len() <= longest, "a frame of {} bytes", frame.len());
    }
    chain.extend(merged);
    let (_, reader) = restore_bench(&bench, &chain).unwrap();
    let all = |reader: &Reader| reader.versions().next_chunk(usize::MAX).unwrap();
    assert_eq!(all(&reader), all(&bench.reader));
}

/// With a `--snapshot-count` of millions, a delta may remove as many keys, and no frame may grow with it.
#[test]
fn removed_keys_are_divided_into_frames_however_many_they_are() {
    const KEYS: usize = 2 * MAX_FRAME_ENTRIES + 1;
    let mut bench = TestStore::within(crate::Limits::default());
    bench.apply((0..KEYS).map(|number| Command::Put(put_request(&format!("{number:05}"), ""))).collect());
    let mut chain = base(&mut bench);
    bench.store.checkpoint_written();
    let revision = bench.delete("0", "9");
    bench.put("other", "value");
    bench.compact(revision + 1).unwrap();
    while !bench.store.purge_step(1_000) {}
    let delta: Vec<Bytes> = bench.store.begin_checkpoint(CheckpointKind::Delta).collect();
    let removed = delta.iter().filter(|frame| frame[4] == FrameKind::Removed as u8);
    assert_eq!(removed.count(), 3);
    chain.extend(delta);
    assert_eq!(restore(&chain).unwrap().hash(), bench.reader.state_hash().1);
}

/// A delta may begin while a compaction is carried out: it has what that has not dropped yet, and its history begins
/// there.
#[test]
fn a_delta_in_the_middle_of_a_long_purge_is_restored() {
    const CHANGES: usize = 20_000;
    let mut bench = TestStore::within(crate::Limits::default());
    bench.put("old", "value");
    let mut chain = base(&mut bench);
    bench.store.checkpoint_written();
    let puts: Vec<_> = (0..CHANGES).map(|number| put_request(&format!("{}", number % 3_000), "")).collect();
    for batch in puts.chunks(1_000) {
        bench.apply(batch.iter().cloned().map(Command::Put).collect());
    }
    let revision = bench.put("new", "value");
    bench.compact(revision).unwrap();
    assert!(!bench.store.purge_step(CHANGES - 1_000), "it is not done");
    chain.extend(bench.store.begin_checkpoint(CheckpointKind::Delta));
    let restored = restore(&chain).unwrap();
    assert_eq!(restored.hash(), bench.reader.state_hash().1);
    assert_eq!(restored.index.log().len(), 1_002, "the changes that are not purged");
}

#[test]
fn long_keys_close_a_frame_of_removed_keys() {
    let mut bench = TestStore::new();
    let keys: Vec<String> = (0..20).map(|number| format!("{number:02}{}", "k".repeat(50))).collect();
    keys.iter().for_each(|key| _ = bench.put(key, "value"));
    let mut chain = base(&mut bench);
    let revision = bench.delete("0", "9");
    bench.put("other", "value");
    bench.compact(revision + 1).unwrap();
    while !bench.store.purge_step(100) {}
    let delta: Vec<Bytes> = bench.store.begin_checkpoint(CheckpointKind::Delta).collect();
    let removed = delta.iter().filter(|frame| frame[4] == FrameKind::Removed as u8);
    let longest = small_limits().checkpoint_chunk_bytes + 60 + 9;
    assert!(removed.clone().count() > 5 && removed.clone().all(|frame| frame.len() <= longest));
    chain.extend(delta);
    assert_eq!(restore(&chain).unwrap().hash(), bench.reader.state_hash().1);
}
