//! A snapshot is installed as a whole or not at all, at whichever operation a crash occurs.

mod rig;

use std::path::Path;

use bytes::Bytes;
use log::{Checkpoint, Disk, HardState, Log, LogId, MemDisk, Opened, SnapshotInstaller, WriteJob, file_of};
use rig::{Rig, make_room, no_clock, open, options};

const RESERVE: &str = "/data/member/checkpoint/RESERVE";
const SNAPSHOT: LogId = LogId { index: 50, term: 7 };
const HARD_STATE: HardState = HardState { term: 8, vote: 3, commit: 50 };

fn values() -> Vec<Vec<u8>> {
    (0..6).map(|at| vec![at as u8 + 1; 1500]).collect()
}

/// Receives the snapshot; its chunk, which holds the addresses, is returned. `None` once the disk has failed.
fn receive(log: &mut Log) -> Option<(Box<SnapshotInstaller>, Vec<u8>)> {
    let mut installer = log.begin_install(SNAPSHOT);
    let mut chunk = Vec::new();
    for value in values() {
        match installer.write_value(&value, crc32c::crc32c(&value)) {
            Ok(address) => chunk.extend(address.to_le_bytes()),
            Err(error) => {
                let _ = log.install_done(installer.abandon(error), HARD_STATE);
                return None;
            }
        }
    }
    installer.write_chunk(&chunk).expect("small chunks wait in memory");
    if let Err(error) = installer.make_durable() {
        let _ = log.install_done(installer.abandon(error), HARD_STATE);
        return None;
    }
    Some((Box::new(installer), chunk))
}

/// Installs the snapshot. `None` once the disk has failed.
fn install(log: &mut Log) -> Option<()> {
    let (installer, chunk) = receive(log)?;
    let done = installer.commit().ok()?;
    while !log.can_begin_segment() {
        let job = log.next_job()?;
        log.background_done(job.run()).ok()?;
    }
    let append = log.install_done(done, HARD_STATE).ok()?;
    log.install_switched(&addresses(&chunk).into_iter().map(|address| (address, 1500)).collect());
    log.complete(WriteJob::run_all(vec![append.job], &no_clock)).ok()?;
    Some(())
}

fn addresses(chunk: &[u8]) -> Vec<u64> {
    chunk.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes"))).collect()
}

/// A log of entries that the snapshot supersedes.
fn lagging() -> Rig {
    let mut rig = Rig::new();
    for index in 1..=12 {
        let entry = rig.entry(index, 2, 700);
        rig.append(Some(HardState { term: 2, vote: 1, commit: index - 1 }), vec![entry]);
    }
    assert!(rig.sync());
    rig
}

fn first_chunk(checkpoint: &Checkpoint) -> Bytes {
    let files = checkpoint.files().expect("its files are there");
    files.into_iter().flatten().next().expect("a chunk").expect("an intact chunk")
}

fn check_installed(opened: &mut Opened) {
    let checkpoint = opened.recovered.checkpoint.as_ref().expect("the snapshot's");
    assert_eq!(checkpoint.id, SNAPSHOT);
    assert_eq!((opened.recovered.first_index, opened.recovered.last_index), (51, 50));
    assert_eq!(opened.log.term(50), Some(7));
    assert!(opened.recovered.hard_state.commit == 50 && opened.recovered.hard_state.term >= 7);
    for (address, value) in addresses(&first_chunk(checkpoint)).into_iter().zip(values()) {
        opened.reader.retain(address, 1500);
        let read = opened.reader.pin().read(address, 1500, crc32c::crc32c(&value));
        assert_eq!(read.expect("a value of the snapshot"), value);
    }
    opened.log.loaded().expect("all values are there");
}

fn check_before(rig: &Rig, opened: &Opened) {
    assert!(opened.recovered.checkpoint.is_none());
    assert_eq!(opened.recovered.last_index, 12);
    assert_eq!(opened.recovered.hard_state, rig.state().hard_state);
}

#[test]
fn a_crash_at_any_operation_leaves_before_or_after() {
    let mut whole = lagging();
    let before = whole.disk.changes();
    install(&mut whole.log).expect("the disk is well");
    let changes = whole.disk.changes() - before;
    let (mut installed, mut not) = (0, 0);
    for stop in 0..=changes {
        for choice in 0..3 {
            let mut rig = lagging();
            rig.disk.stop_after(stop);
            let done = install(&mut rig.log);
            let disk = rig.disk.crash(&mut |below| choice % below);
            let mut opened = open(&disk, &options()).expect("a crash is not corruption");
            if opened.recovered.checkpoint.is_some() {
                check_installed(&mut opened);
                installed += 1;
            } else {
                assert!(done.is_none(), "an installation that was reported is lost");
                check_before(&rig, &opened);
                not += 1;
            }
        }
    }
    assert!(installed > 3 && not > 3);
}

