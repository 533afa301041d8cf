//! CRC-32C (Castagnoli), the checksum of everything that is stored or sent between members.
//!
//! Formats name the polynomial, so the library behind this door can be replaced. It multiplies without carries where
//! the processor can (`pclmulqdq`, on ARM `aes`), which for large values takes half of what the instruction made for
//! this sum takes; elsewhere it falls back to tables, with the same sums.
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
