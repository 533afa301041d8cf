//! How much memory the log takes, as accounted: bytes that its parts count anyway, in constant time.
//!
//! Each part is bounded but for the entry index, which grows with the entries that are kept for followers.

use super::Log;

/// Memory of an entry in the entry index: its address and length.
const INDEXED_ENTRY_BYTES: u64 = (size_of::<u64>() + size_of::<u32>()) as u64;

/// Accounted bytes of the parts of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogMemory {
    /// The tail. Owners of the entries, such as consensus, hold the same bytes.
    pub tail: u64,
    /// The index of entries that raft may still ask for.
    pub entry_index: u64,
    /// The value cache.
    pub value_cache: u64,
}

impl Log {
    /// What is accounted as the memory of the log.
    pub fn memory(&self) -> LogMemory {
        LogMemory {
            tail: self.shared.tail.read().bytes(),
            entry_index: self.index.len() as u64 * INDEXED_ENTRY_BYTES,
            value_cache: self.shared.cache.bytes(),
        }
    }

    /// Frees memory while nothing is written: keeps at most `max_tail_bytes` of durable entries in the tail. Readers
    /// find the others in their files.
    pub fn release_memory(&mut self, max_tail_bytes: u64) {
        self.writes.release_tail(max_tail_bytes);
    }
}