#[test]
fn the_log_continues_after_a_snapshot_and_old_files_are_freed() {
    let mut rig = lagging();
    let old: Vec<String> = rig.disk.list(Path::new("/data/member/wal")).expect("the directory is there");
    install(&mut rig.log).expect("the disk is well");
    rig.background();
    let names = rig.disk.list(Path::new("/data/member/wal")).expect("the directory is there");
    assert!(names.iter().all(|name| !old.contains(name)), "{names:?}");
    let entry = rig.entry(51, 8, 100);
    assert!(make_room(&mut rig.log, None, std::slice::from_ref(&entry)));
    let append = rig.log.append(None, vec![entry.clone()]);
    rig.log.complete(WriteJob::run_all(vec![append.job], &no_clock)).expect("the disk is well");
    let disk: MemDisk = rig.disk.crash(&mut |_| 1);
    let opened = open(&disk, &options()).expect("a crash is not corruption");
    assert_eq!(opened.recovered.hard_state, HARD_STATE);
    let entries: Vec<_> = opened.log.entries_from(51).map(|item| item.expect("intact").0).collect();
    assert_eq!(entries, [entry]);
}

/// Leaves nothing free on the disk.
fn fill(disk: &MemDisk) {
    disk.set_capacity(Some(u64::MAX));
    let used = u64::MAX - disk.free_bytes(Path::new("/data")).expect("the disk is well");
    disk.set_capacity(Some(used));
}

#[test]
fn a_commit_that_finds_no_space_changes_nothing_and_can_be_tried_again() {
    let mut rig = lagging();
    let (installer, _) = receive(&mut rig.log).expect("the disk is well");
    let _ = rig.disk.remove(Path::new(RESERVE));
    fill(&rig.disk);
    let mut waiting = installer.commit().err().expect("the manifest does not fit");
    for _ in 0..2 {
        assert!(waiting.error.is_full(), "{}", waiting.error);
        let opened = open(&rig.disk.crash(&mut |_| 0), &options()).expect("a full disk is not corruption");
        check_before(&rig, &opened);
        waiting = waiting.installer.commit().err().expect("the manifest does not fit");
    }
    rig.disk.set_capacity(None);
    let done = waiting.installer.commit().ok().expect("the manifest fits");
    rig.background();
    let append = rig.log.install_done(done, HARD_STATE).expect("it is committed");
    rig.log.complete(WriteJob::run_all(vec![append.job], &no_clock)).expect("the disk is well");
    check_installed(&mut open(&rig.disk.crash(&mut |_| 0), &options()).expect("it was synced"));
}

#[test]
fn a_commit_that_finds_no_space_gets_that_of_the_reserve() {
    let mut rig = lagging();
    rig.background();
    let (installer, _) = receive(&mut rig.log).expect("the disk is well");
    assert!(rig.disk.exists(Path::new(RESERVE)).expect("the disk is well"));
    fill(&rig.disk);
    assert!(installer.commit().is_ok());
    assert!(!rig.disk.exists(Path::new(RESERVE)).expect("the disk is well"));
}

#[test]
fn the_references_of_a_snapshot_are_the_only_ones_after_it() {
    let mut rig = lagging();
    let address = rig.log.address(3).expect("an entry");
    rig.reader.retain(address, 700);
    install(&mut rig.log).expect("the disk is well");
    assert_eq!(rig.reader.live_bytes(), 6 * 1500);
    rig.log.check_all();
}

#[test]
fn a_value_with_a_wrong_checksum_is_refused() {
    let mut rig = lagging();
    let mut installer = rig.log.begin_install(SNAPSHOT);
    let error = installer.write_value(b"value", 1).expect_err("its checksum is wrong");
    assert!(rig.log.install_done(installer.abandon(error), HARD_STATE).is_err());
    assert_eq!(rig.log.last_index(), 12);
}

#[test]
fn values_of_a_snapshot_get_new_addresses() {
    let mut rig = lagging();
    let before = (1..=12).filter_map(|index| rig.log.address(index)).max().expect("there are entries");
    install(&mut rig.log).expect("the disk is well");
    let opened = open(&rig.disk.fork(), &options()).expect("an intact log");
    let checkpoint = opened.recovered.checkpoint.expect("the snapshot's");
    assert!(
        addresses(&first_chunk(&checkpoint)).into_iter().all(|address| file_of(address) > file_of(before))
    );
}
