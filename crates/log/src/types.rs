//! What goes into the log and comes out of it.

use std::path::PathBuf;

use bytes::Bytes;

use crate::record;

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
    crc32c::crc32c_append(crc32c::crc32c(&record::entry_head(term, index, kind)), payload)
}

/// What raft must never forget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HardState {
    /// Current term.
    pub term: u64,
    /// The member voted for in this term; 0 = none.
    pub vote: u64,
    /// Highest index known committed.
    pub commit: u64,
}

/// Whose files these are. Stands in the head of every file.
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

/// A value by reference: where it lies, how long it is, and what its bytes must check to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredValue {
    /// File number and offset of its first byte.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// CRC-32C of the bytes.
    pub checksum: u32,
}

/// The file number of a place or position.
pub fn file_of(address: u64) -> u32 {
    (address >> 32) as u32
}

/// The byte offset of a place or position within its file.
pub fn offset_of(address: u64) -> u32 {
    address as u32
}

/// Puts a file number and an offset together.
pub(crate) fn address_at(file: u32, offset: u64) -> u64 {
    let offset = u32::try_from(offset).expect("files stay below 4 GiB");
    u64::from(file) << 32 | u64::from(offset)
}

/// Bytes of a log segment. Large enough that rolling over (a directory sync) is rare at any rate of writes,
/// small enough that relocation and recycling deal in small steps.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Bytes of recent payloads kept in memory: what followers and watchers ask for again is nearly always here.
pub const TAIL_BYTES: u64 = 16 << 20;
/// Bytes of values kept in memory after they were read from files: 20,000 values of 256 bytes, against some 150 MB that
/// a million keys take in a member.
pub const CACHE_BYTES: u64 = 8 << 20;
/// Segments kept prepared beyond the next one, so that raft, deletes and compaction can go on when the disk
/// is full.
pub const RESERVE_SEGMENTS: usize = 1;
/// Files kept open for reading; well below the usual limit of 1,024 descriptors, sockets included.
pub const OPEN_FILES: usize = 256;
/// Bytes which a separate WAL directory may hold in sealed segments before the oldest moves to the data
/// directory.
pub const WAL_DIR_BYTES: u64 = 256 << 20;
/// Largest payload of one entry; offsets in a file are 32 bits.
pub const MAX_PAYLOAD_BYTES: u64 = 1 << 30;

/// The highest index a log has: a million entries a second do not come near it in a hundred thousand years, and what
/// is counted from it does not overflow.
pub(crate) const MAX_INDEX: u64 = 1 << 62;

/// How a log is laid out and sized.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory.
    pub data_dir: PathBuf,
    /// A separate directory for the segments being written, usually on another device.
    pub wal_dir: Option<PathBuf>,
    /// Bytes of a segment, see [`SEGMENT_BYTES`].
    pub segment_bytes: u64,
    /// Bytes of recent payloads kept in memory, see [`TAIL_BYTES`].
    pub tail_bytes: u64,
    /// Bytes of values kept in memory after they were read, see [`CACHE_BYTES`]; 0 keeps none.
    pub cache_bytes: u64,
    /// Segments prepared beyond the next one, see [`RESERVE_SEGMENTS`].
    pub reserve_segments: usize,
    /// Files kept open for reading, see [`OPEN_FILES`].
    pub open_files: usize,
    /// Bytes of sealed segments in a separate WAL directory, see [`WAL_DIR_BYTES`].
    pub wal_dir_bytes: u64,
}

impl Options {
    /// The usual sizes for a data directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Options {
            data_dir: data_dir.into(),
            wal_dir: None,
            segment_bytes: SEGMENT_BYTES,
            tail_bytes: TAIL_BYTES,
            cache_bytes: CACHE_BYTES,
            reserve_segments: RESERVE_SEGMENTS,
            open_files: OPEN_FILES,
            wal_dir_bytes: WAL_DIR_BYTES,
        }
    }
}
