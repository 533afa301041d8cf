//! Logs as etcd writes them: entries that are replaced, torn ends, damage, and logs that do not fit to a database.
use super::file::LENGTH_BITS;
use super::*;

/// A file of records that goes on with a sum.
fn file_after(sum: &mut u32, records: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, data) in records {
        if *kind != CHECKSUM {
            *sum = crc32c::crc32c_append(*sum, data);
        }
        let record = WalRecord { kind: *kind, checksum: *sum, data: data.clone().into() }.encode_to_vec();
        let padding = (8 - record.len() % 8) % 8;
        let mark = if padding > 0 { (0x80 | padding as u64) << LENGTH_BITS } else { 0 };
        bytes.extend((record.len() as u64 | mark).to_le_bytes());
        bytes.extend(&record);
        bytes.extend(vec![0; padding]);
    }
    bytes
}

fn file(records: &[(i64, Vec<u8>)]) -> Vec<u8> {
    file_after(&mut 0, records)
}

fn entry(index: u64, term: u64) -> (i64, Vec<u8>) {
    (ENTRY, WalEntry { kind: 0, term, index, data: vec![7; 600].into() }.encode_to_vec())
}

fn snapshot(index: u64) -> (i64, Vec<u8>) {
    (SNAPSHOT, WalPosition { index }.encode_to_vec())
}

fn hard_state(commit: u64) -> (i64, Vec<u8>) {
    (HARD_STATE, WalHardState { commit }.encode_to_vec())
}

fn begin() -> (i64, Vec<u8>) {
    (CHECKSUM, Vec::new())
}

fn written(files: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (sequence, bytes) in files.iter().enumerate() {
        let name = format!("{sequence:016x}-{:016x}.wal", 0);
        fs::write(dir.path().join(name), bytes).expect("it is written");
    }
    dir
}

fn read_all(files: &[Vec<u8>], after: u64) -> Result<WalTail, Refusal> {
    WalTail::read(written(files).path(), after)
}

fn read(bytes: &[u8], after: u64) -> Result<WalTail, Refusal> {
    read_all(&[bytes.to_vec()], after)
}

#[test]
fn later_entries_replace_earlier_ones() {
    let mut bytes = file(&[begin(), entry(1, 1), entry(2, 1), entry(3, 1), hard_state(1), entry(2, 2)]);
    bytes.extend([0; 64]);
    let dir = written(&[bytes]);
    let mut tail = WalTail::read(dir.path(), 1).expect("it is whole");
    assert_eq!((tail.behind(1), tail.last(), tail.committed()), (vec![2], 2, 1));
    let found = tail.entry(2).expect("it is there");
    assert_eq!((found.index, found.term, found.data.len()), (2, 2, 600));
    assert!(tail.entry(3).is_err(), "it was replaced");
}

#[test]
fn a_torn_end_is_the_end() {
    let (first, bytes) = (file(&[entry(1, 1)]).len(), file(&[entry(1, 1), entry(2, 1)]));
    for cut in first..bytes.len() {
        assert_eq!(read(&bytes[..cut], 0).expect("it is torn").last(), 1, "cut at {cut}");
    }
    // The length reached the disk, and the sectors behind it did not.
    let mut torn = bytes.clone();
    torn[1024..].fill(0);
    torn.extend([0; 4096]);
    assert_eq!(read(&torn, 0).expect("it is torn").last(), 1);
}

#[test]
fn a_flipped_bit_is_no_torn_end() {
    let mut whole = file(&[begin(), entry(1, 1), entry(2, 1), entry(3, 1)]);
    whole.extend([0; 4096]);
    let records = file(&[begin(), entry(1, 1), entry(2, 1)]).len();
    let first = file(&[begin()]).len();
    let second = file(&[begin(), entry(1, 1)]).len();
    // A length that reaches into the space behind looks torn, as it does to etcd.
    for at in
        (first..records).filter(|at| !(first..first + 8).contains(at) && !(second..second + 8).contains(at))
    {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        match read(&flipped, 0) {
            Ok(tail) => assert_eq!(tail.entries.len(), 3, "byte {at}: only padding may be another"),
            Err(refused) => assert!(refused.message.contains("is damaged at offset"), "{refused:?}"),
        }
    }
}

#[test]
fn files_follow_each_other() {
    let mut sum = 0;
    let one = file_after(&mut sum, &[begin(), entry(1, 1), entry(2, 1)]);
    let two = file_after(&mut sum, &[begin(), entry(3, 1)]);
    assert_eq!(read_all(&[one.clone(), two.clone()], 2).expect("they are whole").entries.len(), 1);
    assert_eq!(read_all(std::slice::from_ref(&two), 2).expect("older files may be gone").last(), 3);
    let cut = one[..file(&[begin(), entry(1, 1)]).len()].to_vec();
    let ended = [cut.as_slice(), &[0; 64]].concat();
    for (first, why) in [(cut, "follow the file before"), (ended, "follow the file before")] {
        let refused = read_all(&[first, two.clone()], 0).expect_err("an entry is missing");
        assert!(refused.message.contains(why), "{refused:?}");
    }
    let refused = read(&file(&[begin(), entry(1, 1), entry(3, 1)]), 0).expect_err("an entry is missing");
    assert!(refused.message.contains("entry 3 follows entry 1"), "{refused:?}");
    assert!(read(&file(&[begin(), entry(1, 1), snapshot(9), entry(10, 1)]), 9).is_ok());
}

#[test]
fn a_log_goes_on_where_the_database_ends() {
    let refused = read_all(&[], 0).expect_err("there is no file");
    assert!(refused.message.contains("has no file of a log"), "{refused:?}");
    let follows = |records: &[(i64, Vec<u8>)], applied| {
        read(&file(records), applied).expect("it is whole").check_follows(applied)
    };
    assert_eq!(follows(&[entry(4, 1), entry(5, 1), entry(6, 1)], 5), Ok(()));
    assert_eq!(
        follows(&[snapshot(5), hard_state(5)], 5),
        Ok(()),
        "a directory that was restored and not started"
    );
    for (records, applied, why) in [
        (vec![entry(1, 1), snapshot(9), hard_state(9)], 5, "a snapshot at entry 9"),
        (vec![entry(5, 1), hard_state(6)], 5, "ends at entry 5, but 6 were committed"),
        (vec![entry(4, 1), hard_state(4), snapshot(9)], 5, "ends before, at entry 4"),
        (vec![entry(3, 1), entry(4, 1)], 5, "ends before, at entry 4"),
        (vec![begin()], 5, "ends before, at entry 0"),
        (vec![entry(8, 1)], 5, "goes on with entry 8"),
    ] {
        let refused = follows(&records, applied).expect_err(why);
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn entries_are_read_from_each_file() {
    let mut sum = 0;
    let one = file_after(&mut sum, &[begin(), entry(1, 1), entry(2, 1)]);
    let two = file_after(&mut sum, &[begin(), entry(3, 1), entry(2, 2), entry(3, 2)]);
    let dir = written(&[one, two]);
    let mut tail = WalTail::read(dir.path(), 0).expect("it is whole");
    let terms: Vec<_> = [3, 1, 2].map(|index| tail.entry(index).expect("it is there").term).to_vec();
    assert_eq!((tail.behind(0), terms), (vec![1, 2, 3], vec![2, 1, 2]));
    fs::write(dir.path().join(format!("{:016x}-{:016x}.wal", 0, 0)), b"other").expect("it is written");
    let refused = tail.entry(1).expect_err("it is not what it was");
    assert!(refused.message.contains("changed while it was read"), "{refused:?}");
}
