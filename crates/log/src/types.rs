//! Entries, hard states, and log addresses.
//!
//! A **log address** names a byte of a file: the file number in the high 32 bits, the offset in the low 32 bits. File
//! numbers come from one counter and are never reused, and the segments of the log have ascending numbers. Therefore:
//!
//! - addresses of the log ascend in the order in which records are planned, across segments too;
//! - two numbers compare like the positions they name, so "is it durable?" is one comparison;
//! - an address names the same bytes as long as its file exists.
//!
//! ```text
//!   segment 0000002b                     data segment 0000002c
//!   +--------+---------+---------+       +--------+-----+-----+
//!   | header | opening | entry 7 |       | header | v1  | v2  |
//!   +--------+---------+---------+       +--------+-----+-----+
//!   0        64        152    ^197       0        64    72
//!
//!   payload of entry 7:  0x0000002b_000000c5     (file 0x2b, offset 197 = 152 + 28 + 17)
//!   value v2:            0x0000002c_00000048     (file 0x2c, offset 72)
//! ```
//!
//! A *position* is an address used as an end: everything planned before it. The store keeps a [`StoredValue`] for each
//! value, and never looks inside the address. [`file_of`] and [`offset_of`] take one apart for messages and tests.

use bytes::Bytes;

/// One entry of the replicated log, equal on every member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Raft term in which it was proposed.
    pub term: u64,
    /// Raft index, from 1.
    pub index: u64,
    /// What the payload is; opaque here.
    pub kind: u8,
    /// Its bytes; opaque here.
    pub payload: Bytes,
}

impl Entry {
    /// The checksum that guards the entry on disk and on the wire.
    pub fn checksum(&self) -> u32 {
        entry_checksum(self.term, self.index, self.kind, &self.payload)
    }
}

/// CRC-32C over `term LE | index LE | kind | payload`: equal on every member, on disk and on the wire.
pub fn entry_checksum(term: u64, index: u64, kind: u8, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&entry_head(term, index, kind)), payload)
}

/// Bytes of an entry's fields before its payload: term, index, kind.
pub(crate) const ENTRY_HEAD_BYTES: u64 = 17;

/// The fields of an entry that precede its payload in a record, and that its checksum covers.
pub(crate) fn entry_head(term: u64, index: u64, kind: u8) -> [u8; ENTRY_HEAD_BYTES as usize] {
    let mut head = [0; ENTRY_HEAD_BYTES as usize];
    head[..8].copy_from_slice(&term.to_le_bytes());
    head[8..16].copy_from_slice(&index.to_le_bytes());
    head[16] = kind;
    head
}

/// What raft must never lose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HardState {
    /// Current term.
    pub term: u64,
    /// The member voted for in this term; 0 = none.
    pub vote: u64,
    /// Highest index known committed.
    pub commit: u64,
}

/// The owner of a data directory; part of the header of every file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster_id: u64,
    /// The member.
    pub member_id: u64,
    /// Random number of this data directory; a wiped and recreated directory gets another.
    pub incarnation: u64,
}

/// An index and the term of the entry there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogId {
    /// Raft index; 0 = before the first entry.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

/// A value pointer: log address, length and checksum of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredValue {
    /// Log address of its first byte.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// CRC-32C of the bytes.
    pub checksum: u32,
}

/// The file number of a log address or position.
pub fn file_of(address: u64) -> u32 {
    (address >> 32) as u32
}

/// The byte offset of a log address or position within its file.
pub fn offset_of(address: u64) -> u32 {
    address as u32
}

/// The log address of an offset in a file.
pub(crate) fn address_at(file: u32, offset: u64) -> u64 {
    let offset = u32::try_from(offset).expect("files stay below 4 GiB");
    u64::from(file) << 32 | u64::from(offset)
}

/// Largest payload of one entry: an offset in a file has 32 bits.
pub const MAX_PAYLOAD_BYTES: u64 = 1 << 30;

/// The highest index of a log. A million entries a second do not reach it in a hundred thousand years, and index
/// arithmetic below it does not overflow.
pub(crate) const MAX_INDEX: u64 = 1 << 62;
