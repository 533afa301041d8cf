//! A full disk: no write needs more of it, the reserve is left for what frees space, and what is freed is used again.

mod rig;

use std::path::Path;

use log::{
    BackgroundJob, CheckpointKind, Disk, Entry, Fault, LogId, MemDisk, Operation, Options, RecordSizes,
    Space, StoredValue, WriteJob,
};
use rig::{Rig, make_room, no_clock, open, options};

const RESERVE: &str = "/data/member/checkpoint/RESERVE";

fn next_entry(rig: &Rig) -> Entry {
    rig.entry(rig.state().entries.len() as u64 + 1, 1, 500)
}

/// Appends and syncs entries of 500 bytes that leave an n-th of the reserve (`kept`), as many as fit; returns their
/// values.
fn fill(rig: &mut Rig, kept: Option<u64>) -> Vec<StoredValue> {
    let mut sizes = RecordSizes::default();
    sizes.add_entry(500);
    let mut values = Vec::new();
    while rig.log.make_room(&sizes, kept) || has_made_one(rig) {
        let entry = next_entry(rig);
        let checksum = crc32c::crc32c(&entry.payload);
        if !rig.log.make_room(&sizes, kept) {
            continue;
        }
        let address = rig.append(None, vec![entry])[0];
        rig.reader.retain(address, 500);
        values.push(StoredValue { address, len: 500, checksum });
        assert!(rig.sync(), "a write that was admitted does not fail");
    }
    values
}

/// Runs the next background job; false if there is none.
fn has_made_one(rig: &mut Rig) -> bool {
    let Some(job) = rig.log.next_job() else { return false };
    let _ = rig.log.background_done(job.run());
    true
}

fn free_bytes(disk: &MemDisk) -> u64 {
    disk.free_bytes(Path::new("/data")).expect("the disk is well")
}

fn used_bytes(disk: &MemDisk) -> u64 {
    disk.set_capacity(Some(u64::MAX));
    u64::MAX - free_bytes(disk)
}

/// Leaves so much free.
fn leave(disk: &MemDisk, bytes: u64) {
    disk.set_capacity(Some(used_bytes(disk) + bytes));
}

#[test]
fn a_log_on_a_full_disk_takes_what_fits_and_nothing_fails() {
    let mut rig = Rig::new();
    rig.disk.set_capacity(Some(40_000));
    let values = fill(&mut rig, None);
    assert!(values.len() > 40, "{} values on 40,000 bytes", values.len());
    assert_eq!(rig.log.space(), Space::Low);
    assert!(free_bytes(&rig.disk) < 4096);
    let entry = next_entry(&rig);
    assert!(rig.try_append(None, vec![entry]).is_none(), "nothing more fits");
    assert!(rig.reader.pin().read_many(&values).iter().all(Result::is_ok));
    rig.disk.set_capacity(None);
    rig.log.retry_space();
    rig.background();
    assert_eq!(rig.log.space(), Space::Ok);
    let entry = next_entry(&rig);
    rig.append(None, vec![entry]);
    assert!(rig.sync());
    rig.check(open(&rig.disk.crash(&mut |_| 1), &options()).expect("what was synced is there"));
}

#[test]
fn what_is_kept_of_the_reserve_is_there_when_the_disk_is_full() {
    let mut rig = Rig::new();
    rig.disk.set_capacity(Some(40_000));
    fill(&mut rig, Some(1));
    let others = fill(&mut rig, Some(4));
    assert!((4..8).contains(&others.len()), "{} records of 546 bytes in 3 KB", others.len());
    assert!(!fill(&mut rig, None).is_empty(), "and a quarter of it is left");
}

#[test]
fn space_is_low_before_nothing_can_be_copied_any_more() {
    let mut rig = Rig::new();
    rig.disk.set_capacity(Some(3 * 4096));
    rig.background();
    assert!(free_bytes(&rig.disk) >= 4096, "it is left for copies");
    assert_eq!(rig.log.space(), Space::Low, "the reserve would take it");
    rig.disk.set_capacity(Some(5 * 4096));
    rig.log.retry_space();
    rig.background();
    assert_eq!(rig.log.space(), Space::Ok);
}

#[test]
fn a_record_longer_than_a_segment_is_refused_room_without_harm() {
    let mut rig = Rig::new();
    rig.disk.set_capacity(Some(40_000));
    rig.background();
    let long = rig.entry(1, 1, 60_000);
    assert!(rig.try_append(None, vec![long.clone()]).is_none());
    assert_eq!(rig.log.space(), Space::Low);
    rig.log.retry_space();
    rig.background();
    assert_eq!(rig.log.space(), Space::Ok, "everything else fits");
    let entry = next_entry(&rig);
    rig.append(None, vec![entry]);
    rig.disk.set_capacity(None);
    let long = Entry { index: 2, ..long };
    rig.append(None, vec![long]);
    assert!(rig.sync());
    rig.check(open(&rig.disk.crash(&mut |_| 1), &options()).expect("a long segment is like any other"));
}

