//! Readers on other threads, while files are relocated, freed and recycled under them: a pin keeps what the index
//! showed. How the threads interleave differs from run to run; what must hold does not.

#![expect(clippy::disallowed_methods, reason = "readers are real threads here")]

mod rig;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use log::{Access, CheckpointKind, Entry, LogId, Pin, ReadSlot, Reader, StoredValue, file_of};
use parking_lot::RwLock;
use rig::{Rig, options};

const KEYS: u64 = 16;
const ROUNDS: u64 = 400;

type Index = RwLock<BTreeMap<u64, StoredValue>>;

/// Every value of a key begins with the key.
fn value(key: u64, round: u64) -> Vec<u8> {
    let mut value = vec![round as u8; 100 + (round % 400) as usize];
    value[0] = key as u8;
    value
}

fn read_until_done(reader: &Reader, index: &Index, done: &AtomicBool) -> u64 {
    let mut count = 0;
    loop {
        let last_round = done.load(Ordering::Acquire);
        let pin = reader.pin();
        let (keys, values): (Vec<u64>, Vec<StoredValue>) =
            index.read().iter().map(|(key, value)| (*key, *value)).unzip();
        let kept = read_kept(&pin, &values);
        for ((key, read), kept) in keys.into_iter().zip(pin.read_many(&values)).zip(kept) {
            let read = read.expect("a pinned value");
            assert_eq!(u64::from(read[0]), key);
            assert_eq!(read, kept);
            count += 1;
        }
        if last_round {
            return count;
        }
    }
}

/// Reads values as a list does: those read before are in memory.
fn read_kept(pin: &Pin, values: &[StoredValue]) -> Vec<Vec<u8>> {
    let mut read: Vec<Vec<u8>> = values.iter().map(|value| vec![0; value.len as usize]).collect();
    let slots = values.iter().zip(&mut read).map(|(value, into)| ReadSlot { value: *value, into });
    pin.read_into(&mut slots.collect::<Vec<_>>(), Access::Query).expect("pinned values");
    read
}

fn set(rig: &Rig, index: &Index, key: u64, value: StoredValue) {
    rig.reader.retain(value.address, value.len);
    let before = index.write().insert(key, value);
    if let Some(before) = before {
        rig.reader.release(before.address, before.len);
    }
}

fn put(rig: &mut Rig, index: &Index, round: u64) -> u64 {
    let key = round * 7 % KEYS;
    let bytes = value(key, round);
    let (len, checksum) = (bytes.len() as u32, crc32c::crc32c(&bytes));
    let entry = Entry { term: 1, index: round, kind: 0, payload: bytes.into() };
    let address = rig.append(None, vec![entry])[0];
    assert!(rig.sync());
    set(rig, index, key, StoredValue { address, len, checksum });
    address
}

fn relocate(rig: &mut Rig, index: &Index) -> Vec<u64> {
    let mut addresses = Vec::new();
    for candidate in rig.log.relocation_candidates(90) {
        let inside: Vec<(u64, StoredValue)> = {
            let index = index.read();
            index
                .iter()
                .filter(|(_, value)| file_of(value.address) == candidate.file)
                .map(|(k, v)| (*k, *v))
                .collect()
        };
        let done = rig.log.relocate(inside.iter().map(|(_, value)| (*value, "tag".into())).collect()).run();
        let moved = rig.log.relocated(done).expect("the disk is well");
        for ((key, value), address) in inside.into_iter().zip(moved.addresses) {
            let address = address.expect("an intact value");
            addresses.push(address);
            set(rig, index, key, StoredValue { address, ..value });
        }
        rig.log.relocation_switched(moved.file.expect("something was copied"));
    }
    addresses
}

#[test]
fn pinned_values_stay_readable_while_files_come_and_go() {
    let mut rig = Rig::with(&log::Options { tail_bytes: 0, ..options() });
    let index = Index::default();
    let mut addresses = BTreeSet::new();
    let done = AtomicBool::new(false);
    let reader = rig.reader.clone();
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..2).map(|_| scope.spawn(|| read_until_done(&reader, &index, &done))).collect();
        for round in 1..=ROUNDS {
            assert!(addresses.insert(put(&mut rig, &index, round)), "an address is never reused");
            if round % 10 == 0 {
                let moved = relocate(&mut rig, &index);
                assert!(
                    moved.into_iter().all(|address| addresses.insert(address)),
                    "an address is never reused"
                );
                let writer = rig.log.begin_checkpoint(CheckpointKind::Base, LogId { index: round, term: 1 });
                rig.log.checkpoint_done(writer.finish()).expect("the disk is well");
                rig.log.truncate_to(round);
            }
            rig.background();
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.join().expect("no read failed") > 0);
        }
    });
    rig.background();
    let bound = 20 * options().segment_bytes;
    assert!(rig.reader.file_bytes() < bound, "{} bytes are left", rig.reader.file_bytes());
}
