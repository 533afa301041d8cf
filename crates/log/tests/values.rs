//! Values: read by address, counted by file, relocated, and freed when no reader can hold their address.

mod rig;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use log::{
    Access, CheckpointKind, Content, Disk, Fault, LogId, Operation, Options, ReadError, ReadSlot, Space,
    StoredValue, file_of,
};
use rig::{Rig, open, options};

/// Appends and syncs entries of 500 bytes until they fill `files` files; returns their values.
fn fill(rig: &mut Rig, files: usize) -> Vec<StoredValue> {
    let mut values: Vec<StoredValue> = Vec::new();
    while values.iter().map(|value| file_of(value.address)).collect::<std::collections::BTreeSet<_>>().len()
        <= files
    {
        let entry = rig.entry(rig.state().entries.len() as u64 + 1, 1, 500);
        let checksum = crc32c::crc32c(&entry.payload);
        let address = rig.append(None, vec![entry])[0];
        rig.reader.retain(address, 500);
        values.push(StoredValue { address, len: 500, checksum });
    }
    assert!(rig.sync());
    values
}

fn value(rig: &Rig, at: usize) -> Bytes {
    rig.state().entries[at].payload.clone()
}

fn last(rig: &Rig) -> LogId {
    let entry = rig.state().entries.last().expect("there are entries");
    LogId { index: entry.index, term: entry.term }
}

fn truncate(rig: &mut Rig) {
    let last = last(rig);
    rig.log.truncate_to(last.index);
}

fn wal_files(rig: &Rig) -> Vec<String> {
    rig.disk.list(Path::new("/data/member/wal")).expect("the directory is there")
}

#[test]
fn values_are_read_from_memory_and_from_disk_in_the_order_asked() {
    let mut rig = Rig::new();
    let values = fill(&mut rig, 3);
    let pin = rig.reader.pin();
    let backwards: Vec<StoredValue> = values.iter().rev().copied().collect();
    for (at, read) in pin.read_many(&backwards).into_iter().enumerate() {
        assert_eq!(read.expect("an intact value"), value(&rig, values.len() - 1 - at));
    }
    for (at, stored) in values.iter().enumerate() {
        let part = pin.read(stored.address + 10, 5, crc32c::crc32c(&value(&rig, at)[10..15]));
        assert_eq!(part.expect("a part of a payload"), value(&rig, at).slice(10..15));
    }
    assert_eq!(rig.reader.live_bytes(), 500 * values.len() as u64);
    assert!(rig.reader.file_bytes() > rig.reader.live_bytes());
}

#[test]
fn a_damaged_value_is_an_error_that_names_the_file_and_is_remembered() {
    let mut rig = Rig::new();
    let values = fill(&mut rig, 3);
    let bad = values[1];
    let path = PathBuf::from(format!("/data/member/wal/{:08x}.seg", file_of(bad.address)));
    rig.disk.flip_bit(&path, u64::from(bad.address as u32) + 7, 3).expect("the file is there");
    let reads = rig.reader.pin().read_many(&values[..3]);
    assert!(reads[0].is_ok() && reads[2].is_ok());
    match &reads[1] {
        Err(ReadError::Damaged { path: found, offset, len }) => {
            assert_eq!((found, *offset, *len), (&path, u64::from(bad.address as u32), 500));
        }
        other => panic!("{other:?}"),
    }
    let damaged = rig.reader.damaged();
    assert_eq!((damaged.len(), damaged[0].address), (1, bad.address));

    assert!(rig.reader.is_known_damaged(bad.address) && !rig.reader.is_known_damaged(values[0].address));
    let done = rig.log.write_repaired_values(vec![(value(&rig, 1), bad.checksum, "tag".into())]).run();
    let repaired = rig.log.relocated(done).expect("the disk is well");
    let address = *repaired.addresses[0].as_ref().expect("the value was written");
    let read = rig.reader.pin().read(address, bad.len, bad.checksum);
    assert_eq!(read.expect("the repaired value"), value(&rig, 1));
}

