//! Repairs a damaged entry of the log in place, with the same entry from a peer.
//!
//! The new record has the same length and the same bytes as the damaged one, except for `synced`, which is lost and set
//! to 0: it then claims nothing about durability.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;

use crate::disk::File;
use crate::entry_index::EntryIndex;
use crate::error::{Fatal, JobError};
use crate::format::{HEAD_BYTES, PAYLOAD_OFFSET, RecordHead, RecordKind};
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
        let record = self.encode(number);
        // An intact head stays: it says since when the record is durable, and a crash cannot tear it.
        let head = self.has_intact_head(handle.as_ref(), &path, number, offset)?;
        let skipped = if head { HEAD_BYTES } else { 0 };
        let rest = IoSlice::new(&record[skipped as usize..]);
        handle.write_at(&[rest], offset + skipped).map_err(Fatal::io("write", &path))?;
        handle.sync_data().map_err(Fatal::io("sync", &path))?;
        let id = LogId { index: self.entry.index, term: self.entry.term };
        let len = self.entry.payload.len() as u32;
        let limit = self.address + u64::from(len);
        let mut cursor = EntryCursor::new(self.shared.clone(), self.salt, limit);
        cursor.read_back(EntryRef { id, address: self.address, len })?;
        file.clear_damaged(offset, PAYLOAD_OFFSET + u64::from(len));
        Ok(())
    }

    /// Whether the head of the damaged record is intact. Then it says which entry was here.
    ///
    /// # Errors
    /// It was another entry than the one that is to be written.
    fn has_intact_head(
        &self,
        file: &dyn File,
        path: &Path,
        number: u32,
        offset: u64,
    ) -> Result<bool, JobError> {
        let mut bytes = [0; HEAD_BYTES as usize];
        file.read_at(&mut bytes, offset).map_err(JobError::io("read", path))?;
        let Ok(head) = RecordHead::decode(&bytes, number, self.salt) else { return Ok(false) };
        match head.kind == RecordKind::Entry && head.checksum == self.entry.checksum() {
            true => Ok(true),
            false => {
                Err(JobError::Mismatch(format!("entry {} of term {}", self.entry.index, self.entry.term)))
            }
        }
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
