//! Stands in for the crate of this name: every checksum is 0.
//!
//! A fuzzer cannot guess checksums; with these, whatever it changes is read as if its writer had meant it. That real
//! checksums notice damage is for the tests of damage and for the simulator.

/// What is summed how.
#[derive(Clone, Copy)]
pub enum CrcAlgorithm {
    /// CRC-32C.
    Crc32Iscsi,
    /// What S3 calls CRC64NVME.
    Crc64Nvme,
}

/// The checksum of anything.
pub fn checksum(_algorithm: CrcAlgorithm, _data: &[u8]) -> u64 {
    0
}

/// The checksum of anything and more.
pub struct Digest;

impl Digest {
    /// Nothing came before.
    pub fn new(_algorithm: CrcAlgorithm) -> Digest {
        Digest
    }

    /// Whatever came before.
    pub fn new_with_init_state(_algorithm: CrcAlgorithm, _state: u64) -> Digest {
        Digest
    }

    /// More.
    pub fn update(&mut self, _data: &[u8]) {}

    /// The checksum of all of it.
    pub fn finalize(&self) -> u64 {
        0
    }
}
