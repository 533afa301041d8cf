//! Repairs a damaged entry of the log in place, with the same entry from a peer.
//!
//! The new record has the same length and the same bytes as the damaged one, except for `synced`, which is lost and set
//! to 0: it then claims nothing about durability.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::BytesMut;

use crate::entry_index::EntryIndex;
use crate::error::{Fatal, JobError};
use crate::format::{PAYLOAD_OFFSET, RecordHead, RecordKind};
use crate::read::{EntryCursor, EntryRef, Pin, SharedFiles};
use crate::types::{ENTRY_HEAD_BYTES, Entry, LogId, entry_head, file_of, offset_of};

/// Writes an entry over its damaged record; runs off the owner's thread.
#[must_use = "a repair must be run"]
pub struct EntryRepairJob {
    shared: Arc<SharedFiles>,
    address: u64,
    salt: u32,
    entry: Entry,
    /// Keeps the file.
    _pin: Pin,
}

impl EntryRepairJob {
    /// Plans the repair. The entry must have the index, term and length of the damaged one. `durable` is the end of
    /// what is durable, `moving` the segment that is being moved.
    pub(crate) fn plan(
        entry: Entry,
        index: &EntryIndex,
        durable: u64,
        moving: Option<u32>,
        salt: u32,
        shared: &Arc<SharedFiles>,
    ) -> Result<EntryRepairJob, JobError> {
        let known = index.address(entry.index);
        let fits = known.is_some_and(|(_, len)| len as usize == entry.payload.len())
            && index.term(entry.index) == Some(entry.term);
        let Some((address, _)) = known.filter(|_| fits) else {
            return Err(JobError::Mismatch(format!("entry {} of term {}", entry.index, entry.term)));
        };
        if address >= durable {
            return Err(JobError::Busy("the entry is still being written"));
        }
        if moving == Some(file_of(address)) {
            return Err(JobError::Busy("its segment is being moved"));
        }
        Ok(EntryRepairJob { shared: shared.clone(), address, salt, entry, _pin: Pin::new(shared) })
    }

    /// Writes, syncs and reads it back. After [`JobError::Fatal`] the process must stop.
    pub fn run(self) -> Result<(), JobError> {
        let number = file_of(self.address);
        let file = self.shared.files.get(number).ok_or(JobError::Superseded)?;
        let path = file.shown_path();
        let handle = self.shared.files.open(&file).map_err(JobError::io("open", &path))?;
        let offset = u64::from(offset_of(self.address)) - PAYLOAD_OFFSET;
        handle.write_at(&[IoSlice::new(&self.encode(number))], offset).map_err(Fatal::io("write", &path))?;
        handle.sync_data().map_err(Fatal::io("sync", &path))?;
        let id = LogId { index: self.entry.index, term: self.entry.term };
        let len = self.entry.payload.len() as u32;
        let limit = self.address + u64::from(len);
        let mut cursor = EntryCursor::new(self.shared.clone(), self.salt, limit);
        cursor.read_back(EntryRef { id, address: self.address, len })?;
        file.clear_damaged(offset, PAYLOAD_OFFSET + u64::from(len));
        Ok(())
    }

    /// The record, with `synced` = 0.
    fn encode(&self, segment: u32) -> BytesMut {
        let entry = &self.entry;
        let length = (ENTRY_HEAD_BYTES + entry.payload.len() as u64) as u32;
        let head =
            RecordHead { segment, length, kind: RecordKind::Entry, synced: 0, checksum: entry.checksum() };
        let mut bytes = BytesMut::with_capacity(head.span() as usize);
        head.encode(self.salt, &mut bytes);
        bytes.extend_from_slice(&entry_head(entry.term, entry.index, entry.kind));
        bytes.extend_from_slice(&entry.payload);
        bytes.resize(head.span() as usize, 0);
        bytes
    }
}
