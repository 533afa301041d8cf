//! What keys and their versions take in memory, by the structures alone.

use super::{IndexBuilder, KeyBounds, KeyIndex};
use crate::parallel::Sequential;
use crate::types::Revision;
use crate::values::ValueRef;

/// A shuffled sequence of `0..len` without a source of randomness: a full-period walk of an odd stride.
fn shuffled(len: u64) -> impl Iterator<Item = u64> {
    (0..len)
        .map(move |n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % len.next_power_of_two())
        .filter(move |n| *n < len)
}

fn value(address: u64) -> ValueRef {
    ValueRef { address, len: 256, checksum: address as u32 }
}

/// Eight bytes, as etcd's load generator makes them.
fn short_key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// 70 bytes: resource and namespace, a name that many objects share the beginning of, and a suffix that looks random.
fn kubernetes_key(n: u64) -> Vec<u8> {
    let resource = ["pods", "events", "leases", "secrets", "configmaps", "replicasets"][(n % 6) as usize];
    let begin = format!("/registry/{resource}/namespace-{:02}/deployment-", n / 6 % 100);
    let suffix = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{begin}{suffix:016x}").replace(&begin, &format!("{begin:a<54}")).into_bytes()
}

/// Keys that have nothing in common but a hash.
fn hostile_key(n: u64) -> Vec<u8> {
    let word =
        |at: u64| (n + at).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29).wrapping_mul(0x94d0_49bb);
    (0..8).flat_map(|at| word(at << 40).to_be_bytes()).collect()
}

fn filled(keys: impl Iterator<Item = Vec<u8>>) -> KeyIndex {
    let mut index = KeyIndex::default();
    for (main, key) in keys.enumerate() {
        index.put(&key, Revision { main: main as i64 + 2, sub: 0 }, value(main as u64), 0);
    }
    index
}

/// The same index as a restart builds it.
fn restored(index: &KeyIndex) -> KeyIndex {
    let mut builder = IndexBuilder::default();
    for (record, _) in index.walk(&KeyBounds::ALL) {
        assert!(builder.key(&record.key(), &[record.newest()]).is_some());
    }
    builder.finish(0, index.live_keys() as i64 + 1, &Sequential, |_| {}).expect("it has all versions")
}

fn bytes_a_key(index: &KeyIndex) -> f64 {
    let accounted = (index.accounted_bytes() as usize + index.log().accounted_bytes()) as f64;
    let exactness = accounted / index.resident_bytes() as f64;
    assert!((0.95..1.05).contains(&exactness), "{exactness} of what is resident is accounted");
    accounted / index.live_keys() as f64
}

/// What operators are promised a key takes, with the revision log, by the structures alone.
#[test]
fn what_a_key_takes_is_bounded() {
    const KEYS: u64 = 1 << 17;
    let as_they_are = |n| n;
    let nearly = |n: u64| n / 512 * 512 + n * 167 % 512;
    let order: Vec<u64> = shuffled(KEYS).collect();
    let random = |n: u64| order[n as usize];
    type Keys<'a> = (&'a str, fn(u64) -> Vec<u8>, &'a dyn Fn(u64) -> u64, f64, f64);
    let cases: [Keys<'_>; 6] = [
        ("short, ascending", short_key, &as_they_are, 52.0, 53.0),
        ("short, nearly ascending", short_key, &nearly, 58.0, 53.0),
        ("short, random", short_key, &random, 58.0, 53.0),
        ("Kubernetes, as loaded", kubernetes_key, &as_they_are, 75.0, 75.0),
        ("Kubernetes, random", kubernetes_key, &random, 79.0, 75.0),
        ("nothing in common", hostile_key, &as_they_are, 130.0, 120.0),
    ];
    for (name, key, order, bytes, bytes_restored) in cases {
        let index = filled((0..KEYS).map(|n| key(order(n))));
        let again = restored(&index);
        let got = [bytes_a_key(&index), bytes_a_key(&again)];
        println!("{name}: {got:?}");
        assert!(got[0] < bytes && got[1] < bytes_restored, "{name}: {got:?} bytes a key");
        index.check_all(0);
        again.check_all(0);
    }
}

/// Resident memory includes the allocator's rounding, so this is below the figures in the operators' documents.
#[test]
fn a_retained_older_version_takes_about_fifty_bytes() {
    const KEYS: u64 = 1 << 12;
    let mut index = KeyIndex::default();
    let mut main = 1;
    let mut write_all = |index: &mut KeyIndex| {
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
        assert!(per_version < 62.0, "{per_version} bytes a version with {older} older versions of each key");
        assert!(older != 1 || per_version < 53.0, "{per_version} bytes for the only older version of a key");
    }
}
