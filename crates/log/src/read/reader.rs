//! The readers' side of the log: pins, value reads, and the references that keep files.
//!
//! A reader takes a [`Pin`] first, then looks at its index, then reads through the pin. Every value that the index
//! showed stays readable as long as the pin lives; [`crate::Log`] frees no file before (see `read/pins.rs`).

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::cache::Access;
use super::read_slots::ReadSlot;
use super::shared_files::SharedFiles;
use super::value_files::ReferenceCounts;
use crate::error::ReadError;
use crate::types::{StoredValue, address_at, file_of, offset_of};

/// Hands out pins and counts references. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<SharedFiles>,
}

/// A range of a file whose checksum failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Log address of its first byte.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// The file.
    pub path: PathBuf,
}

impl Reader {
    pub(crate) fn new(shared: Arc<SharedFiles>) -> Reader {
        Reader { shared }
    }

    /// Keeps every file that is referenced now until the pin is dropped. Take it before looking at the index.
    pub fn pin(&self) -> Pin {
        Pin::new(&self.shared)
    }

    /// The value, if it is in the tail. Never reads a file.
    pub fn read_in_memory(&self, address: u64, len: u32, checksum: u32) -> Option<Bytes> {
        self.shared.recent(StoredValue { address, len, checksum })
    }

    /// Counts a reference to a value: its file stays.
    pub fn retain(&self, address: u64, len: u32) {
        self.shared.files.retain(file_of(address), 1, u64::from(len));
    }

    /// Counts references to many values.
    pub fn retain_all(&self, values: &ReferenceCounts) {
        for (file, (references, bytes)) in &values.by_file {
            self.shared.files.retain(*file, *references, *bytes);
        }
    }

    /// Releases a reference. It must have been retained, with the same length.
    pub fn release(&self, address: u64, len: u32) {
        self.shared.files.release(address, len);
    }

    /// The number of pins that are held.
    pub fn pins(&self) -> u64 {
        self.shared.pins.held()
    }

    /// Bytes of values referenced; one that several versions refer to counts for each.
    pub fn live_bytes(&self) -> u64 {
        self.shared.files.live_bytes()
    }

    /// Bytes written in segments and data segments that exist, without preallocation.
    pub fn file_bytes(&self) -> u64 {
        self.shared.files.recorded_bytes()
    }

    /// Notes that a value is damaged, so that it is neither served nor copied. Reads that fail do so themselves.
    pub fn mark_damaged(&self, address: u64, len: u32) {
        if let Some(file) = self.shared.files.get(file_of(address)) {
            file.mark_damaged(offset_of(address), len);
        }
    }

    /// Whether a read has found that what begins at this address is not what was written. A read that failed, because
    /// of the disk or of its controller, says nothing about the bytes.
    pub fn is_known_damaged(&self, address: u64) -> bool {
        let file = self.shared.files.get(file_of(address));
        file.is_some_and(|file| file.is_damaged_at(offset_of(address)))
    }

    /// All known damage, by log address. A value that was repaired in another file is included until its old file is
    /// freed.
    pub fn damaged(&self) -> Vec<Damage> {
        let mut damaged = Vec::new();
        for file in self.shared.files.all() {
            let path = file.shown_path();
            damaged.extend(file.damaged().into_iter().map(|(offset, len)| Damage {
                address: address_at(file.number, u64::from(offset)),
                len,
                path: path.clone(),
            }));
        }
        damaged
    }
}

/// Keeps files readable; see [`Reader::pin`].
pub struct Pin {
    shared: Arc<SharedFiles>,
    epoch: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shared.pins.unpin(self.epoch);
    }
}

impl Pin {
    pub(crate) fn new(shared: &Arc<SharedFiles>) -> Pin {
        Pin { epoch: shared.pins.pin(), shared: shared.clone() }
    }

    /// Reads one value.
    pub fn read(&self, address: u64, len: u32, checksum: u32) -> Result<Bytes, ReadError> {
        self.shared.read(StoredValue { address, len, checksum })
    }

    /// Reads many values, neighbours together; the answers are in the order of `values`.
    pub fn read_many(&self, values: &[StoredValue]) -> Vec<Result<Bytes, ReadError>> {
        self.shared.read_many(values)
    }

    /// Reads many values into the buffers of `slots`, neighbours together. The order of `slots` may change. With
    /// [`Access::Query`] the value cache is asked first and keeps what was read.
    ///
    /// # Errors
    /// That of one of the values that could not be read; the contents of the slots are undefined then.
    pub fn read_into(&self, slots: &mut [ReadSlot<'_>], access: Access) -> Result<(), ReadError> {
        self.shared.fill(slots, access)
    }
}
