//! The version hash: the CRC-32C that HashKV answers with, computed from the index without reading a value.
//!
//! Each version is hashed as etcd's database encodes it: 17 bytes of revision (`main`, `_`, `sub`, and a `t` for a
//! tombstone), then the encoded `KeyValue`, in which the value is one field:
//!
//! ```text
//! | main _ sub | key, create, mod, version | value | lease |
//!   \__________ computed from the index ___/   |      \_ computed from the index
//!                                         length and CRC-32C, from the ValueRef
//! ```
//!
//! The index knows the CRC-32C of each value, and the CRC of a concatenation follows from the CRCs and lengths of its
//! parts: `crc(A | B) = crc(A) * x^(8 |B|) + crc(B)`, as polynomials modulo that of CRC-32C.

use crate::index::Version;

/// The polynomial of CRC-32C, its bits reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// `x` to the power 0, bits reflected.
const ONE: u32 = 1 << 31;

/// `x` to the powers 2^0, 2^1, ..., 2^66: enough for a length of 64 bits in bytes, each of 8 bits.
const POWERS: [u32; 67] = {
    let mut powers = [ONE >> 1; 67];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = product(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
};

/// The product of two polynomials modulo that of CRC-32C.
const fn product(a: u32, mut b: u32) -> u32 {
    let mut sum = 0;
    let mut bit = ONE;
    while bit != 0 {
        if a & bit != 0 {
            sum ^= b;
        }
        b = if b & 1 == 0 { b >> 1 } else { (b >> 1) ^ POLYNOMIAL };
        bit >>= 1;
    }
    sum
}

/// The CRC-32C and length of some bytes, to which more can be appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionHash {
    crc: u32,
    bytes: u64,
}

impl VersionHash {
    /// The hash of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> VersionHash {
        VersionHash { crc: crc32c::crc32c(bytes), bytes: bytes.len() as u64 }
    }

    /// Appends the bytes that another hash covers.
    pub(crate) fn append(&mut self, other: VersionHash) {
        let mut shift = ONE;
        for (bit, power) in POWERS[3..].iter().enumerate() {
            if other.bytes >> bit & 1 == 1 {
                shift = product(*power, shift);
            }
        }
        self.crc = product(shift, self.crc) ^ other.crc;
        self.bytes += other.bytes;
    }

    /// Appends a version of `key`.
    pub(crate) fn push(&mut self, key: &[u8], version: &Version) {
        let (before, behind) = around_value(key, version);
        self.append(VersionHash::of(&before));
        let value = &version.value;
        self.append(VersionHash { crc: value.checksum, bytes: u64::from(value.len) });
        self.append(VersionHash::of(&behind));
    }

    /// The CRC-32C.
    pub(crate) fn crc(&self) -> u32 {
        self.crc
    }
}

/// The encoded bytes of a version before its value and after it: fields in the order of their numbers, without those
/// that have their default. A tombstone has only its key.
fn around_value(key: &[u8], version: &Version) -> (Vec<u8>, Vec<u8>) {
    let mut before = Vec::with_capacity(key.len() + 64);
    before.extend(version.revision.main.to_be_bytes());
    before.push(b'_');
    before.extend(u64::from(version.revision.sub).to_be_bytes());
    if version.is_tombstone() {
        before.push(b't');
    }
    put_length(&mut before, 1, key.len() as u64);
    before.extend(key);
    if !version.is_tombstone() {
        put_number(&mut before, 2, version.create);
        put_number(&mut before, 3, version.revision.main);
        put_number(&mut before, 4, version.version);
    }
    put_length(&mut before, 5, u64::from(version.value.len));
    let mut behind = Vec::new();
    put_number(&mut behind, 6, version.lease);
    (before, behind)
}

fn put_length(out: &mut Vec<u8>, field: u8, length: u64) {
    if length != 0 {
        out.push(field << 3 | 2);
        put_varint(out, length);
    }
}

fn put_number(out: &mut Vec<u8>, field: u8, number: i64) {
    if number != 0 {
        out.push(field << 3);
        put_varint(out, number as u64);
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_of_parts_is_the_hash_of_the_whole() {
        let whole: Vec<u8> = (0..1_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        for at in [0, 1, 2, 255, 256, 700, 999, 1_000] {
            let (left, right) = whole.split_at(at);
            let mut hash = VersionHash::of(left);
            hash.append(VersionHash::of(right));
            assert_eq!(hash, VersionHash::of(&whole), "cut at {at}");
        }
    }
}
