//! Reading entries: from the tail or from their segments, in order, with a check of each.

use std::sync::Arc;

use bytes::Bytes;

use super::reader::Pin;
use super::shared_files::SharedFiles;
use crate::error::ReadError;
use crate::format::{HEAD_BYTES, HEADER_BYTES, PAYLOAD_OFFSET, RecordHead, RecordKind, read_u64};
use crate::types::{ENTRY_HEAD_BYTES, Entry, LogId, file_of, offset_of};

/// Bytes read ahead: a few hundred small entries for one system call.
const WINDOW_BYTES: u64 = 1 << 20;

/// An entry as the index knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryRef {
    pub(crate) id: LogId,
    pub(crate) address: u64,
    pub(crate) len: u32,
}

/// Reads records; one call reads many neighbours.
pub(crate) struct EntryCursor {
    shared: Arc<SharedFiles>,
    salt: u32,
    window_start: u64,
    window: Bytes,
    /// Reading ahead ends here: later bytes may not be written yet.
    limit: u64,
}

impl EntryCursor {
    pub(crate) fn new(shared: Arc<SharedFiles>, salt: u32, limit: u64) -> EntryCursor {
        EntryCursor { shared, salt, window_start: 0, window: Bytes::new(), limit }
    }

    /// The entry, from the tail if it is there. One from a file is checked against its own checksum and the index.
    pub(crate) fn entry(&mut self, wanted: EntryRef) -> Result<Entry, ReadError> {
        if let Some(entry) = self.shared.tail.read().entry(wanted.address) {
            return Ok(entry.clone());
        }
        self.read_back(wanted)
    }

    /// The entry from its file.
    pub(crate) fn read_back(&mut self, wanted: EntryRef) -> Result<Entry, ReadError> {
        assert!(
            u64::from(offset_of(wanted.address)) >= HEADER_BYTES + PAYLOAD_OFFSET,
            "no payload begins here"
        );
        let start = wanted.address - PAYLOAD_OFFSET;
        let len = PAYLOAD_OFFSET + u64::from(wanted.len);
        let bytes = self.bytes(start, len)?;
        decode(&bytes, wanted, self.salt).ok_or_else(|| self.shared.damage(start, len))
    }

    /// The record at an address, whole and checked, and the address after it. `None` at the end of the file's records.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged there.
    pub(crate) fn record(&mut self, start: u64) -> Result<Option<(RecordHead, Bytes, u64)>, ReadError> {
        let recorded = self.recorded(start);
        if recorded < HEAD_BYTES {
            return Ok(None);
        }
        let head = RecordHead::decode(&self.bytes(start, HEAD_BYTES)?, file_of(start), self.salt);
        let head = head.map_err(|_| self.shared.damage(start, HEAD_BYTES))?;
        let len = HEAD_BYTES + u64::from(head.length);
        if len > recorded {
            return Err(self.shared.damage(start, recorded));
        }
        let body = self.bytes(start, len)?.slice(HEAD_BYTES as usize..);
        match crc32c::crc32c(&body) == head.checksum {
            true => Ok(Some((head, body, start + head.span()))),
            false => Err(self.shared.damage(start, len)),
        }
    }

    fn bytes(&mut self, start: u64, len: u64) -> Result<Bytes, ReadError> {
        let end = start + len;
        let inside = start >= self.window_start && end <= self.window_start + self.window.len() as u64;
        if !inside {
            let ahead = match file_of(start) == file_of(self.limit) {
                true => self.limit.max(end) - start,
                false => self.recorded(start).max(len),
            };
            self.window = self.shared.read_range(start, ahead.min(WINDOW_BYTES).max(len))?;
            self.window_start = start;
        }
        let from = (start - self.window_start) as usize;
        Ok(self.window.slice(from..from + len as usize))
    }

    /// Bytes from an address to the end of the records in its file.
    fn recorded(&self, start: u64) -> u64 {
        let file = self.shared.files.get(file_of(start));
        file.map_or(0, |file| file.recorded().saturating_sub(start & u64::from(u32::MAX)))
    }
}

fn decode(bytes: &Bytes, wanted: EntryRef, salt: u32) -> Option<Entry> {
    let head = RecordHead::decode(bytes, file_of(wanted.address), salt).ok()?;
    let body = bytes.slice(HEAD_BYTES as usize..);
    let whole = head.kind == RecordKind::Entry && u64::from(head.length) == body.len() as u64;
    if !whole || crc32c::crc32c(&body) != head.checksum {
        return None;
    }
    let entry = entry_of(&body)?;
    (entry.index == wanted.id.index && entry.term == wanted.id.term).then_some(entry)
}

/// The entry in the body of a record.
pub(crate) fn entry_of(body: &Bytes) -> Option<Entry> {
    let head = ENTRY_HEAD_BYTES as usize;
    (body.len() >= head).then(|| Entry {
        term: read_u64(body, 0),
        index: read_u64(body, 8),
        kind: body[ENTRY_HEAD_BYTES as usize - 1],
        payload: body.slice(head..),
    })
}

/// Entries to be read off the owner's thread, for a follower that is behind the tail.
pub struct ReadJob {
    cursor: EntryCursor,
    entries: Vec<EntryRef>,
    /// Keeps their files.
    pin: Pin,
}

impl std::fmt::Debug for ReadJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadJob").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

impl ReadJob {
    pub(crate) fn new(cursor: EntryCursor, entries: Vec<EntryRef>, pin: Pin) -> ReadJob {
        ReadJob { cursor, entries, pin }
    }

    /// How many entries it reads.
    #[allow(clippy::len_without_is_empty, reason = "it reads at least one")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reads all entries. An error names the damaged file and the offset.
    pub fn run(mut self) -> Result<Vec<Entry>, ReadError> {
        let entries = self.entries.iter().map(|wanted| self.cursor.entry(*wanted)).collect();
        drop(self.pin);
        entries
    }
}

/// Walks the entries of a log in order; see [`crate::Log::entries_from`].
pub struct Entries {
    cursor: EntryCursor,
    entries: std::vec::IntoIter<EntryRef>,
}

impl Entries {
    pub(crate) fn new(cursor: EntryCursor, entries: Vec<EntryRef>) -> Entries {
        Entries { cursor, entries: entries.into_iter() }
    }
}

impl Iterator for Entries {
    /// The entry, and the log address of its payload.
    type Item = Result<(Entry, u64), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let wanted = self.entries.next()?;
        Some(self.cursor.entry(wanted).map(|entry| (entry, wanted.address)))
    }
}
