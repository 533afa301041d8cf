//! A process that may open few files: a log of many more segments opens, and every value of it is read.

mod rig;

use std::collections::BTreeSet;

use log::{Options, ReadError, Space, StoredValue, file_of};
use rig::{Rig, open, options};

/// Segments of the log; many more than files may be open.
const SEGMENTS: usize = 60;

/// Appends and syncs entries of 500 bytes until they lie in more than `SEGMENTS` files.
fn fill(rig: &mut Rig) -> Vec<StoredValue> {
    let mut values: Vec<StoredValue> = Vec::new();
    let mut files = BTreeSet::new();
    while files.len() <= SEGMENTS {
        let entry = rig.entry(rig.state().entries.len() as u64 + 1, 1, 500);
        let checksum = crc32c::crc32c(&entry.payload);
        let address = rig.append(None, vec![entry])[0];
        rig.reader.retain(address, 500);
        values.push(StoredValue { address, len: 500, checksum });
        files.insert(file_of(address));
    }
    assert!(rig.sync());
    values
}

fn read_all(rig: &Rig, reader: &log::Reader, values: &[StoredValue]) {
    for (at, value) in values.iter().enumerate() {
        let read = reader.pin().read(value.address, value.len, value.checksum);
        assert_eq!(read.expect("an intact value"), rig.state().entries[at].payload);
    }
}

#[test]
fn a_log_of_many_segments_opens_and_is_read_with_few_descriptors() {
    let mut rig = Rig::new();
    let values = fill(&mut rig);
    let disk = rig.disk.fork();
    // Three files for reading; the rest is for what recovery and one reader use at a time.
    disk.set_max_open(Some(6));
    let opened = open(&disk, &options()).expect("no more than one segment is read at a time");
    read_all(&rig, &opened.reader, &values);
    read_all(&rig, &opened.reader, &values);
}

#[test]
fn handles_kept_for_later_are_closed_when_no_other_file_can_be_opened() {
    let options = Options { open_files: 1_000, ..options() };
    let mut rig = Rig::with(&options);
    let values = fill(&mut rig);
    let disk = rig.disk.fork();
    disk.set_max_open(Some(8));
    let mut opened = open(&disk, &options).expect("no more than one segment is read at a time");
    read_all(&rig, &opened.reader, &values);
    // Every handle is in use now, but a write that needs a segment gets one.
    let entry = rig.entry(rig.state().entries.len() as u64 + 1, 1, 500);
    if !rig::make_room(&mut opened.log, None, std::slice::from_ref(&entry)) {
        opened.log.retry_space();
        assert!(rig::make_room(&mut opened.log, None, std::slice::from_ref(&entry)), "handles were closed");
    }
    let append = opened.log.append(None, vec![entry]);
    let done = log::WriteJob::run_all(vec![append.job], &rig::no_clock);
    opened.log.complete(done).expect("a segment was made");
}

#[test]
fn a_lack_of_descriptors_is_neither_damage_nor_a_full_disk() {
    let mut rig = Rig::new();
    let values = fill(&mut rig);
    let disk = rig.disk.fork();
    let mut opened = open(&disk, &options()).expect("an intact log");
    disk.set_max_open(Some(0));
    let value = values[0];
    let read = opened.reader.pin().read(value.address, value.len, value.checksum);
    let error = read.expect_err("no file can be opened");
    assert!(error.is_out_of_descriptors() && matches!(error, ReadError::Io { .. }), "{error}");
    assert!(opened.reader.damaged().is_empty());
    let job = opened.log.next_job().expect("a segment is to be prepared");
    let failed = opened.log.background_done(job.run()).expect_err("no file can be made");
    assert!(!failed.is_full() && failed.is_out_of_descriptors(), "{failed}");
    assert_eq!(opened.log.space(), Space::OutOfDescriptors);
    disk.set_max_open(None);
    opened.log.retry_space();
    while let Some(job) = opened.log.next_job() {
        opened.log.background_done(job.run()).expect("files can be made again");
    }
    assert_eq!(opened.log.space(), Space::Ok);
    opened.reader.pin().read(value.address, value.len, value.checksum).expect("an intact value");
}
