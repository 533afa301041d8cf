//! What the index takes in memory.

use super::*;
use crate::types::Revision;

/// A shuffled sequence of `0..len` without a source of randomness: a full-period walk of an odd stride.
fn shuffled(len: u64) -> impl Iterator<Item = u64> {
    (0..len)
        .map(move |n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % len.next_power_of_two())
        .filter(move |n| *n < len)
}

fn value(place: u64) -> ValueRef {
    ValueRef { place, len: 256, checksum: place as u32 }
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
