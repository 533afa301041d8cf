//! What an append, a group commit and a read cost.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use log::{
    Disk, Entry, Identity, Log, LogId, MemDisk, Opened, Options, RealDisk, RecordSizes, StoredValue, WriteJob,
};

/// A batch of some twenty small puts.
const PAYLOAD_BYTES: usize = 8 << 10;
const VALUE_BYTES: u32 = 256;
const IDENTITY: Identity = Identity { cluster_id: 1, member_id: 2, incarnation: 3 };

/// An opened log that appends the same payload again and again.
struct Bench {
    opened: Opened,
    payload: Bytes,
}

impl Bench {
    fn new(disk: Arc<dyn Disk>, options: &Options) -> Bench {
        Log::create(&disk, options, IDENTITY).expect("an empty directory takes a log");
        let opened = Log::open(&disk, options).expect("a new log");
        Bench { opened, payload: vec![7; PAYLOAD_BYTES].into() }
    }

    fn append(&mut self) -> (WriteJob, u64) {
        let log = &mut self.opened.log;
        let index = log.last_index() + 1;
        let mut sizes = RecordSizes::default();
        sizes.add_entry(PAYLOAD_BYTES as u64);
        while !log.make_room(&sizes, None) {
            let job = log.next_job().expect("a segment is to be made ready");
            log.background_done(job.run()).expect("the disk is well");
        }
        let append = log.append(None, vec![Entry { term: 1, index, kind: 0, payload: self.payload.clone() }]);
        (append.job, append.addresses[0])
    }

    fn commit(&mut self, jobs: Vec<WriteJob>) {
        let done = WriteJob::run_all(jobs, &|| Duration::ZERO);
        self.opened.log.complete(done).expect("the disk is well");
    }

    /// Keeps the disk from filling up: nothing is referenced, so a checkpoint frees all but the newest
    /// segments.
    fn tidy(&mut self) {
        let log = &mut self.opened.log;
        let index = log.last_index();
        let writer = log.begin_checkpoint(log::CheckpointKind::Base, LogId { index, term: 1 });
        log.checkpoint_done(writer.finish()).expect("the disk is well");
        log.truncate_to(index);
        while let Some(job) = log.next_job() {
            log.background_done(job.run()).expect("the disk is well");
        }
    }
}

fn appends(c: &mut Criterion) {
    let mut group = c.benchmark_group("append and commit");
    let directory = tempfile::tempdir().expect("a directory");
    let disks: [(&str, Arc<dyn Disk>, Options); 2] = [
        ("memory", Arc::new(MemDisk::new()), Options { segment_bytes: 4 << 20, ..Options::new("/data") }),
        ("file", Arc::new(RealDisk), Options::new(directory.path())),
    ];
    for (name, disk, options) in disks {
        let mut bench = Bench::new(disk, &options);
        for jobs in [1, 16] {
            group.throughput(Throughput::Bytes((jobs * PAYLOAD_BYTES) as u64));
            let mut count = 0;
            group.bench_function(format!("{name}, {jobs} in a group"), |b| {
                b.iter(|| {
                    let planned = (0..jobs).map(|_| bench.append().0).collect();
                    bench.commit(planned);
                    count += jobs;
                    if count > 2000 {
                        count = 0;
                        bench.tidy();
                    }
                });
            });
        }
    }
    group.finish();
}

fn reads(c: &mut Criterion) {
    let mut group = c.benchmark_group("read");
    let directory = tempfile::tempdir().expect("a directory");
    for (name, tail_bytes) in [("from the tail", 16 << 20), ("by pread", 0)] {
        let options = Options { tail_bytes, ..Options::new(directory.path().join(name)) };
        let mut bench = Bench::new(Arc::new(RealDisk), &options);
        let mut values = Vec::new();
        for _ in 0..256 {
            let (job, address) = bench.append();
            bench.commit(vec![job]);
            let checksum = crc32c::crc32c(&bench.payload[..VALUE_BYTES as usize]);
            values.extend((0..16).map(|at| StoredValue {
                address: address + at * 512,
                len: VALUE_BYTES,
                checksum,
            }));
        }
        let pin = bench.opened.reader.pin();
        let mut at = 0;
        group.bench_function(format!("{name}, one"), |b| {
            b.iter(|| {
                at = (at + 7919) % values.len();
                let value = values[at];
                black_box(pin.read(value.address, value.len, value.checksum).expect("an intact value"))
            });
        });
        group.bench_function(format!("{name}, 4096 in order"), |b| {
            b.iter_batched(
                || values.clone(),
                |values| black_box(pin.read_many(&values)),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, appends, reads);
criterion_main!(benches);
