//! The store's part of a checkpoint, in which every byte may be anything, is restored.
//!
//! What is restored can be read, written, compacted and purged, and its own checkpoint restores to the same state.
//! References that come with it are taken and given back in equal numbers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use api::etcdserverpb as pb;
use bytes::Bytes;
use store::{
    BatchContext, CheckpointKind, Command, Damaged, Limits, MergedCheckpoint, Reader, Sequential, Store,
    ValueRef, Values, chunk_values, with_addresses,
};

use crate::input::state_hash::with_found_hash;

/// Values longer than this are damaged: the fuzzer chooses lengths.
const MAX_VALUE_BYTES: u32 = 1 << 10;
/// A checkpoint that ends behind these is only read: up to 2^62 entries and 2^61 revisions are restored, which no store
/// reaches, and what is written there might lie behind them.
const INDEX_END: u64 = (1 << 62) - 16;
const REVISION_END: i64 = (1 << 61) - 16;
/// Where the payloads of our own entries lie.
const OWN_ADDRESS: u64 = 1 << 60;

/// Every value is zeros of its length; references are counted.
#[derive(Default)]
pub struct Zeros(Mutex<HashMap<(u64, u32), usize>>);

impl Values for Zeros {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        match value.len <= MAX_VALUE_BYTES {
            true => Ok(vec![0; value.len as usize].into()),
            false => Err(Damaged {
                address: value.address,
                len: value.len,
                reason: "too long".into(),
                key: None,
                is_transient: false,
            }),
        }
    }

    fn retain(&self, value: &ValueRef) {
        *self.0.lock().expect("no thread panicked").entry((value.address, value.len)).or_default() += 1;
    }

    fn release(&self, value: &ValueRef) {
        let mut references = self.0.lock().expect("no thread panicked");
        let count = references.get_mut(&(value.address, value.len)).expect("released what was retained");
        *count = count.checked_sub(1).expect("released as often as retained");
    }
}

/// Limits so small that every walk is cut.
pub fn limits() -> Limits {
    Limits {
        chunk_keys: 3,
        count_steps: 4,
        found_keys: 5,
        sorted_versions: 3,
        checkpoint_chunk_bytes: 64,
        slice_keys: 3,
        fetched_bytes: 64,
        merge_round_bytes: 200,
    }
}

/// Divides bytes into checkpoints: each frame of kind 1 begins one. Bytes that are no frames stay with what is before.
fn checkpoints(data: &[u8]) -> Vec<std::vec::IntoIter<Bytes>> {
    let (mut starts, mut at) = (vec![0], 0);
    while let Some([l0, l1, l2, l3, kind, ..]) = data[at..].first_chunk::<9>() {
        if *kind == 1 && at > 0 {
            starts.push(at);
        }
        at = data.len().min(at + 9 + u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize);
    }
    let ends = starts[1..].iter().copied().chain([data.len()]);
    let ranges = starts.iter().copied().zip(ends);
    ranges.map(|(start, end)| vec![Bytes::copy_from_slice(&data[start..end])].into_iter()).collect()
}

/// Restores the bytes as a chain; merges it, too. When only the state's hash is wrong, once more with the right one.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    drop(chunk_values(data));
    drop(with_addresses(data, |value| Some(value.address.wrapping_add(1))));
    let values = Arc::new(Zeros::default());
    if let Ok(merged) = MergedCheckpoint::new(checkpoints(data), &limits()) {
        merged.for_each(drop);
    }
    match Store::restore(values.clone(), limits(), checkpoints(data), &Sequential) {
        Ok((store, reader)) => use_store(store, &reader, &values),
        Err(refusal) => {
            let Some(data) = with_found_hash(data, &refusal.to_string()) else {
                return;
            };
            let values = Arc::new(Zeros::default());
            let restored = Store::restore(values.clone(), limits(), checkpoints(&data), &Sequential);
            if let Ok((store, reader)) = restored {
                use_store(store, &reader, &values);
            }
        }
    }
}

fn use_store(mut store: Store, reader: &Reader, values: &Arc<Zeros>) {
    read(reader);
    if reader.applied().index > INDEX_END || reader.current_revision() > REVISION_END {
        return;
    }
    let put = pb::PutRequest { key: "k".into(), ..Default::default() };
    let all = |prev_kv| pb::DeleteRangeRequest { key: "\0".into(), range_end: "\0".into(), prev_kv };
    let compaction = pb::CompactionRequest { revision: reader.current_revision(), physical: true };
    let leases = reader.leases(i64::MIN, 16).into_iter().map(|lease| Command::LeaseRevoke {
        request: pb::LeaseRevokeRequest { id: lease.id },
        expiry_term: None,
    });
    apply(&mut store, reader, &[Command::Put(put), Command::Compaction(compaction)]);
    read(reader);
    while !store.purge_step(3) {}
    read(reader);
    let leases: Vec<Command> = leases.collect();
    apply(&mut store, reader, &leases);
    same_after_checkpoint(&mut store, reader, values);
    apply(&mut store, reader, &[Command::DeleteRange(all(true))]);
    same_after_checkpoint(&mut store, reader, values);
}

fn apply(store: &mut Store, reader: &Reader, commands: &[Command]) {
    let applied = reader.applied();
    let context = BatchContext {
        payload_address: OWN_ADDRESS,
        has_caller: vec![true, true],
        is_watched: true,
        ..BatchContext::at(applied.index + 1, applied.term)
    };
    store.apply_batch(context, commands.to_vec()).expect("nothing is compared");
}

fn read(reader: &Reader) {
    let all = pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
    for revision in [0, reader.compacted(), reader.current_revision() - 1] {
        drop(reader.range(&pb::RangeRequest { revision, ..all.clone() }));
        if let Ok(mut hash) = reader.hash_kv(revision) {
            while hash.step().expect("nothing is installed").is_none() {}
        }
    }
    if let Ok(mut stream) = reader.range_stream(&all) {
        while stream.next_chunk(3, 64).is_ok_and(|chunk| chunk.is_ok_and(|chunk| chunk.is_some())) {}
    }
    for lease in reader.leases(i64::MIN, 16) {
        let mut keys = reader.lease_keys(lease.id);
        while keys.step().is_none() {}
    }
    drop((reader.counts(), reader.referenced_bytes(), reader.alarms(), reader.members()));
}

fn same_after_checkpoint(store: &mut Store, reader: &Reader, values: &Arc<Zeros>) {
    let mut source = store.begin_checkpoint(CheckpointKind::Base);
    let chunks: Vec<Bytes> = std::iter::from_fn(|| source.next()).collect();
    let (_, restored) = Store::restore(values.clone(), limits(), [chunks.into_iter()], &Sequential)
        .expect("our own checkpoint can be restored");
    assert_eq!(restored.state_hash(), reader.state_hash());
    assert_eq!(restored.current_revision(), reader.current_revision());
}
