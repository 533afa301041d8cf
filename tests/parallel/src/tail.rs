//! The tail of recent values: a value that was announced can be read at once, from memory until it is durable, then
//! from its file, while the tail drops what is old.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use log::{Append, Disk, Entry, Identity, Log, MemDisk, Opened, Options, Reader, StoredValue, WriteJob};
use parking_lot::Mutex;
use shuttle::thread;

const ENTRIES: u64 = 4;
const VALUE_BYTES: usize = 100;

fn open() -> Opened {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
    // Room for one value: the next one drops it, once it is durable.
    let options = Options { segment_bytes: 4096, tail_bytes: VALUE_BYTES as u64, ..Options::new("/data") };
    Log::create(&disk, &options, Identity { cluster_id: 1, member_id: 2, incarnation: 3 })
        .expect("the disk is well");
    let mut opened = Log::open(&disk, &options).expect("the disk is well");
    opened.log.loaded().expect("nothing is missing");
    opened
}

fn append(log: &mut Log, index: u64, announced: &Mutex<Vec<StoredValue>>) -> WriteJob {
    let payload = Bytes::from(vec![index as u8; VALUE_BYTES]);
    let checksum = crc32c::crc32c(&payload);
    crate::make_room(log, payload.len());
    let Append { job, addresses, .. } = log.append(None, vec![Entry { term: 1, index, kind: 0, payload }]);
    announced.lock().push(StoredValue { address: addresses[0], len: VALUE_BYTES as u32, checksum });
    job
}

fn read_all(reader: &Reader, announced: &Mutex<Vec<StoredValue>>) {
    let mut seen = 0;
    while seen < ENTRIES as usize {
        let values = announced.lock().clone();
        let pin = reader.pin();
        for (nth, value) in pin.read_many(&values).into_iter().enumerate() {
            assert_eq!(value.expect("what was announced can be read"), vec![nth as u8 + 1; VALUE_BYTES]);
        }
        seen = values.len();
        thread::yield_now();
    }
}

/// Entries are appended; their writes run in the order of `writes`, two appends at a time.
fn written(writes: fn(WriteJob, WriteJob) -> [WriteJob; 2]) {
    let Opened { mut log, reader, .. } = open();
    let announced: Arc<Mutex<Vec<StoredValue>>> = Arc::default();
    let readers = [(); 2].map(|()| {
        let (reader, announced) = (reader.clone(), announced.clone());
        thread::spawn(move || read_all(&reader, &announced))
    });
    for index in (1..=ENTRIES).step_by(2) {
        let first = append(&mut log, index, &announced);
        let second = append(&mut log, index + 1, &announced);
        for job in writes(first, second) {
            let writer = thread::spawn(move || WriteJob::run_all(vec![job], &|| Duration::ZERO));
            log.complete(writer.join().unwrap()).expect("the disk is well");
        }
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn what_was_announced_can_be_read_at_once_and_later() {
    crate::holds(|| written(|first, second| [first, second]));
}

#[test]
fn a_log_thread_that_changes_the_order_is_noticed() {
    crate::fails(|| written(|first, second| [second, first]));
}
