//! The same on the file system of this machine: nothing here may depend on the disk in memory.

#![expect(clippy::disallowed_methods, reason = "the real disk is met in real directories and real time")]

mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use log::{
    CheckpointKind, Disk, Entry, HardState, Identity, Log, LogId, OpenError, Opened, Options, RealDisk,
    StoredValue, WriteJob,
};

const IDENTITY: Identity = Identity { cluster_id: 1, member_id: 2, incarnation: 3 };
const HARD_STATE: HardState = HardState { term: 1, vote: 2, commit: 0 };

fn entry(index: u64) -> Entry {
    Entry { term: 1, index, kind: 0, payload: vec![index as u8; 3000].into() }
}

#[test]
fn a_log_on_a_real_disk_is_written_locked_recycled_and_opened_again() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let options = Options { segment_bytes: 64 << 10, tail_bytes: 0, ..Options::new(dir.path().join("data")) };
    Log::create(&disk, &options, IDENTITY).expect("an empty directory takes a log");
    let Opened { mut log, reader, .. } = Log::open(&disk, &options).expect("a new log");
    match Log::open(&disk, &options).map(|_| ()) {
        Err(OpenError::Locked { holder, .. }) => {
            assert_eq!(holder, format!("process {}", std::process::id()));
        }
        other => panic!("{other:?}"),
    }

    let start = Instant::now();
    let mut values = Vec::new();
    for index in 1..=100 {
        let entry = entry(index);
        let checksum = crc32c::crc32c(&entry.payload);
        let hard_state = (index == 1).then_some(HARD_STATE);
        assert!(rig::make_room(&mut log, hard_state, std::slice::from_ref(&entry)));
        let append = log.append(hard_state, vec![entry]);
        values.push(StoredValue { address: append.addresses[0], len: 3000, checksum });
        let done = WriteJob::run_all(vec![append.job], &|| start.elapsed());
        assert!(done.sync_times.iter().all(|time| *time > Duration::ZERO));
        log.complete(done).expect("the disk is well");
        while let Some(job) = log.next_job() {
            log.background_done(job.run()).expect("the disk is well");
        }
        if index % 40 == 0 {
            let mut writer = log.begin_checkpoint(CheckpointKind::Base, LogId { index, term: 1 });
            writer.write(&index.to_le_bytes()).expect("the disk is well");
            log.checkpoint_done(writer.finish()).expect("the disk is well");
            log.truncate_to(index);
        }
    }
    for (read, index) in reader.pin().read_many(&values[80..]).into_iter().zip(81..) {
        assert_eq!(read.expect("an intact value"), entry(index).payload);
    }
    drop((log, reader));

    let Opened { log, recovered, .. } = Log::open(&disk, &options).expect("an intact log");
    assert_eq!(recovered.identity, IDENTITY);
    assert_eq!(recovered.hard_state, HardState { commit: 80, ..HARD_STATE });
    let checkpoint = recovered.checkpoint.expect("there is one");
    let files = checkpoint.files().expect("its files are there").into_iter();
    let chunks: Vec<_> = files.flatten().map(|chunk| chunk.expect("an intact chunk")).collect();
    assert_eq!((checkpoint.id.index, chunks), (80, vec![80_u64.to_le_bytes().to_vec().into()]));
    let entries: Vec<_> = log.entries_from(81).map(|item| item.expect("an intact entry").0).collect();
    assert_eq!(entries, (81..=100).map(entry).collect::<Vec<_>>());
}

#[test]
fn data_are_for_the_user_that_runs_the_server_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory for tests");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let options =
        Options { segment_bytes: 64 << 10, tail_bytes: 0, ..Options::new(dir.path().join("parent/data")) };
    Log::create(&disk, &options, IDENTITY).expect("an empty directory takes a log");
    let Opened { mut log, .. } = Log::open(&disk, &options).expect("a new log");
    let mut writer = log.begin_checkpoint(CheckpointKind::Base, LogId { index: 0, term: 0 });
    writer.write(b"state").expect("the disk is well");
    log.checkpoint_done(writer.finish()).expect("the disk is well");
    let mut folders = vec![dir.path().join("parent")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        let mode =
            |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for item in std::fs::read_dir(&folder).expect("a directory") {
            let path = item.expect("it is there").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{}", path.display());
                files += 1;
            }
        }
    }
    assert!(files >= 3, "a lock, a segment and a checkpoint, not {files}");
}

#[test]
fn what_was_written_is_found_behind_what_was_not() {
    use std::io::IoSlice;
    let dir = tempfile::tempdir().expect("a directory for tests");
    let file = RealDisk.create_new(&dir.path().join("sparse")).expect("a new file");
    file.allocate(8 << 20).expect("the disk has room");
    let at = 4 << 20;
    file.write_at(&[IoSlice::new(b"not synced")], at).expect("the disk is well");
    let next = |offset| file.next_written(offset).expect("the disk is well");
    // Where a file system cannot tell, everything counts as written.
    assert!(next(0).is_some_and(|written| written <= at), "{:?}", next(0));
    assert_eq!(next(at + 3), Some(at + 3));
    assert!(next(8 << 20).is_none_or(|written| written == 8 << 20));
}