/// One of three preparations at the same time fails; another attempt needs no request.
#[test]
fn a_segment_that_could_not_be_made_is_made_later_when_others_were() {
    let mut rig = Rig::new();
    let mut sizes = RecordSizes::default();
    (0..3).for_each(|_| sizes.add_entry(3_000));
    assert!(!rig.log.make_room(&sizes, None));
    let jobs: Vec<BackgroundJob> = (0..3).filter_map(|_| rig.log.next_job()).collect();
    rig.disk.inject(Fault { operation: Operation::Allocate, after: 0, kind: std::io::ErrorKind::Other });
    let results = jobs.into_iter().map(|job| rig.log.background_done(job.run()).is_ok());
    assert_eq!(results.collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(rig.log.space(), Space::Ok);
    let entries = (1..=3).map(|index| rig.entry(index, 1, 3_000)).collect();
    rig.append(None, entries);
    assert!(rig.sync());
}

#[test]
fn a_checkpoint_on_a_full_disk_is_written_from_the_reserve() {
    let mut rig = Rig::new();
    fill_segment(&mut rig);
    rig.background();
    assert!(rig.disk.exists(Path::new(RESERVE)).expect("the disk is well"));
    leave(&rig.disk, 0);
    assert!(rig.checkpoint(CheckpointKind::Base), "it gives the reserve up");
    assert!(!rig.disk.exists(Path::new(RESERVE)).expect("the disk is well"));
    leave(&rig.disk, 0);
    assert!(!rig.checkpoint(CheckpointKind::Delta), "there is no other");
    rig.disk.set_capacity(None);
    assert!(rig.checkpoint(CheckpointKind::Delta));
    rig.log.retry_space();
    rig.background();
    assert!(rig.disk.exists(Path::new(RESERVE)).expect("the disk is well"), "it is made again");
}

/// A failure for want of space is remembered: the next checkpoint gives the reserve up, however much is free.
#[test]
fn a_checkpoint_larger_than_what_is_free_uses_the_reserve_when_it_is_tried_again() {
    let mut rig = Rig::new();
    fill_segment(&mut rig);
    rig.background();
    // More is free than the reserve has, and less than the checkpoint takes.
    leave(&rig.disk, 1_500);
    let id = LogId { index: 1, term: 1 };
    let mut results = Vec::new();
    for _ in 0..2 {
        let mut writer = rig.log.begin_checkpoint(CheckpointKind::Base, id);
        writer.write(&[7; 1_800]).expect("small chunks wait in memory");
        let done = rig.log.checkpoint_done(writer.finish());
        results.push(done.map_err(|error| error.is_full()));
        while has_made_one(&mut rig) {}
    }
    assert_eq!(results, [Err(true), Ok(())]);
}

#[test]
fn a_log_without_a_ready_segment_opens_on_a_full_disk_and_goes_on_when_files_are_freed() {
    let mut rig = Rig::new();
    rig.background();
    rig.disk.set_capacity(Some(40_000));
    let values = fill(&mut rig, None);
    let disk = rig.disk.crash(&mut |_| 1);
    leave(&disk, 0);
    let mut opened = open(&disk, &options()).expect("opening needs no space");
    let id = LogId { index: values.len() as u64, term: 1 };
    opened.log.loaded().expect("nothing is missing");
    let entry = Entry { index: id.index + 1, ..next_entry(&rig) };
    assert!(!make_room(&mut opened.log, None, std::slice::from_ref(&entry)), "no segment can be made");
    // The reserve of checkpoints is there, as none was written since it was made.
    let done = opened.log.begin_checkpoint(CheckpointKind::Base, id).finish();
    opened.log.checkpoint_done(done).expect("the reserve is given up");
    opened.log.truncate_to(id.index);
    assert!(make_room(&mut opened.log, None, std::slice::from_ref(&entry)), "an empty file is recycled");
}

/// Appends more than a segment holds, so that a checkpoint has something to free.
fn fill_segment(rig: &mut Rig) {
    for _ in 0..10 {
        let entry = next_entry(rig);
        rig.append(None, vec![entry]);
    }
    assert!(rig.sync());
}

/// A log in two directories, of which the WAL directory is a file system of so many bytes.
fn with_wal_disk(bytes: u64, wal_dir_bytes: u64) -> Rig {
    let rig = Rig::with(&two_disks(wal_dir_bytes));
    rig.disk.set_capacity_of(Path::new("/wal"), bytes);
    rig
}

fn two_disks(wal_dir_bytes: u64) -> Options {
    Options { wal_dir: Some("/wal".into()), wal_dir_bytes, ..options() }
}

fn moved(rig: &Rig) -> usize {
    rig.disk.list(Path::new("/data/member/data")).expect("the directory is there").len()
}

/// The disk of the WAL directory is smaller than the sealed segments that may stay there.
#[test]
fn sealed_segments_leave_a_full_wal_disk_for_the_data_disk() {
    let mut rig = with_wal_disk(8 * 4096, 100 * 4096);
    let (mut values, mut waits) = (0, 0);
    while values < 200 {
        let entry = next_entry(&rig);
        if rig.try_append(None, vec![entry]).is_some() {
            assert!(rig.sync());
            values += 1;
        } else {
            waits += 1;
            assert!(waits < 100, "no more than {values} values fit");
            rig.log.retry_space();
            rig.background();
        }
    }
    rig.log.retry_space();
    rig.background();
    assert_eq!(rig.log.space(), Space::Ok);
    assert!(moved(&rig) > 10, "{} segments moved", moved(&rig));
    rig.check(open(&rig.disk.crash(&mut |_| 1), &two_disks(0)).expect("what was synced is there"));
}

/// Runs all background jobs, and space is never low.
fn work_with_space(rig: &mut Rig) {
    let values = rig.state().entries.len();
    while has_made_one(rig) {
        assert_eq!(rig.log.space(), Space::Ok, "after {values} values");
    }
}

/// The sealed segments that may stay, one that is copied, the active one, two that are ready, and what is kept free.
#[test]
fn a_wal_disk_of_five_segments_more_than_what_may_stay_there_is_never_low() {
    let mut rig = with_wal_disk(9 * 4096, 4 * 4096);
    for _ in 0..200 {
        work_with_space(&mut rig);
        let entry = next_entry(&rig);
        rig.append(None, vec![entry]);
        assert!(rig.sync());
    }
    assert!(moved(&rig) > 10, "{} segments moved", moved(&rig));
}

/// Each start ends a segment, however little it holds, and so does a log that frees space.
#[test]
fn segments_that_hold_little_count_as_what_they_take_of_the_wal_disk() {
    let mut rig = with_wal_disk(9 * 4096, 4 * 4096);
    for _ in 0..20 {
        let entry = next_entry(&rig);
        rig.append(None, vec![entry]);
        assert!(rig.sync());
        work_with_space(&mut rig);
        let rolled = rig.log.roll_over().expect("the next segment and the reserve are ready");
        rig.log.complete(WriteJob::run_all(vec![rolled.job], &no_clock)).expect("the disk has room");
    }
    rig.background();
    assert_eq!(moved(&rig), 20 + 1 - 4);
}

/// Segments are made where the log is written, also while nothing can be copied to the data disk.
#[test]
fn a_full_data_disk_leaves_the_log_the_space_of_the_wal_disk() {
    let mut rig = with_wal_disk(16 * 4096, 0);
    leave(&rig.disk, 0);
    let mut values = 0;
    for _ in 0..20 {
        values += fill(&mut rig, None).len();
        rig.log.retry_space();
    }
    assert!(values > 80, "{values} values on 16 segments");
    assert_eq!((rig.log.space(), moved(&rig)), (Space::Low, 0));
    rig.disk.set_capacity(None);
    for _ in 0..3 {
        rig.log.retry_space();
        while has_made_one(&mut rig) {}
    }
    assert_eq!(rig.log.space(), Space::Ok);
    assert!(moved(&rig) > 10, "{} segments moved", moved(&rig));
    rig.check(open(&rig.disk.crash(&mut |_| 1), &two_disks(0)).expect("what was synced is there"));
}

/// What is free on the data disk is for the copies that let files go.
#[test]
fn a_segment_that_would_take_what_is_kept_free_does_not_move() {
    let mut rig = with_wal_disk(16 * 4096, 0);
    fill_segment(&mut rig);
    rig.background();
    let before = moved(&rig);
    leave(&rig.disk, 4096 + 3000);
    for _ in 0..3 {
        fill_segment(&mut rig);
    }
    let jobs = (0..100).take_while(|_| has_made_one(&mut rig)).count();
    assert!(jobs < 10, "a move that fails is not tried again at once: {jobs} jobs");
    assert_eq!((rig.log.space(), moved(&rig)), (Space::Ok, before), "a segment has more than 3,000 bytes");
    leave(&rig.disk, 2 * 4096);
    fill_segment(&mut rig);
    while has_made_one(&mut rig) {}
    assert_eq!(moved(&rig), before + 1, "it is tried again when there is another segment");
}