#[test]
fn a_failed_read_of_a_value_or_an_entry_is_not_remembered_as_damage() {
    let mut rig = Rig::new();
    let values = fill(&mut rig, 3);
    let (first, second) = (values[0], values[1]);
    let eio = || {
        rig.disk.inject(Fault { operation: Operation::Read, after: 0, kind: std::io::ErrorKind::Other });
    };
    eio();
    let failed = rig.reader.pin().read(first.address, first.len, first.checksum).expect_err("the disk fails");
    assert!(failed.is_of_the_disk() && !failed.is_out_of_descriptors(), "{failed}");
    eio();
    let failed = rig.log.read_entries(1, 2, u64::MAX).expect("in range").run().expect_err("the disk fails");
    assert!(failed.is_of_the_disk(), "{failed}");
    assert!(rig.reader.damaged().is_empty() && !rig.reader.is_known_damaged(first.address));
    assert_eq!(rig.reader.pin().read_many(&[first, second]).iter().filter(|read| read.is_ok()).count(), 2);
}

#[test]
fn a_damaged_entry_is_repaired_in_place() {
    let mut rig = Rig::new();
    let values = fill(&mut rig, 3);
    let bad = values[0];
    let path = PathBuf::from(format!("/data/member/wal/{:08x}.seg", file_of(bad.address)));
    rig.disk.flip_bit(&path, u64::from(bad.address as u32), 0).expect("the file is there");
    let read = |rig: &Rig| rig.log.read_entries(1, 3, u64::MAX).expect("in range").run();
    assert!(matches!(read(&rig), Err(ReadError::Damaged { .. })));
    let entry = rig.state().entries[0].clone();
    let wrong = log::Entry { term: 9, ..entry.clone() };
    assert!(rig.log.repair_entry(wrong).is_err());
    rig.log.repair_entry(entry).expect("the entry of the log").run().expect("the disk is well");
    assert_eq!(read(&rig).expect("repaired"), rig.state().entries[..2]);
    assert!(rig.reader.damaged().is_empty());
}

#[test]
fn entries_are_read_within_a_limit_of_bytes() {
    let mut rig = Rig::new();
    fill(&mut rig, 2);
    let read = |from, to, max| rig.log.read_entries(from, to, max).map(|job| job.run().expect("intact"));
    assert_eq!(read(2, 5, 1200).expect("in range"), rig.state().entries[1..3]);
    assert_eq!(read(2, 5, 1).expect("in range"), rig.state().entries[1..2], "at least one");
    assert!(matches!(read(0, 5, 1), Err(ReadError::NoEntry { index: 0, first: 1, .. })));
    assert!(read(u64::MAX, u64::MAX, 1).is_err());
}

#[test]
fn a_file_is_freed_after_switch_checkpoint_and_the_last_old_pin() {
    let mut rig = Rig::new();
    let values = fill(&mut rig, 4);
    let first_file = file_of(values[0].address);
    let in_first = values.iter().filter(|value| file_of(value.address) == first_file).count();
    for dead in &values[1..in_first] {
        rig.reader.release(dead.address, dead.len);
    }
    assert!(rig.log.relocation_candidates(25).is_empty(), "raft and replay still need the files");
    assert!(rig.checkpoint(CheckpointKind::Base));
    truncate(&mut rig);
    let candidates = rig.log.relocation_candidates(25);
    assert_eq!(candidates.iter().map(|file| file.file).collect::<Vec<_>>(), [first_file]);

    let old_pin = rig.reader.pin();
    let done = rig.log.relocate(vec![(values[0], "tag".into())]).run();
    let moved = rig.log.relocated(done).expect("the disk is well");
    let address = *moved.addresses[0].as_ref().expect("an intact value");
    assert!(rig.checkpoint(CheckpointKind::Delta), "before the switch");
    rig.reader.retain(address, 500);
    rig.reader.release(values[0].address, 500);
    rig.log.relocation_switched(moved.file.expect("a value was copied"));
    rig.background();
    let name = format!("{first_file:08x}.seg");
    assert!(wal_files(&rig).contains(&name), "the durable checkpoint still references it");

    assert!(rig.checkpoint(CheckpointKind::Delta));
    rig.background();
    assert!(wal_files(&rig).contains(&name), "a pin is older than the switch");
    let read = old_pin.read(values[0].address, 500, values[0].checksum);
    assert_eq!(read.expect("pinned files stay"), value(&rig, 0));
    drop(old_pin);
    rig.background();
    assert!(!wal_files(&rig).contains(&name));
    let read = rig.reader.pin().read(address, 500, values[0].checksum);
    assert_eq!(read.expect("the relocated value"), value(&rig, 0));
}

/// What a file holds, read a part at a time, each by a reader that goes on where the one before stopped.
fn contents(rig: &Rig, file: u32) -> Result<Vec<Content>, ReadError> {
    let (mut found, mut position) = (Vec::new(), 0);
    loop {
        let mut contents = rig.log.contents(file, position).expect("the file says what it holds");
        match contents.next_part()? {
            Some(content) => found.push(content),
            None => return Ok(found),
        }
        position = contents.position();
    }
}

