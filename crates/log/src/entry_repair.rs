//! Repairs a damaged entry of the log in place, with the same entry from a peer.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::BytesMut;

use crate::cursor::{Cursor, EntryRef};
use crate::error::{Fatal, JobError};
use crate::log::Log;
use crate::reader::{Pin, SharedFiles};
use crate::record::{self, ENTRY_HEAD_BYTES, Head, Kind, PAYLOAD_OFFSET};
use crate::types::{Entry, LogId, file_of, offset_of};

/// Writes an entry where its damaged record lies; runs off the owner's thread.
#[must_use = "a repair must be run"]
pub struct EntryRepairJob {
    shelf: Arc<SharedFiles>,
    address: u64,
    salt: u32,
    entry: Entry,
    /// Keeps the file.
    _pin: Pin,
}

impl Log {
    /// Plans to write an entry again over its damaged record. The entry must be the one that stood there:
    /// same index, term and length.
    pub fn repair_entry(&self, entry: Entry) -> Result<EntryRepairJob, JobError> {
        let known = self.index.address(entry.index);
        let fits = known.is_some_and(|(_, len)| len as usize == entry.payload.len())
            && self.index.term(entry.index) == Some(entry.term);
        let Some((address, _)) = known.filter(|_| fits) else {
            return Err(JobError::Mismatch(format!("entry {} of term {}", entry.index, entry.term)));
        };
        if address >= self.durable {
            return Err(JobError::Busy("the entry is still being written"));
        }
        if self.moving == Some(file_of(address)) {
            return Err(JobError::Busy("its segment is being moved"));
        }
        Ok(EntryRepairJob {
            shelf: self.shelf.clone(),
            address,
            salt: self.salt,
            entry,
            _pin: self.reader().pin(),
        })
    }
}

impl EntryRepairJob {
    /// Writes, syncs and reads it back. After [`JobError::Fatal`] the process must stop.
    pub fn run(self) -> Result<(), JobError> {
        let number = file_of(self.address);
        let file = self.shelf.files.get(number).ok_or(JobError::Superseded)?;
        let path = file.shown_path();
        let handle = self.shelf.files.open(&file).map_err(JobError::io("open", &path))?;
        let offset = u64::from(offset_of(self.address)) - PAYLOAD_OFFSET;
        handle.write_at(&[IoSlice::new(&self.encode(number))], offset).map_err(Fatal::io("write", &path))?;
        handle.sync_data().map_err(Fatal::io("sync", &path))?;
        let id = LogId { index: self.entry.index, term: self.entry.term };
        let len = self.entry.payload.len() as u32;
        let limit = self.address + u64::from(len);
        let mut cursor = Cursor::new(self.shelf.clone(), self.salt, limit);
        cursor.read_back(EntryRef { id, address: self.address, len })?;
        file.clear_damaged(offset, PAYLOAD_OFFSET + u64::from(len));
        Ok(())
    }

    /// The record as it stood there. What it said of durability is not known any more, so it says nothing.
    fn encode(&self, segment: u32) -> BytesMut {
        let entry = &self.entry;
        let length = (ENTRY_HEAD_BYTES + entry.payload.len() as u64) as u32;
        let head = Head { segment, length, kind: Kind::Entry, synced: 0, checksum: entry.checksum() };
        let mut bytes = BytesMut::with_capacity(head.span() as usize);
        head.encode(self.salt, &mut bytes);
        bytes.extend_from_slice(&record::entry_head(entry.term, entry.index, entry.kind));
        bytes.extend_from_slice(&entry.payload);
        bytes.resize(head.span() as usize, 0);
        bytes
    }
}
