//! What the index takes in memory.

use super::*;
use crate::types::Revision;

/// A shuffled sequence of `0..len` without a source of randomness: a full-period walk of an odd stride.
fn shuffled(len: u64) -> impl Iterator<Item = u64> {
    (0..len)
        .map(move |n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % len.next_power_of_two())
        .filter(move |n| *n < len)
}

fn value(address: u64) -> ValueRef {
    ValueRef { address, len: 256, checksum: address as u32 }
}

#[test]
fn a_key_of_eight_bytes_takes_about_eighty_bytes() {
    const KEYS: u64 = 1 << 17;
    for random in [false, true] {
        let mut index = Index::default();
        let order: Vec<u64> = if random { shuffled(KEYS).collect() } else { (0..KEYS).collect() };
        for (main, n) in order.iter().enumerate() {
            index.put(&n.to_be_bytes(), Revision { main: main as i64 + 2, sub: 0 }, value(*n), 0);
        }
        let per_key = index.resident_bytes() as f64 / index.live_keys() as f64;
        assert!(per_key < if random { 84.0 } else { 78.0 }, "{per_key} bytes a key, random order: {random}");
    }
}

/// What is measured as resident has allocators' rounding too, so this is below what operators are told.
#[test]
fn a_retained_older_version_takes_about_fifty_bytes() {
    const KEYS: u64 = 1 << 12;
    let mut index = Index::default();
    let mut main = 1;
    let mut write_all = |index: &mut Index| {
        for n in 0..KEYS {
            main += 1;
            index.put(&n.to_be_bytes(), Revision { main, sub: 0 }, value(n), 0);
        }
    };
    write_all(&mut index);
    let alone = index.resident_bytes() as f64;
    for older in 1..=20 {
        write_all(&mut index);
        let per_version = (index.resident_bytes() as f64 - alone) / (older * KEYS) as f64;
        assert!(per_version < 70.0, "{per_version} bytes a version with {older} older versions of each key");
        assert!(older != 1 || per_version < 53.0, "{per_version} bytes for the only older version of a key");
    }
}