#[test]
fn files_say_what_they_hold() {
    let mut rig = Rig::new();
    let values = fill(&mut rig, 3);
    let file = file_of(values[0].address);
    let in_file = values.iter().take_while(|value| file_of(value.address) == file);
    let entries = rig.state().entries.iter().zip(in_file);
    let expected: Vec<Content> =
        entries.map(|(entry, value)| Content::Entry(entry.clone(), value.address)).collect();
    assert!(expected.len() > 1);
    assert_eq!(contents(&rig, file).expect("an intact segment"), expected);

    let tags = ["one", "", "three"];
    let tagged = values.iter().zip(tags).map(|(value, tag)| (*value, tag.into())).collect();
    let moved = rig.log.relocate(tagged).run();
    let moved = rig.log.relocated(moved).expect("the disk is well");
    let copies = moved.addresses.iter().zip(&values).zip(tags).map(|((address, value), tag)| {
        let address = *address.as_ref().expect("an intact value");
        Content::Value(log::StoredValue { address, ..*value }, tag.into())
    });
    let copies: Vec<Content> = copies.collect();
    let copy = moved.file.expect("values were copied");
    assert_eq!(contents(&rig, copy).expect("an intact footer"), copies);

    let path = PathBuf::from(format!("/data/member/data/{copy:08x}.dat"));
    let length = rig.disk.open(&path).and_then(|file| file.length()).expect("the file is there");
    rig.disk.flip_bit(&path, length - 50, 0).expect("the file is there");
    assert!(contents(&rig, copy).is_err(), "a damaged footer is noticed");
    let path = PathBuf::from(format!("/data/member/wal/{file:08x}.seg"));
    rig.disk.flip_bit(&path, u64::from(values[1].address as u32) + 3, 0).expect("the file is there");
    assert!(contents(&rig, file).is_err(), "a damaged entry is noticed");
}

#[test]
fn relocated_values_survive_a_crash_and_orphans_are_removed() {
    let mut rig = Rig::new();
    let values = fill(&mut rig, 3);
    let done = rig.log.relocate(values[..2].iter().map(|value| (*value, "tag".into())).collect()).run();
    let moved = rig.log.relocated(done).expect("the disk is well");
    let address = *moved.addresses[1].as_ref().expect("an intact value");
    drop(rig.log);
    let disk = rig.disk.crash(&mut |_| 0);
    let mut opened = open(&disk, &options()).expect("a crash is not corruption");
    opened.reader.retain(address, 500);
    opened.log.loaded().expect("the data segment is durable");
    let read = opened.reader.pin().read(address, 500, values[1].checksum);
    assert_eq!(read.expect("the relocated value"), rig.states.last().expect("a state").entries[1].payload);
    drop(opened);

    let mut opened = open(&disk, &options()).expect("nothing changed");
    opened.log.loaded().expect("nothing is referenced");
    while let Some(job) = opened.log.next_job() {
        opened.log.background_done(job.run()).expect("the disk is well");
    }
    let data = disk.list(Path::new("/data/member/data")).expect("the directory is there");
    assert!(data.is_empty(), "{data:?}");
}

#[test]
fn a_missing_file_of_live_values_is_named() {
    let mut rig = Rig::new();
    fill(&mut rig, 1);
    drop(rig.log);
    let mut opened = open(&rig.disk.fork(), &options()).expect("an intact log");
    opened.reader.retain(0x77 << 32 | 100, 10);
    let error = opened.log.loaded().expect_err("there is no such file").to_string();
    assert!(error.contains("00000077"), "{error}");
}

#[test]
fn sealed_segments_move_out_of_a_separate_wal_directory() {
    let options =
        Options { wal_dir: Some("/wal".into()), wal_dir_bytes: 6000, reserve_segments: 0, ..options() };
    let mut rig = Rig::with(&options);
    let values = fill(&mut rig, 4);
    let pin = rig.reader.pin();
    rig.background();
    let moved = rig.disk.list(Path::new("/data/member/data")).expect("the directory is there");
    assert!(!moved.is_empty());
    drop(pin);
    rig.background();
    let left = rig.disk.list(Path::new("/wal")).expect("the directory is there");
    assert!(moved.iter().all(|name| !left.contains(name)), "{moved:?} {left:?}");
    for (at, read) in rig.reader.pin().read_many(&values).into_iter().enumerate() {
        assert_eq!(read.expect("an intact value"), value(&rig, at));
    }
    rig.check(open(&rig.disk.fork(), &options).expect("a log in two directories"));
}

