//! How recovery treats torn, damaged, missing and foreign files.

mod rig;

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use log::{
    CheckpointKind, Disk, HardState, Identity, Log, MemDisk, OpenError, Opened, Options, ReadError, Warning,
};
use rig::{IDENTITY, Rig, create, found, open, options};

const WAL: &str = "/data/member/wal";

/// Three segments of entries, synced; the last is sealed if `sealed`.
fn three_segments(sealed: bool) -> Rig {
    let mut rig = Rig::new();
    for index in 1..=15 {
        let entry = rig.entry(index, 1, 700);
        rig.append(None, vec![entry]);
        assert!(rig.sync());
    }
    if sealed {
        rig.seal();
        assert!(rig.sync());
    }
    rig
}

fn segments(disk: &MemDisk) -> Vec<String> {
    disk.list(Path::new(WAL)).expect("the directory is there")
}

fn write(disk: &MemDisk, path: &str, offset: u64, bytes: &[u8]) {
    let file = disk.open(Path::new(path)).expect("the file is there");
    file.write_at(&[IoSlice::new(bytes)], offset).expect("the disk is well");
}

fn refusal(disk: &MemDisk) -> OpenError {
    match open(disk, &options()) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

/// Path of a segment, and the offset of the last record in it that is not zeros.
fn last_segment(disk: &MemDisk) -> (String, u64) {
    let name = segments(disk).pop().expect("there are segments");
    (format!("{WAL}/{name}"), 152 + 2 * 752)
}

#[test]
fn a_flipped_bit_in_a_replayed_record_is_corruption_with_its_offset() {
    let rig = three_segments(true);
    let mut corrupt = 0;
    let (path, _) = last_segment(&rig.disk);
    let length = rig.log.position() as u32 as u64 - 32;
    for offset in (64..length).step_by(13) {
        let disk = rig.disk.fork();
        disk.flip_bit(Path::new(&path), offset, (offset % 8) as u8).expect("the file is there");
        match open(&disk, &options()) {
            Err(OpenError::Corrupt { path: found, offset: at, .. }) => {
                assert_eq!(found, Path::new(&path));
                assert!(at <= offset && offset < at + 800, "flipped {offset}, reported {at}");
                corrupt += 1;
            }
            // Padding is not covered by a checksum, and not used.
            Ok(opened) => assert_eq!(found(&opened.log, rig.state().hard_state), *rig.state(), "at {offset}"),
            Err(other) => panic!("at {offset}: {other}"),
        }
    }
    assert!(corrupt > 100);
}

#[test]
fn a_flipped_bit_in_the_last_unsealed_record_is_a_torn_tail() {
    let rig = three_segments(false);
    let (path, _) = last_segment(&rig.disk);
    let end = rig.log.position() as u32 as u64;
    let disk = rig.disk.fork();
    disk.flip_bit(Path::new(&path), end - 20, 1).expect("the file is there");
    let Opened { recovered, .. } = open(&disk, &options()).expect("nothing proves that it was durable");
    assert_eq!(recovered.last_index, 14);
    match &recovered.warnings[..] {
        [Warning::TornTail { path: found, offset, .. }] => {
            assert_eq!((found.as_path(), *offset), (Path::new(&path), end - 752));
        }
        other => panic!("{other:?}"),
    }
    // The cut stays cut, and what is written next is not followed by what was cut.
    let again = open(&disk, &options()).map(|opened| opened.recovered).expect("an intact log");
    assert_eq!((again.last_index, again.warnings), (14, Vec::new()));
}

/// A new leader's entries replace one that was never committed, and the same write says that they are committed. If
/// power fails in the middle of it, the old entry must not count as committed.
#[test]
fn a_torn_write_does_not_commit_the_entry_that_it_replaces() {
    let mut rig = Rig::new();
    for index in 1..=3 {
        let entry = rig.entry(index, 1, 700);
        rig.append(None, vec![entry]);
    }
    assert!(rig.sync());
    let replacement = rig.entry(3, 2, 700);
    rig.append(Some(HardState { term: 2, vote: 0, commit: 3 }), vec![replacement]);
    assert!(rig.sync());
    let (path, _) = last_segment(&rig.disk);
    let end = rig.log.position() as u32 as u64;
    rig.disk.flip_bit(Path::new(&path), end - 20, 1).expect("the file is there");
    let Opened { recovered, .. } =
        open(&rig.disk.fork(), &options()).expect("nothing proves that it was durable");
    let HardState { term, commit, .. } = recovered.hard_state;
    assert_eq!(
        (recovered.last_index, term, commit),
        (3, 2, 2),
        "the old entry is there, and is not committed"
    );
}

#[test]
fn a_file_cut_short_is_corruption_and_a_tail_of_zeros_is_torn() {
    let mut rig = Rig::new();
    for index in 1..=4 {
        let entry = rig.entry(index, 1, 300);
        rig.append(None, vec![entry]);
    }
    assert!(rig.sync());
    let (path, _) = last_segment(&rig.disk);
    let end = rig.log.position() as u32 as u64;
    for cut in 64..end + 32 {
        let disk = rig.disk.fork();
        disk.open(Path::new(&path)).and_then(|file| file.set_length(cut)).expect("the disk is well");
        match refusal(&disk) {
            OpenError::Corrupt { path: found, offset, .. } => {
                assert_eq!((found.as_path(), offset), (Path::new(&path), cut));
            }
            other => panic!("cut at {cut}: {other}"),
        }
    }
    for zeros_from in (64..=end).rev() {
        let disk = rig.disk.fork();
        write(&disk, &path, zeros_from, &vec![0; (end - zeros_from) as usize]);
        // Opened twice: what the first one cuts is not taken for a file that was cut short.
        for _ in 0..2 {
            let opened = open(&disk, &options()).expect("a torn tail");
            // A payload may end in zeros, which then are not missed.
            let whole = rig.state().entries.iter().take_while(|entry| {
                let end = 152 + entry.index * 352;
                let zeros =
                    352 - 45 - 300 + entry.payload.iter().rev().take_while(|byte| **byte == 0).count();
                end - zeros as u64 <= zeros_from
            });
            assert_eq!(opened.recovered.last_index, whole.count() as u64, "zeros from {zeros_from}");
            let state = found(&opened.log, opened.recovered.hard_state);
            assert_eq!(state.entries, rig.state().entries[..state.entries.len()]);
        }
    }
}

#[test]
fn damage_below_the_checkpoint_is_found_when_it_is_read() {
    let mut rig = three_segments(true);
    assert!(rig.checkpoint(CheckpointKind::Base));
    let address = rig.log.address(1).expect("the first entry");
    let path = format!("{WAL}/{:08x}.seg", log::file_of(address));
    rig.disk.flip_bit(Path::new(&path), u64::from(log::offset_of(address)), 1).expect("the file is there");
    let checksum = crc32c::crc32c(&rig.state().entries[0].payload);
    let opened = open(&rig.disk.fork(), &options()).expect("it need not be replayed");
    let read = opened.reader.pin().read(address, 700, checksum);
    assert!(matches!(read, Err(ReadError::Damaged { .. })), "{read:?}");
}

#[test]
fn a_missing_segment_is_named() {
    let rig = three_segments(true);
    let names = segments(&rig.disk);
    // The first one is empty, the last is where the log ends.
    for name in &names[1..names.len() - 1] {
        let disk = rig.disk.fork();
        disk.remove(&Path::new(WAL).join(name)).expect("the file is there");
        let number = u32::from_str_radix(&name[..8], 16).expect("a number");
        match refusal(&disk) {
            OpenError::MissingSegment { number: found, .. } => assert_eq!(found, number),
            other => panic!("{other}"),
        }
    }
    let disk = rig.disk.fork();
    for name in names {
        disk.remove(&Path::new(WAL).join(name)).expect("the file is there");
    }
    assert!(matches!(refusal(&disk), OpenError::MissingSegment { .. }));
}

#[test]
fn a_flipped_bit_in_the_header_of_a_segment_is_a_warning() {
    let rig = three_segments(true);
    for name in segments(&rig.disk) {
        let path = Path::new(WAL).join(name);
        for bit in 0..64 * 8 {
            let disk = rig.disk.fork();
            disk.flip_bit(&path, bit / 8, (bit % 8) as u8).expect("the file is there");
            let opened = open(&disk, &options()).unwrap_or_else(|error| panic!("bit {bit}: {error}"));
            assert_eq!(opened.recovered.warnings, [Warning::Damaged { path: path.clone(), offset: 0 }]);
            assert_eq!(found(&opened.log, rig.state().hard_state), *rig.state(), "bit {bit}");
        }
    }
}

#[test]
fn each_bad_header_has_its_own_error() {
    let rig = three_segments(true);
    let (path, _) = last_segment(&rig.disk);
    let with = |offset: u64, bytes: &[u8]| {
        let disk = rig.disk.fork();
        write(&disk, &path, offset, bytes);
        disk
    };
    let without_opening = |disk: MemDisk| {
        write(&disk, &path, 64, &[0; 32]);
        refusal(&disk)
    };
    let newer = [&9u32.to_le_bytes()[..], &[0; 48], &[7; 4]].concat();
    assert!(matches!(refusal(&with(8, &newer)), OpenError::UnknownVersion { found: 9, known: 1, .. }));
    assert!(matches!(without_opening(with(0, b"GARBAGE!")), OpenError::BadMagic { .. }));
    assert!(matches!(without_opening(with(20, &[9])), OpenError::Corrupt { offset: 0, .. }));
    let disk = rig.disk.fork();
    disk.open(Path::new(&path)).and_then(|file| file.set_length(0)).expect("the disk is well");
    assert!(matches!(refusal(&disk), OpenError::TooShort { length: 0, .. }));
    let disk = rig.disk.fork();
    disk.rename(Path::new(&path), Path::new("/data/member/wal/00000099.seg")).expect("the file is there");
    assert!(matches!(refusal(&disk), OpenError::Misnamed { .. }));
}

#[test]
fn a_file_of_another_member_is_foreign() {
    for (what, identity) in [
        ("cluster", Identity { cluster_id: 9, ..IDENTITY }),
        ("member", Identity { member_id: 9, ..IDENTITY }),
        ("incarnation", Identity { incarnation: 9, ..IDENTITY }),
    ] {
        let other = MemDisk::new();
        let handle: Arc<dyn Disk> = Arc::new(other.clone());
        Log::create(&handle, &options(), identity).expect("an empty disk takes a log");
        let mut header = [0; 64];
        let first = Path::new("/data/member/wal/00000001.seg");
        other.open(first).and_then(|file| file.read_at(&mut header, 0)).expect("the disk is well");
        let disk = MemDisk::new();
        create(&disk, &options()).expect("an empty disk takes a log");
        write(&disk, "/data/member/wal/00000001.seg", 0, &header);
        match refusal(&disk) {
            OpenError::Foreign { what: found, found: 9, .. } => assert_eq!(found, what),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn directories_are_told_apart() {
    let disk = MemDisk::new();
    assert!(matches!(refusal(&disk), OpenError::Absent { .. }));
    create(&disk, &options()).expect("an empty disk takes a log");
    assert!(matches!(create(&disk, &options()), Err(OpenError::Present { .. })));
    let _open = open(&disk, &options()).expect("a new log");
    assert!(matches!(refusal(&disk), OpenError::Locked { .. }));

    let etcd = MemDisk::new();
    etcd.create_dir_all(Path::new("/data/member/snap")).expect("the disk is well");
    etcd.create_new(Path::new("/data/member/snap/db")).expect("the disk is well");
    assert!(matches!(refusal(&etcd), OpenError::Etcd { .. }));
    assert!(matches!(create(&etcd, &options()), Err(OpenError::Etcd { .. })));

    let rig = three_segments(true);
    let lost = rig.disk.fork();
    lost.remove(Path::new("/data/member/checkpoint/MANIFEST")).expect("the file is there");
    assert!(matches!(refusal(&lost), OpenError::NoManifest { .. }));
    assert!(matches!(create(&lost, &options()), Err(OpenError::NoManifest { .. })));
}

#[test]
fn creation_can_be_cut_short_anywhere_and_begun_again() {
    let whole = MemDisk::new();
    create(&whole, &options()).expect("an empty disk takes a log");
    for stop in 0..=whole.changes() {
        for choice in 0..3 {
            let disk = MemDisk::new();
            disk.stop_after(stop);
            let _ = create(&disk, &options());
            let disk = disk.crash(&mut |below| choice % below);
            let handle: Arc<dyn Disk> = Arc::new(disk.clone());
            if !Log::exists(handle.as_ref(), &options()).expect("the disk is well") {
                create(&disk, &options()).expect("it can be begun again");
            }
            open(&disk, &options()).expect("a new log");
        }
    }
}

#[test]
fn a_damaged_checkpoint_or_manifest_refuses() {
    let mut rig = three_segments(true);
    assert!(rig.checkpoint(CheckpointKind::Base));
    let manifest = Path::new("/data/member/checkpoint/MANIFEST");
    let disk = rig.disk.fork();
    disk.flip_bit(manifest, 80, 0).expect("the file is there");
    assert!(matches!(refusal(&disk), OpenError::Corrupt { .. }));
    let names = rig.disk.list(Path::new("/data/member/checkpoint")).expect("the directory is there");
    let base = Path::new("/data/member/checkpoint").join(&names[0]);
    let length = rig.disk.open(&base).and_then(|file| file.length()).expect("the file is there");
    for offset in 0..length {
        let disk = rig.disk.fork();
        disk.flip_bit(&base, offset, 5).expect("the file is there");
        let opened = open(&disk, &options()).expect("chunks are checked when they are read");
        let checkpoint = opened.recovered.checkpoint.expect("there is one");
        let is_damaged =
            |files: Vec<log::FileChunks>| files.into_iter().flatten().any(|chunk| chunk.is_err());
        assert!(checkpoint.files().map_or(true, is_damaged), "at {offset}");
    }
}

/// Checksums hold, but counting on from what they cover would overflow.
#[test]
fn numbers_that_no_log_has_are_refused() {
    let path = "/data/member/checkpoint/MANIFEST";
    let write_body = |disk: &MemDisk, body: &[u8]| {
        write(disk, path, 64, &[body, &crc32c::crc32c(body).to_le_bytes()].concat());
    };
    let new = |next_number: u32, links: u32| [next_number.to_le_bytes(), links.to_le_bytes()].concat();
    let disk = MemDisk::new();
    create(&disk, &options()).expect("the disk is well");
    write_body(&disk, &new(u32::MAX, 0));
    assert!(refusal(&disk).to_string().contains("file numbers are used up"));
    let link = [2, 1, u64::MAX, 1, 0].map(u64::to_le_bytes).concat();
    let link = [&link[..4], &[1, 0, 0, 0], &link[16..]].concat();
    write_body(&disk, &[new(3, 1), link].concat());
    let refusal = refusal(&disk).to_string();
    assert!(refusal.contains("an entry that no log has"), "{refusal}");
}

#[test]
fn old_records_of_a_recycled_segment_end_the_log() {
    let options = Options { reserve_segments: 2, ..options() };
    let mut rig = Rig::with(&options);
    for _ in 0..12 {
        for _ in 0..5 {
            let index = rig.state().entries.len() as u64 + 1;
            let entry = rig.entry(index, 1, 700);
            rig.append(None, vec![entry]);
        }
        assert!(rig.sync());
        assert!(rig.checkpoint(CheckpointKind::Base));
        let id = rig.checkpoint;
        rig.log.truncate_to(id.index);
        rig.background();
        let opened = open(&rig.disk.fork(), &options).expect("an intact log");
        assert!(opened.recovered.warnings.is_empty(), "{:?}", opened.recovered.warnings);
        rig.check(opened);
    }
    assert!(segments(&rig.disk).len() < 10, "files are recycled");
}
