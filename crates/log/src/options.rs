//! How a log is laid out and sized.

use std::path::PathBuf;

/// Bytes of a log segment. Large enough that a new segment (a directory sync) is rare at any rate of writes;
/// small enough that relocation and recycling work in small steps.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Bytes of recent payloads kept in memory: nearly all reads of followers and watchers find their entry here.
pub const TAIL_BYTES: u64 = 16 << 20;
/// Bytes of values kept in memory after they were read from files: 20,000 values of 256 bytes, against some 150 MB that
/// a million keys take in a member.
pub const CACHE_BYTES: u64 = 8 << 20;
/// Segments preallocated beyond the next one, so that raft, deletes and compaction continue when the disk is full.
pub const RESERVE_SEGMENTS: usize = 1;
/// Files kept open for reading, unless the owner of the process knows better; well below the usual limit of 1,024
/// descriptors, sockets included. Readers and jobs have a few more open while they use them.
pub const OPEN_FILES: usize = 256;
/// Bytes which a separate WAL directory may hold in sealed segments before the oldest moves to the data
/// directory.
pub const WAL_DIR_BYTES: u64 = 256 << 20;

/// The directories and sizes of a log.
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
    /// Segments preallocated beyond the next one, see [`RESERVE_SEGMENTS`].
    pub reserve_segments: usize,
    /// Files kept open for reading, see [`OPEN_FILES`].
    pub open_files: usize,
    /// Bytes that sealed segments may take in a separate WAL directory, see [`WAL_DIR_BYTES`].
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