#[test]
fn a_full_disk_is_low_space_while_the_reserve_lasts() {
    let mut rig = Rig::new();
    rig.background();
    assert_eq!(rig.log.space(), Space::Ok);
    rig.disk.set_capacity(Some(0));
    fill(&mut rig, 0);
    rig.background();
    assert_eq!(rig.log.space(), Space::Low);
    fill(&mut rig, 1);
    rig.disk.set_capacity(None);
    rig.log.retry_space();
    rig.background();
    assert_eq!(rig.log.space(), Space::Ok);
}

#[test]
fn a_segment_is_only_ended_early_if_the_reserve_stays_whole() {
    let mut rig = Rig::new();
    fill(&mut rig, 1);
    assert!(rig.log.roll_over().is_none(), "nothing is prepared");
    rig.background();
    rig.disk.set_capacity(Some(0));
    let rolled = rig.log.roll_over().expect("the next segment and the reserve are prepared");
    rig.log.complete(log::WriteJob::run_all(vec![rolled.job], &rig::no_clock)).expect("the blocks are there");
    fill(&mut rig, 0);
    for _ in 0..3 {
        rig.background();
        assert_eq!(rig.log.space(), Space::Low);
        assert!(rig.log.roll_over().is_none(), "the reserve is for others");
    }
    fill(&mut rig, 1);
    rig.check(open(&rig.disk.crash(&mut |_| 1), &options()).expect("the reserve was there for appends"));
}

#[test]
fn a_restart_on_a_full_disk_begins_in_a_preallocated_segment() {
    let mut rig = Rig::new();
    rig.background();
    let disk = rig.disk.crash(&mut |_| 0);
    disk.set_capacity(Some(0));
    let mut opened = open(&disk, &options()).expect("opening needs no space");
    let entry = rig.entry(1, 1, 500);
    assert!(rig::make_room(&mut opened.log, None, std::slice::from_ref(&entry)));
    let append = opened.log.append(None, vec![entry]);
    let done = log::WriteJob::run_all(vec![append.job], &rig::no_clock);
    opened.log.complete(done).expect("the blocks are there");
}

#[test]
fn a_failed_sync_is_fatal_and_a_failed_checkpoint_is_not() {
    let mut rig = Rig::new();
    fill(&mut rig, 1);
    rig.disk.inject(Fault { operation: Operation::Sync, after: 0, kind: std::io::ErrorKind::Other });
    assert!(!rig.checkpoint(CheckpointKind::Base));
    assert!(rig.checkpoint(CheckpointKind::Base));
    let entry = rig.entry(last(&rig).index + 1, 1, 10);
    rig.append(None, vec![entry]);
    rig.disk.inject(Fault { operation: Operation::Sync, after: 0, kind: std::io::ErrorKind::Other });
    assert!(!rig.sync());
    rig.check(open(&rig.disk.crash(&mut |_| 1), &options()).expect("recovery is the way back"));
}

#[test]
fn slots_are_filled_from_memory_and_from_files() {
    let mut rig = Rig::new();
    let values = fill(&mut rig, 3);
    let mut rooms: Vec<(StoredValue, Vec<u8>)> =
        values.iter().rev().map(|value| (*value, vec![0; value.len as usize])).collect();
    let slots = |rooms: &mut [(StoredValue, Vec<u8>)], pin: &log::Pin| {
        let slots = rooms.iter_mut().map(|(value, into)| ReadSlot { value: *value, into });
        pin.read_into(&mut slots.collect::<Vec<_>>(), Access::Scan)
    };
    let pin = rig.reader.pin();
    slots(&mut rooms, &pin).expect("all are intact");
    for (at, (_, read)) in rooms.iter().rev().enumerate() {
        assert_eq!(read[..], value(&rig, at));
    }

    let bad = values[1];
    let path = PathBuf::from(format!("/data/member/wal/{:08x}.seg", file_of(bad.address)));
    rig.disk.flip_bit(&path, u64::from(bad.address as u32) + 7, 3).expect("the file is there");
    assert!(matches!(slots(&mut rooms, &pin), Err(ReadError::Damaged { .. })));
    let damaged = rig.reader.damaged();
    assert_eq!((damaged.len(), damaged[0].address), (1, bad.address));
    rooms.retain(|(value, _)| *value != bad);
    slots(&mut rooms, &pin).expect("the others are intact");
}
