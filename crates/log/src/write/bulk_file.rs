//! Writes large files once from front to back, off the owner's thread.
//!
//! Checkpoints and data segments have tens of megabytes. If they were synced only at the end, every sync of the log in
//! that time would wait for all of their bytes, and so would every put. They are synced as they grow instead, a few
//! megabytes at a time.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, File};
use crate::error::JobError;

/// Bytes collected before a write.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes written before a sync. A sync of the log may have to wait for them, a few milliseconds on a common disk; there
/// are enough of them that the disk spends most of the time writing, not flushing.
const SYNC_BYTES: u64 = 4 << 20;

/// Fills a buffer from a file.
pub(crate) fn read_full(file: &dyn File, into: &mut [u8], offset: u64) -> std::io::Result<()> {
    match file.read_at(into, offset)? {
        read if read == into.len() => Ok(()),
        _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A file being written; the first write creates it.
pub(crate) struct BulkFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Option<Arc<dyn File>>,
    buffer: Vec<u8>,
    written: u64,
    synced: u64,
}

impl BulkFile {
    /// A file at `path`, which must not exist, that begins with `front`.
    pub(crate) fn new(disk: &Arc<dyn Disk>, path: PathBuf, front: &[u8]) -> BulkFile {
        let buffer = front.to_vec();
        BulkFile { disk: disk.clone(), path, file: None, buffer, written: 0, synced: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes so far, written or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds bytes, which [`BulkFile::write_full`] or [`BulkFile::finish`] writes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// Writes the added bytes once there are enough of them.
    ///
    /// # Errors
    /// Creating, writing or syncing the file failed; it is unusable.
    pub(crate) fn write_full(&mut self) -> Result<(), JobError> {
        if self.buffer.len() < WRITE_BYTES {
            return Ok(());
        }
        self.write()?;
        if self.written - self.synced >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    /// Writes the rest and makes all of it durable, but not its name. Returns its length in bytes.
    ///
    /// # Errors
    /// As those of [`BulkFile::write_full`].
    pub(crate) fn finish(&mut self) -> Result<u64, JobError> {
        self.write()?;
        self.sync()?;
        Ok(self.written)
    }

    /// Reads bytes that were added before.
    ///
    /// # Errors
    /// Writing what was not written yet, or reading failed.
    pub(crate) fn read_back(&mut self, offset: u64, into: &mut [u8]) -> Result<(), JobError> {
        if offset + into.len() as u64 > self.written {
            self.write()?;
        }
        let file = self.file.as_ref().expect("a write opens the file");
        read_full(&**file, into, offset).map_err(JobError::io("read", &self.path))
    }

    /// Removes the file. Best effort: the next open removes unfinished files.
    pub(crate) fn discard(self) {
        if self.file.is_some() {
            let _ = self.disk.remove(&self.path);
        }
    }

    fn write(&mut self) -> Result<(), JobError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.disk.create_new(&self.path).map_err(JobError::io("create", &self.path))?,
        };
        let file = self.file.insert(file);
        let buffers = [IoSlice::new(&self.buffer)];
        file.write_at(&buffers, self.written).map_err(JobError::io("write", &self.path))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JobError> {
        let file = self.file.as_ref().expect("a write opens the file");
        file.sync_data().map_err(JobError::io("sync", &self.path))?;
        self.synced = self.written;
        Ok(())
    }
}
