//! The value cache: what it returns was checked, and belongs to the value that is read.

mod rig;

use std::path::PathBuf;

use log::{Access, LogMemory, Options, ReadError, ReadSlot, Reader, StoredValue, file_of, offset_of};
use rig::{Rig, options};

fn rig() -> Rig {
    Rig::with(&Options { tail_bytes: 0, ..options() })
}

/// Puts an entry of 300 bytes at an index of the log and returns its value.
fn put(rig: &mut Rig, index: u64, term: u64) -> StoredValue {
    let entry = rig.entry(index, term, 300);
    let checksum = crc32c::crc32c(&entry.payload);
    let address = rig.append(None, vec![entry])[0];
    assert!(rig.sync());
    rig.reader.retain(address, 300);
    StoredValue { address, len: 300, checksum }
}

fn read(reader: &Reader, value: StoredValue, access: Access) -> Result<Vec<u8>, ReadError> {
    let mut into = vec![0; value.len as usize];
    reader.pin().read_into(&mut [ReadSlot { value, into: &mut into }], access).map(|()| into)
}

fn damage(rig: &Rig, value: StoredValue) {
    let path = PathBuf::from(format!("/data/member/wal/{:08x}.seg", file_of(value.address)));
    rig.disk.flip_bit(&path, u64::from(offset_of(value.address)) + 7, 3).expect("the file is there");
}

#[test]
fn a_first_read_is_checked_and_damage_is_not_cached() {
    let mut rig = rig();
    let value = put(&mut rig, 1, 1);
    damage(&rig, value);
    for _ in 0..2 {
        assert!(matches!(read(&rig.reader, value, Access::Query), Err(ReadError::Damaged { .. })));
    }
    damage(&rig, value);
    assert_eq!(read(&rig.reader, value, Access::Query).expect("whole again"), rig.entry(1, 1, 300).payload);
}

#[test]
fn a_cached_value_survives_damage_of_its_file_and_a_scan_reads_the_file() {
    let mut rig = rig();
    let [kept, passed] = [1, 2].map(|index| put(&mut rig, index, 1));
    read(&rig.reader, kept, Access::Query).expect("an intact value");
    read(&rig.reader, passed, Access::Scan).expect("an intact value");
    damage(&rig, kept);
    damage(&rig, passed);
    assert_eq!(read(&rig.reader, kept, Access::Query).expect("in memory"), rig.entry(1, 1, 300).payload);
    assert!(matches!(read(&rig.reader, kept, Access::Scan), Err(ReadError::Damaged { .. })));
    assert!(read(&rig.reader, passed, Access::Query).is_err(), "a scan caches nothing");
}

#[test]
fn the_account_of_memory_follows_entries_and_cached_values() {
    let mut rig = rig();
    assert_eq!(rig.log.memory(), LogMemory::default());
    let value = put(&mut rig, 1, 1);
    put(&mut rig, 2, 1);
    assert_eq!(rig.log.memory(), LogMemory { entry_index: 24, ..LogMemory::default() });
    read(&rig.reader, value, Access::Query).expect("an intact value");
    let cached = rig.log.memory().value_cache;
    assert!((300..600).contains(&cached), "{cached} bytes for one value of 300");
}

#[test]
fn an_entry_that_replaces_another_has_its_own_value() {
    let mut rig = rig();
    let before = put(&mut rig, 1, 1);
    assert_eq!(read(&rig.reader, before, Access::Query).expect("intact"), rig.entry(1, 1, 300).payload);
    let after = put(&mut rig, 1, 2);
    assert_ne!(before.address, after.address);
    assert_eq!(read(&rig.reader, after, Access::Query).expect("intact"), rig.entry(1, 2, 300).payload);
}
