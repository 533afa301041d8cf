//! Entries of the replicated log, and the hard state that Raft must not lose.

use bytes::Bytes;

/// Largest payload of one entry: its length travels in 32 bits, and half of that range is far above any batch.
pub const MAX_ENTRY_BYTES: usize = 1 << 30;

/// What an entry is. The numbers are on disk and on the wire; they never change meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// A batch of commands. Its payload is never empty.
    Batch = 0,
    /// A conf change; the payload is [`crate::membership::ConfChange::encode`]'s.
    ConfChange = 1,
    /// A new leader's first entry, without payload: committing it commits what earlier terms left.
    Empty = 2,
}

impl EntryKind {
    /// The kind a stored or received byte stands for; `None` if there is no such kind.
    pub fn from_u8(kind: u8) -> Option<EntryKind> {
        match kind {
            0 => Some(EntryKind::Batch),
            1 => Some(EntryKind::ConfChange),
            2 => Some(EntryKind::Empty),
            _ => None,
        }
    }
}

/// One entry of the replicated log, equal on every member that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The term of the leader that proposed it, at least 1.
    pub term: u64,
    /// Its position in the log, at least 1.
    pub index: u64,
    /// How to read the payload.
    pub kind: EntryKind,
    /// The bytes proposed; the same buffer from `propose` to `committed`, never copied here.
    pub payload: Bytes,
}

impl Entry {
    /// The entry's checksum, as it stands on disk and on the wire.
    pub fn checksum(&self) -> u32 {
        entry_checksum(self.term, self.index, self.kind, &self.payload)
    }
}

/// CRC-32C over `term LE u64 | index LE u64 | kind u8 | payload`: the checksum of an entry wherever it goes.
pub fn entry_checksum(term: u64, index: u64, kind: EntryKind, payload: &[u8]) -> u32 {
    let mut head = [0; 17];
    head[..8].copy_from_slice(&term.to_le_bytes());
    head[8..16].copy_from_slice(&index.to_le_bytes());
    head[16] = kind as u8;
    crc32c::crc32c_append(crc32c::crc32c(&head), payload)
}

/// What a member must keep across restarts besides its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HardState {
    /// The newest term this member has seen.
    pub term: u64,
    /// The candidate it voted for in that term; 0 for none.
    pub vote: u64,
    /// The newest index it knows committed. Losing it costs a little replay, nothing else.
    pub commit: u64,
}
