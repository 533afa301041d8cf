//! What one put costs with many watchers: the publisher's part, and everything up to the frames.

#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]
use std::hint::black_box;
use std::sync::Arc;

use api::etcdserverpb::WatchCreateRequest;
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use store::watch::{Hub, NextResponse, WatchStream};
use store::{Compacted, Damaged, Event, EventKind, History, KeyRange, KvRef, Revision, ValueRef, Values};

const WATCHERS: usize = 10_000;
const FRAGMENT_BYTES: usize = 2 << 20;

/// A store with 256-byte values and no history: no watcher falls behind here.
struct NoHistory;

impl History for NoHistory {
    fn current_revision(&self) -> i64 {
        1
    }

    fn compact_revision(&self) -> i64 {
        0
    }

    fn events(&self, _: &KeyRange, from: i64, _: usize, _: usize) -> Result<(Vec<Event>, i64), Compacted> {
        Ok((Vec::new(), from + 1))
    }
}

impl Values for NoHistory {
    fn read(&self, _: &ValueRef) -> Result<Bytes, Damaged> {
        Ok(Bytes::from_static(&[b'v'; 256]))
    }

    fn retain(&self, _: &ValueRef) {}

    fn release(&self, _: &ValueRef) {}
}

struct Setup {
    hub: Hub,
    streams: Vec<WatchStream>,
    revision: i64,
}

impl Setup {
    /// All watchers, spread over so many streams and keys.
    fn new(streams: usize, keys: usize) -> Self {
        let hub = Hub::new(Arc::new(NoHistory), Arc::new(NoHistory), 1, 1, 1);
        let mut streams: Vec<_> = (0..streams).map(|_| hub.open(Arc::new(|| {}), FRAGMENT_BYTES)).collect();
        let count = streams.len();
        for watcher in 0..WATCHERS {
            let key = key((watcher / count) % keys);
            streams[watcher % count].create(&WatchCreateRequest { key, ..Default::default() });
        }
        let mut setup = Self { hub, streams, revision: 1 };
        setup.drain();
        setup
    }

    fn put(&mut self, at: usize) {
        self.revision += 1;
        let value = ValueRef { address: 1, len: 256, checksum: 0 };
        let mod_revision = Revision { main: self.revision, sub: 0 };
        let kv =
            KvRef { key: key(at), create_revision: 1, mod_revision, version: self.revision, lease: 0, value };
        let event = Event { kind: EventKind::Put, kv, prev: None };
        self.hub.publish(self.revision, &Arc::from([event]));
    }

    fn drain(&mut self) -> usize {
        let mut bytes = 0;
        for stream in &mut self.streams {
            loop {
                match stream.next(1).expect("no value is damaged") {
                    NextResponse::Send(frame) => bytes += black_box(&frame).len(),
                    NextResponse::Busy => {}
                    NextResponse::Idle => break,
                }
            }
        }
        bytes
    }
}

fn key(at: usize) -> Bytes {
    format!("/registry/pods/default/{at:08}").into()
}

fn publish(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish");
    for (streams, keys) in [(10_000, 1), (100, 1), (100, 100)] {
        let mut setup = Setup::new(streams, keys);
        let name = format!("{WATCHERS} watchers, {streams} streams, {keys} keys");
        group.bench_function(BenchmarkId::new("match", &name), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut spent = std::time::Duration::ZERO;
                for round in 0..rounds {
                    let begun = std::time::Instant::now();
                    setup.put(round as usize % keys);
                    spent += begun.elapsed();
                    setup.drain();
                }
                spent
            });
        });
        group.bench_function(BenchmarkId::new("no match", &name), |bencher| bencher.iter(|| setup.put(keys)));
    }
    group.finish();
}

fn deliver(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish and send");
    for (streams, keys) in [(10_000, 1), (100, 1), (100, 100)] {
        let mut setup = Setup::new(streams, keys);
        group.throughput(Throughput::Elements((WATCHERS / keys) as u64));
        let name = format!("{WATCHERS} watchers, {streams} streams, {keys} keys");
        let mut at = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                at = (at + 1) % keys;
                setup.put(at);
                setup.drain()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, publish, deliver);
criterion_main!(benches);
