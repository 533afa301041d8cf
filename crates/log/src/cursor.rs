//! Reading entries back, one after the other, checked.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::ReadError;
use crate::reader::{Pin, SharedFiles};
use crate::record::{self, ENTRY_HEAD_BYTES, HEAD_BYTES, Head, Kind, PAYLOAD_OFFSET, read_u64};
use crate::types::{Entry, LogId, file_of};

/// Bytes read ahead: a few hundred small entries a system call.
const WINDOW_BYTES: u64 = 1 << 20;

/// An entry as the index knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryRef {
    pub(crate) id: LogId,
    pub(crate) address: u64,
    pub(crate) len: u32,
}

/// Reads records, neighbours with one call.
pub(crate) struct Cursor {
    shelf: Arc<SharedFiles>,
    salt: u32,
    window_start: u64,
    window: Bytes,
    /// Reads end here at the latest: what lies behind may not be written yet.
    limit: u64,
}

impl Cursor {
    pub(crate) fn new(shelf: Arc<SharedFiles>, salt: u32, limit: u64) -> Cursor {
        Cursor { shelf, salt, window_start: 0, window: Bytes::new(), limit }
    }

    /// The entry, from the tail if it is there. It is checked against its own checksum and the index.
    pub(crate) fn entry(&mut self, wanted: EntryRef) -> Result<Entry, ReadError> {
        if let Some(entry) = self.shelf.tail.read().entry(wanted.address) {
            return Ok(entry.clone());
        }
        self.read_back(wanted)
    }

    /// The entry from its file.
    pub(crate) fn read_back(&mut self, wanted: EntryRef) -> Result<Entry, ReadError> {
        let start = wanted.address - PAYLOAD_OFFSET;
        let len = PAYLOAD_OFFSET + u64::from(wanted.len);
        let bytes = self.bytes(start, len)?;
        decode(&bytes, wanted, self.salt).ok_or_else(|| self.shelf.damage(start, len))
    }

    fn bytes(&mut self, start: u64, len: u64) -> Result<Bytes, ReadError> {
        let end = start + len;
        let inside = start >= self.window_start && end <= self.window_start + self.window.len() as u64;
        if !inside {
            let ahead = match file_of(start) == file_of(self.limit) {
                true => self.limit.max(end) - start,
                false => self.recorded(start).max(len),
            };
            self.window = self.shelf.read_range(start, ahead.min(WINDOW_BYTES).max(len))?;
            self.window_start = start;
        }
        let from = (start - self.window_start) as usize;
        Ok(self.window.slice(from..from + len as usize))
    }

    /// Bytes from a place to the end of what its file holds.
    fn recorded(&self, start: u64) -> u64 {
        let file = self.shelf.files.get(file_of(start));
        file.map_or(0, |file| file.recorded().saturating_sub(start & u64::from(u32::MAX)))
    }
}

fn decode(bytes: &Bytes, wanted: EntryRef, salt: u32) -> Option<Entry> {
    let head = Head::decode(bytes, file_of(wanted.address), salt).ok()?;
    let body = bytes.slice(HEAD_BYTES as usize..);
    let whole = head.kind == Kind::Entry && u64::from(head.length) == body.len() as u64;
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
        kind: body[record::ENTRY_HEAD_BYTES as usize - 1],
        payload: body.slice(head..),
    })
}

/// Entries to be read off the owner's thread, for a follower that is far behind.
pub struct ReadJob {
    pub(crate) cursor: Cursor,
    pub(crate) entries: Vec<EntryRef>,
    /// Keeps their files.
    pub(crate) pin: Pin,
}

impl ReadJob {
    /// Reads them all, or says which file is damaged where.
    pub fn run(mut self) -> Result<Vec<Entry>, ReadError> {
        let entries = self.entries.iter().map(|wanted| self.cursor.entry(*wanted)).collect();
        drop(self.pin);
        entries
    }
}

/// Walks the entries of a log in order; see [`crate::Log::replay`].
pub struct Replay {
    pub(crate) cursor: Cursor,
    pub(crate) entries: std::vec::IntoIter<EntryRef>,
}

impl Iterator for Replay {
    /// The entry, and the place of its payload.
    type Item = Result<(Entry, u64), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let wanted = self.entries.next()?;
        Some(self.cursor.entry(wanted).map(|entry| (entry, wanted.address)))
    }
}
