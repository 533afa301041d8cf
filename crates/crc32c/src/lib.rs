//! CRC-32C (Castagnoli), the checksum of everything that is stored or sent between members.
//!
//! One door to the library that computes it, so that another can take its place: formats name the polynomial, not who
//! multiplies. Of 13 times that a byte of a large value is summed over three members none may be slow; the instructions
//! for carry-less multiplication, which the library picks at run time, are twice as fast as the one for this very sum.
//!
//! Knows bytes and nothing of what they mean.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;

/// The checksum of `bytes`; 0 of none.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

/// The checksum of what `crc` is the checksum of, with `bytes` behind it.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // Between the bytes the register holds the sum's complement.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}
