//! The files that hold values: log segments and data segments, by number.
//!
//! Shared by the owner, the jobs and all readers. Every file counts the bytes referenced in it; the owner
//! frees it when none are left and nobody can come asking. A number may be referenced before its file is
//! known (while a checkpoint is loaded): such an entry is *absent*, and an error if it stays so.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::disk::{Disk, File};
use crate::types::file_of;

#[cfg(test)]
mod tests;

/// One file of values.
pub(crate) struct ValueFile {
    pub(crate) number: u32,
    /// Bytes referenced.
    live: AtomicU64,
    /// Bytes written, without what is only allocated.
    recorded: AtomicU64,
    /// Blocks up to here have been written, in this life of the file or an earlier one.
    written: AtomicU64,
    /// Small groups that were written last, one directly after the other.
    small_groups: AtomicU32,
    /// Something in it has been referenced since the log was opened.
    referenced: AtomicBool,
    location: RwLock<Location>,
    /// Ranges (offset, length) that did not check.
    damaged: Mutex<BTreeMap<u32, u32>>,
}

#[derive(Default)]
struct Location {
    /// Unknown while absent.
    path: Option<PathBuf>,
    handle: Option<Arc<dyn File>>,
}

impl ValueFile {
    pub(crate) fn new(number: u32, path: Option<PathBuf>) -> ValueFile {
        ValueFile {
            number,
            live: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            written: AtomicU64::new(0),
            small_groups: AtomicU32::new(0),
            referenced: AtomicBool::new(false),
            location: RwLock::new(Location { path, handle: None }),
            damaged: Mutex::default(),
        }
    }

    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.location.read().path.clone()
    }

    /// The path, for errors.
    pub(crate) fn shown_path(&self) -> PathBuf {
        self.path().unwrap_or_else(|| PathBuf::from(format!("{:08x}", self.number)))
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.location.read().path.is_none()
    }

    pub(crate) fn handle(&self) -> Option<Arc<dyn File>> {
        self.location.read().handle.clone()
    }

    pub(crate) fn set_location(&self, path: &Path, handle: Option<Arc<dyn File>>) {
        *self.location.write() = Location { path: Some(path.to_owned()), handle };
    }

    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Acquire)
    }

    pub(crate) fn was_referenced(&self) -> bool {
        self.referenced.load(Ordering::Acquire)
    }

    pub(crate) fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Acquire)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Blocks up to here have been written.
    pub(crate) fn note_written(&self, up_to: u64) {
        self.written.fetch_max(up_to, Ordering::AcqRel);
    }

    /// A group is written, a small one or a large one. Returns how many small ones came in a row by now.
    pub(crate) fn note_group(&self, is_small: bool) -> u32 {
        let row = if is_small { self.small_groups.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.small_groups.store(row, Ordering::Relaxed);
        row
    }

    pub(crate) fn mark_damaged(&self, offset: u32, len: u32) {
        self.damaged.lock().insert(offset, len);
    }

    /// Forgets damage that begins within a range.
    pub(crate) fn clear_damaged(&self, offset: u64, len: u64) {
        self.damaged.lock().retain(|start, _| !(offset..offset + len).contains(&u64::from(*start)));
    }

    pub(crate) fn damaged(&self) -> Vec<(u32, u32)> {
        self.damaged.lock().iter().map(|(offset, len)| (*offset, *len)).collect()
    }
}

/// All files of values.
pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    files: RwLock<BTreeMap<u32, Arc<ValueFile>>>,
    live: AtomicU64,
    /// Bytes written in all files: asked for after every turn, when there may be thousands of files.
    recorded: AtomicU64,
    /// Numbers of files opened for reading, oldest first.
    opened: Mutex<VecDeque<u32>>,
    open_limit: usize,
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, open_limit: usize) -> Files {
        Files {
            disk,
            files: RwLock::default(),
            live: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            opened: Mutex::default(),
            open_limit: open_limit.max(1),
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<Arc<ValueFile>> {
        self.files.read().get(&number).cloned()
    }

    /// Adds a file, or gives an absent one its path.
    pub(crate) fn insert(&self, number: u32, path: &Path) -> Arc<ValueFile> {
        let mut files = self.files.write();
        let file = files.entry(number).or_insert_with(|| Arc::new(ValueFile::new(number, None)));
        if file.is_absent() {
            file.set_location(path, None);
        }
        file.clone()
    }

    /// Adds a file in which nothing is written yet.
    pub(crate) fn add(&self, file: Arc<ValueFile>) {
        assert!(file.recorded() == 0, "what is written in a file is counted among all files");
        let before = self.files.write().insert(file.number, file);
        assert!(before.is_none(), "file numbers are used once");
    }

    pub(crate) fn remove(&self, number: u32) {
        if let Some(file) = self.files.write().remove(&number) {
            self.recorded.fetch_sub(file.recorded(), Ordering::AcqRel);
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<ValueFile>> {
        self.files.read().values().cloned().collect()
    }

    /// Bytes written in all files, without what is only allocated.
    pub(crate) fn recorded_bytes(&self) -> u64 {
        self.recorded.load(Ordering::Acquire)
    }

    /// One of these files holds so many bytes now.
    pub(crate) fn set_recorded(&self, file: &ValueFile, bytes: u64) {
        let before = file.recorded.swap(bytes, Ordering::AcqRel);
        // Wraps around, and back, where a file has become shorter.
        self.recorded.fetch_add(bytes.wrapping_sub(before), Ordering::AcqRel);
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.load(Ordering::Acquire)
    }

    /// Counts bytes referenced in a file. An empty value needs no file, neither here nor when it is read.
    pub(crate) fn retain(&self, number: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let file = self.get(number).unwrap_or_else(|| {
            let mut files = self.files.write();
            files.entry(number).or_insert_with(|| Arc::new(ValueFile::new(number, None))).clone()
        });
        file.referenced.store(true, Ordering::Release);
        file.live.fetch_add(bytes, Ordering::AcqRel);
        self.live.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn release(&self, address: u64, len: u32) {
        if len == 0 {
            return;
        }
        let file = self.get(file_of(address)).expect("what is released was retained, so its file is known");
        let before = file.live.fetch_sub(u64::from(len), Ordering::AcqRel);
        assert!(before >= u64::from(len), "more was released in file {:08x} than retained", file.number);
        self.live.fetch_sub(u64::from(len), Ordering::AcqRel);
    }

    /// The handle of a file, opening it if need be and closing the one opened longest ago past the limit. No
    /// lock is held meanwhile: the owner asks for paths, and must not wait for a disk.
    pub(crate) fn open(&self, file: &ValueFile) -> io::Result<Arc<dyn File>> {
        if let Some(handle) = file.handle() {
            return Ok(handle);
        }
        let path = file.path().ok_or(io::ErrorKind::NotFound)?;
        let handle = self.disk.open(&path)?;
        let mut location = file.location.write();
        // It may have moved meanwhile; what was opened stays readable for this once.
        if location.path.as_ref() == Some(&path) && location.handle.is_none() {
            location.handle = Some(handle.clone());
            drop(location);
            self.note_opened(file.number);
        }
        Ok(handle)
    }

    /// Counts an open handle and closes the oldest one past the limit.
    pub(crate) fn note_opened(&self, number: u32) {
        let mut opened = self.opened.lock();
        opened.push_back(number);
        let oldest = if opened.len() > self.open_limit { opened.pop_front() } else { None };
        drop(opened);
        if let Some(file) = oldest.and_then(|oldest| self.get(oldest)) {
            let closed = file.location.write().handle.take();
            drop(closed);
        }
    }
}
