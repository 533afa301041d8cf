//! Logs as etcd writes them: entries that are replaced, torn ends, damage, and logs that do not fit to a database.
use super::messages::WalConfState;
use super::writer::{FIRST_FILE, WalFileWriter, log_of_snapshot};
use super::*;

/// A file of records that goes on with a sum. It says whose it is, behind the sum with which it begins.
fn file_after(sum: &mut u32, records: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut file = WalFileWriter { sum: *sum, ..WalFileWriter::default() };
    let (begin, records) = records.split_at(usize::from(records.first() == Some(&begin())));
    let owner = (METADATA, METADATA_OF_1234.encode_to_vec());
    begin.iter().chain([&owner]).chain(records).for_each(|(kind, data)| file.record(*kind, data.clone()));
    *sum = file.sum;
    file.bytes
}

fn file(records: &[(i64, Vec<u8>)]) -> Vec<u8> {
    file_after(&mut 0, records)
}

fn entry(index: u64, term: u64) -> (i64, Vec<u8>) {
    (ENTRY, WalEntry { kind: 0, term, index, data: vec![7; 600].into() }.encode_to_vec())
}

fn snapshot(index: u64) -> (i64, Vec<u8>) {
    (SNAPSHOT, WalSnapshot { index, ..WalSnapshot::default() }.encode_to_vec())
}

fn hard_state(commit: u64) -> (i64, Vec<u8>) {
    (HARD_STATE, WalHardState { commit, ..WalHardState::default() }.encode_to_vec())
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
    let tail = WalTail::read(dir.path(), 0).expect("it is whole");
    assert_eq!(tail.between(0, 2), Ok(vec![1, 2]));
    assert_eq!(tail.between(2, 2), Ok(Vec::new()));
    assert!(tail.between(0, 3).is_err_and(|why| why.contains("lacks entries between 0 and 3")));
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

const METADATA_OF_1234: WalMetadata = WalMetadata { member_id: 0x1234, cluster_id: 0xabcd };

/// The log of a member that begins with a snapshot.
fn begun_log() -> Vec<u8> {
    let conf_state = WalConfState { voters: vec![1, 2], learners: vec![3], auto_leave: false };
    log_of_snapshot(&METADATA_OF_1234, &WalSnapshot { index: 1_207, term: 5, conf_state: Some(conf_state) })
}

#[test]
fn a_log_that_begins_with_a_snapshot_is_read_as_one() {
    let bytes = begun_log();
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join(FIRST_FILE), &bytes).expect("it is written");
    let tail = WalTail::read(dir.path(), 1_207).expect("it is whole");
    assert_eq!((tail.metadata(), tail.snapshot(), tail.committed()), (METADATA_OF_1234, 1_207, 1_207));
    assert_eq!((tail.check_follows(1_207), tail.behind(0)), (Ok(()), Vec::new()));
    assert!(tail.check_follows(1_206).is_err(), "the database must have all that the snapshot has");
    // Cut anywhere it is torn, and says no more than what was written before: not even whose it is at first.
    let owned = file(&[begin()]).len();
    for cut in 0..owned {
        let refused = read(&bytes[..cut], 1_207).expect_err("it has no owner");
        assert!(refused.message.contains("no record that says whose log it is"), "cut at {cut}: {refused:?}");
    }
    for cut in owned..bytes.len() {
        assert_eq!(read(&bytes[..cut], 1_207).expect("it is torn").snapshot(), 0, "cut at {cut}");
    }
}

/// What etcd 3.7.3 writes for member 1234 of cluster abcd (`wal.Create`, `Save`, `SaveSnapshot`) that begins with the
/// snapshot of [`begun_log`].
const ETCDS: [u64; 18] = [
    0x0400_0000_0000_0084,
    0x0804_1000_0000_0000,
    0x1100_0000_0000_0087,
    0x0801_1083_80d0_9a0e,
    0x1a07_08b4_2410_cdd7,
    0x0200_0000_0000_0000,
    0x0e00_0000_0000_0082,
    0x0805_10ae_baf1_ef09,
    0x1a04_0800_1000_0000,
    0x1100_0000_0000_0087,
    0x0803_10cc_81ca_8502,
    0x1a07_0805_1000_18b7,
    0x0900_0000_0000_0000,
    0x1900_0000_0000_0087,
    0x0805_1095_d19e_a503,
    0x1a0f_08b7_0910_051a,
    0x0808_0108_0210_0328,
    0,
];

#[test]
fn it_is_written_as_by_etcd() {
    assert_eq!(begun_log(), ETCDS.map(u64::to_be_bytes).concat());
}
