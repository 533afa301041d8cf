//! What the store costs at a million keys.
//!
//! `cargo bench -p stele-store`. The first lines printed are one-time costs: filling, checkpoint, restore,
//! memory.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use api::etcdserverpb as pb;
use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use store::{
    BatchContext, CheckpointKind, Command, Damaged, Limits, Reader, Sequential, Store, ValueRef, Values,
};

const KEYS: u64 = 1_000_000;
const VALUE_BYTES: usize = 256;
const BATCH: u64 = 100;

/// Values that are not read.
struct NoValues;

impl Values for NoValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        Err(Damaged {
            key: None,
            address: value.address,
            len: value.len,
            reason: "a benchmark has no values".into(),
            is_transient: false,
        })
    }

    fn retain(&self, _: &ValueRef) {}

    fn release(&self, _: &ValueRef) {}
}

/// Spreads `n` over all numbers, each once: keys arrive in no order.
fn scatter(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

fn key(n: u64) -> [u8; 8] {
    scatter(n).to_be_bytes()
}

/// A batch of puts of the keys numbered from `first` on, its values slices of its payload.
fn batch(first: u64) -> (Bytes, Vec<Command>) {
    let mut payload = BytesMut::new();
    payload.resize(BATCH as usize * VALUE_BYTES, 7);
    let payload = payload.freeze();
    let command = |n: u64| {
        let at = n as usize * VALUE_BYTES;
        let key = Bytes::copy_from_slice(&key(first + n));
        let value = payload.slice(at..at + VALUE_BYTES);
        Command::Put(pb::PutRequest { key, value, ..Default::default() })
    };
    let commands = (0..BATCH).map(command).collect();
    (payload, commands)
}

fn apply(store: &mut Store, index: u64, (payload, commands): (Bytes, Vec<Command>)) {
    let ctx = BatchContext {
        payload,
        payload_address: index << 20,
        is_watched: true,
        ..BatchContext::at(index, 1)
    };
    black_box(store.apply_batch(ctx, commands).expect("nothing is compared"));
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn filled() -> (Store, Reader) {
    let before = resident_bytes();
    let (mut store, reader) = Store::new(Arc::new(NoValues), Limits::default());
    let began = Instant::now();
    for index in 1..=KEYS / BATCH {
        apply(&mut store, index, batch((index - 1) * BATCH));
    }
    println!("fill with {KEYS} keys: {:?}", began.elapsed());
    println!("resident: {} bytes a key", (resident_bytes() - before) / KEYS);
    let began = Instant::now();
    let chunks: Vec<Bytes> = store.begin_checkpoint(CheckpointKind::Base).collect();
    let bytes: usize = chunks.iter().map(Bytes::len).sum();
    println!("checkpoint: {:?}, {} bytes a key", began.elapsed(), bytes as u64 / KEYS);
    let began = Instant::now();
    let restored =
        Store::restore(Arc::new(NoValues), Limits::default(), [chunks.iter().cloned()], &Sequential)
            .expect("it was just written");
    println!("restore: {:?}", began.elapsed());
    assert_eq!(restored.1.state_hash(), reader.state_hash());
    delete_all(restored.0, KEYS / BATCH + 1);
    (store, reader)
}

/// Deletes all keys with one request, and purges them.
#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn delete_all(mut store: Store, index: u64) {
    let all = Bytes::from_static(&[0]);
    let request = pb::DeleteRangeRequest { key: all.clone(), range_end: all, ..Default::default() };
    let before = resident_bytes();
    let began = Instant::now();
    let applied = store
        .apply_batch(BatchContext::at(index, 1), vec![Command::DeleteRange(request)])
        .expect("nothing is compared");
    println!("delete {KEYS} keys at once: {:?}", began.elapsed());
    println!("resident for it: {} bytes a key", (resident_bytes() - before) / KEYS);
    black_box(applied);
    let revision = store.reader().current_revision();
    let compaction = Command::Compaction(pb::CompactionRequest { revision, physical: false });
    store.apply_batch(BatchContext::at(index + 1, 1), vec![compaction]).expect("nothing is compared");
    let began = Instant::now();
    while !store.purge_step(Limits::default().slice_keys) {}
    println!("purge them: {:?}", began.elapsed());
}

fn range(start: &[u8], end: &[u8]) -> pb::RangeRequest {
    let (key, range_end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
    pb::RangeRequest { key, range_end, ..Default::default() }
}

fn benches(c: &mut Criterion) {
    let (mut store, reader) = filled();
    let mut n = 0;
    c.bench_function("get one of 1M keys", |b| {
        b.iter(|| {
            n = (n + 7919) % KEYS;
            black_box(reader.range(&range(&key(n), b"")).expect("the key is there"))
        })
    });
    c.bench_function("count half of 1M keys", |b| {
        let request = pb::RangeRequest { count_only: true, ..range(&[0x40], &[0xC0]) };
        b.iter(|| black_box(reader.range(&request).expect("now can be read")))
    });
    c.bench_function("count 1M keys 1,000 revisions ago", |b| {
        let revision = reader.current_revision() - 1_000;
        let request = pb::RangeRequest { count_only: true, revision, ..range(&[0], &[0]) };
        b.iter(|| black_box(reader.range(&request).expect("the revision is retained")))
    });
    c.bench_function("list 10,000 of 1M keys", |b| {
        let request = pb::RangeRequest { limit: 10_000, ..range(&[0x40], &[0]) };
        b.iter(|| black_box(reader.range(&request).expect("now can be read")))
    });
    let mut index = reader.applied().index;
    c.bench_function("apply 100 updates to 1M keys", |b| {
        b.iter_batched(
            || {
                index += 1;
                (index, batch(index * 7919 % (KEYS - BATCH)))
            },
            |(index, batch)| apply(&mut store, index, batch),
            BatchSize::LargeInput,
        )
    });
    let mut next = KEYS;
    c.bench_function("apply 100 inserts to 1M keys", |b| {
        b.iter_batched(
            || {
                index += 1;
                next += BATCH;
                (index, batch(next))
            },
            |(index, batch)| apply(&mut store, index, batch),
            BatchSize::LargeInput,
        )
    });
}

criterion_group! {
    name = store;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(store);
