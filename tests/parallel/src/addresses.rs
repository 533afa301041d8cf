//! Readers against relocation: a reference that was seen under a pin can be read while values move to another file,
//! references are switched, and the old file is freed and recycled.

use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb as pb;
use bytes::Bytes;
use log::{
    CheckpointKind, Disk, Entry, Identity, Log, LogId, MemDisk, Opened, Options, StoredValue, WriteJob,
    file_of,
};
use shuttle::thread;
use store::{BatchContext, Command, Damaged, KvRef, Limits, Reader, Store, ValueRef, Values};

const KEYS: u64 = 3;
/// Reads of all keys by each of the readers.
const READS: usize = 2;

/// The log as the store's source of values, without a pin of its own: the pin of the reader is tested.
struct LogValues(log::Reader);

impl Values for LogValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let StoredValue { address, len, checksum } = stored(value);
        let read = self.0.pin().read(address, len, checksum);
        read.map_err(|error| Damaged {
            address,
            len,
            key: None,
            reason: error.to_string().into(),
            is_transient: false,
        })
    }

    fn retain(&self, value: &ValueRef) {
        self.0.retain(value.address, value.len);
    }

    fn release(&self, value: &ValueRef) {
        self.0.release(value.address, value.len);
    }
}

fn stored(value: &ValueRef) -> StoredValue {
    StoredValue { address: value.address, len: value.len, checksum: value.checksum }
}

/// The owner of log and store: it plans, applies and relocates.
struct Owner {
    log: Log,
    store: Store,
    index: u64,
}

/// Small files, and nothing is kept in memory: every read is of a file.
fn options() -> Options {
    Options { segment_bytes: 4096, tail_bytes: 0, open_files: 1, ..Options::new("/data") }
}

/// Opens an empty log and store.
fn owner() -> (Owner, log::Reader, Reader, Arc<LogValues>) {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
    let identity = Identity { cluster_id: 1, member_id: 2, incarnation: 3 };
    Log::create(&disk, &options(), identity).expect("the disk is well");
    let Opened { mut log, reader: values, .. } = Log::open(&disk, &options()).expect("the disk is well");
    log.loaded().expect("nothing is missing");
    let log_values = Arc::new(LogValues(values.clone()));
    let (store, reader) = Store::new(log_values.clone(), Limits::default());
    (Owner { log, store, index: 0 }, values, reader, log_values)
}

impl Owner {
    /// Writes a value, durably, that begins with its key.
    fn put(&mut self, key: u64) {
        self.index += 1;
        let mut payload = vec![self.index as u8; 600];
        payload[0] = key as u8;
        let payload = Bytes::from(payload);
        let entry = Entry { term: 1, index: self.index, kind: 0, payload: payload.clone() };
        crate::make_room(&mut self.log, payload.len());
        let append = self.log.append(None, vec![entry]);
        let done = WriteJob::run_all(vec![append.job], &|| Duration::ZERO);
        self.log.complete(done).expect("the disk is well");
        let request = pb::PutRequest {
            key: Bytes::copy_from_slice(&[key as u8]),
            value: payload.clone(),
            ..Default::default()
        };
        let revision = self.index as i64 + 1;
        let compaction = pb::CompactionRequest { revision, physical: false };
        let payload_address = append.addresses[0];
        let context = BatchContext { payload, payload_address, ..BatchContext::at(self.index, 1) };
        let commands = vec![Command::Put(request), Command::Compaction(compaction)];
        self.store.apply_batch(context, commands).expect("nothing is compared");
        while !self.store.purge_step(100) {}
    }

    /// Empties files, and has them freed and recycled.
    fn relocate(&mut self, reader: &Reader) {
        self.work();
        let append = self.log.roll_over().expect("the next segment is prepared");
        let done = WriteJob::run_all(vec![append.job], &|| Duration::ZERO);
        self.log.complete(done).expect("the disk is well");
        self.log.truncate_to(self.index);
        self.checkpoint();
        let candidates = self.log.relocation_candidates(90);
        assert!(!candidates.is_empty(), "a file holds little else than what was overwritten");
        for candidate in candidates {
            let inside: Vec<KvRef> =
                list(reader).into_iter().filter(|kv| file_of(kv.value.address) == candidate.file).collect();
            let done = self
                .log
                .relocate(inside.iter().map(|kv| (stored(&kv.value), kv.key.clone())).collect())
                .run();
            let moved = self.log.relocated(done).expect("the disk is well");
            for (kv, address) in inside.iter().zip(moved.addresses) {
                let address = address.expect("values are intact");
                assert!(self.store.relocate(&kv.key, kv.mod_revision, &kv.value, address));
            }
            moved.file.into_iter().for_each(|file| self.log.relocation_switched(file));
        }
        self.checkpoint();
        self.work();
    }

    fn checkpoint(&mut self) {
        let id = LogId { index: self.index, term: 1 };
        let writer = self.log.begin_checkpoint(CheckpointKind::Base, id);
        self.log.checkpoint_done(writer.finish()).expect("the disk is well");
    }

    /// Runs the jobs of the background.
    fn work(&mut self) {
        for _ in 0..16 {
            let Some(job) = self.log.next_job() else { return };
            self.log.background_done(job.run()).expect("the disk is well");
        }
    }
}

fn list(reader: &Reader) -> Vec<KvRef> {
    let all = pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
    reader.range(&all).expect("the present can be read").kvs
}

/// Reads all keys as the server does: the pin comes first.
fn read(values: &log::Reader, reader: &Reader) {
    let pin = values.pin();
    let seen = list(reader);
    check(&pin, &seen);
}

/// Looks first and pins then.
fn read_and_pin_late(values: &log::Reader, reader: &Reader) {
    let seen = list(reader);
    check(&values.pin(), &seen);
}

fn check(pin: &log::Pin, seen: &[KvRef]) {
    let wanted: Vec<StoredValue> = seen.iter().map(|kv| stored(&kv.value)).collect();
    for (kv, value) in seen.iter().zip(pin.read_many(&wanted)) {
        assert_eq!(value.expect("a pinned value can be read")[0], kv.key[0]);
    }
}

fn relocated(read: fn(&log::Reader, &Reader)) {
    let (mut owner, values, reader, _) = owner();
    owner.work();
    (0..KEYS).for_each(|key| owner.put(key));
    let before: Vec<u64> = list(&reader).iter().map(|kv| kv.value.address).collect();
    let readers = [(); 2].map(|()| {
        let (values, reader) = (values.clone(), reader.clone());
        thread::spawn(move || (0..READS).for_each(|_| read(&values, &reader)))
    });
    owner.put(0);
    owner.relocate(&reader);
    // What was freed is written again.
    (0..2 * KEYS).for_each(|key| owner.put(key % KEYS));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let after: Vec<u64> = list(&reader).iter().map(|kv| kv.value.address).collect();
    assert!(before.iter().all(|address| !after.contains(address)), "values have moved");
}

#[test]
fn what_was_seen_under_a_pin_can_be_read_while_files_come_and_go() {
    crate::holds(|| relocated(read));
}

#[test]
fn a_reader_that_pins_after_it_looked_is_noticed() {
    crate::fails(|| relocated(read_and_pin_late));
}
