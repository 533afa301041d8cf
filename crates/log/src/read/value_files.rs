//! The files that hold values: log segments and data segments, by number.
//!
//! The owner, its jobs and all readers share them. Every file counts the bytes referenced in it (*live*) and the bytes
//! written in it (*recorded*, without preallocation). The owner frees a file when nothing in it is live and no reader
//! can hold an address into it. A number may be referenced before its file is known, while a checkpoint is loaded: such
//! a file is *absent*, which is an error if it is still absent afterwards.
//!
//! ```text
//!   file       live     recorded
//!   0000002a   1 000      60 000     relocation candidate: 2 % live
//!   0000002b  48 000      64 000
//!   0000002c       0       9 000     freed after the next checkpoint
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::open_handles::OpenHandles;
use crate::disk::{Disk, File};
use crate::error::is_out_of_descriptors;
use crate::format::DATA_SUFFIX;
use crate::types::file_of;

/// One file of values.
pub(crate) struct ValueFile {
    pub(crate) number: u32,
    /// Bytes referenced.
    live: AtomicU64,
    /// References that are counted in it.
    references: AtomicU64,
    /// Bytes written, without what is only allocated.
    recorded: AtomicU64,
    /// Of these, bytes of the footer of a data segment.
    footer: AtomicU64,
    /// End of the blocks that have been written, under this number or, in a recycled file, an earlier one.
    written: AtomicU64,
    /// Number of small flushes written last, without a large one between them.
    small_flushes: AtomicU32,
    /// Something in it has been referenced since the log was opened.
    referenced: AtomicBool,
    /// The stamp of its last use, see `open_handles.rs`.
    last_use: AtomicU64,
    location: RwLock<Location>,
    /// Ranges (offset, length) whose checksum failed.
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
            references: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            footer: AtomicU64::new(0),
            written: AtomicU64::new(0),
            small_flushes: AtomicU32::new(0),
            referenced: AtomicBool::new(false),
            last_use: AtomicU64::new(0),
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

    pub(crate) fn references(&self) -> u64 {
        self.references.load(Ordering::Acquire)
    }

    pub(crate) fn footer_bytes(&self) -> u64 {
        self.footer.load(Ordering::Acquire)
    }

    /// Whether it is a data segment: values without entries.
    pub(crate) fn is_data_segment(&self) -> bool {
        self.path().is_some_and(|path| path.extension().is_some_and(|suffix| suffix == DATA_SUFFIX))
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

    /// Counts a flush. Returns how many small flushes have been written in a row.
    pub(crate) fn note_flush(&self, is_small: bool) -> u32 {
        let row = if is_small { self.small_flushes.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.small_flushes.store(row, Ordering::Relaxed);
        row
    }

    pub(crate) fn mark_damaged(&self, offset: u32, len: u32) {
        self.damaged.lock().insert(offset, len);
    }

    pub(crate) fn is_damaged_at(&self, offset: u32) -> bool {
        self.damaged.lock().contains_key(&offset)
    }

    /// Forgets damage that begins within a range.
    pub(crate) fn clear_damaged(&self, offset: u64, len: u64) {
        self.damaged.lock().retain(|start, _| !(offset..offset + len).contains(&u64::from(*start)));
    }

    pub(crate) fn damaged(&self) -> Vec<(u32, u32)> {
        self.damaged.lock().iter().map(|(offset, len)| (*offset, *len)).collect()
    }
}

/// References to many values, counted by file. Counting takes time in proportion to the values and may be done by any
/// thread; taking the counts over takes time in proportion to the files.
#[derive(Debug, Default)]
pub struct ReferenceCounts {
    /// References and bytes by the number of the file.
    pub(super) by_file: BTreeMap<u32, (u64, u64)>,
}

impl FromIterator<(u64, u32)> for ReferenceCounts {
    /// Counts values given as log address and length. Empty ones have no address and do not count.
    fn from_iter<T: IntoIterator<Item = (u64, u32)>>(values: T) -> ReferenceCounts {
        let mut counts = ReferenceCounts::default();
        for (address, len) in values.into_iter().filter(|(_, len)| *len > 0) {
            let (references, bytes) = counts.by_file.entry(file_of(address)).or_default();
            *references += 1;
            *bytes += u64::from(len);
        }
        counts
    }
}

/// All files that hold values.
pub(crate) struct ValueFiles {
    disk: Arc<dyn Disk>,
    files: RwLock<BTreeMap<u32, Arc<ValueFile>>>,
    live: AtomicU64,
    /// Bytes written in all files. Kept as a sum because it is read in every iteration, with possibly thousands of
    /// files.
    recorded: AtomicU64,
    /// The files that are open for reading.
    opened: OpenHandles,
}

impl ValueFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, max_open: usize) -> ValueFiles {
        ValueFiles {
            disk,
            files: RwLock::default(),
            live: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            opened: OpenHandles::new(max_open),
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

    /// Adds a durable file with its length, and that of its footer.
    pub(crate) fn insert_written(&self, number: u32, path: &Path, bytes: u64, footer_bytes: u64) {
        let file = self.insert(number, path);
        file.footer.store(footer_bytes, Ordering::Release);
        self.set_recorded(&file, bytes);
    }

    /// Adds a file in which nothing is written yet.
    pub(crate) fn add(&self, file: Arc<ValueFile>) {
        assert!(file.recorded() == 0, "bytes recorded before the file is added would not be in the sum");
        let before = self.files.write().insert(file.number, file);
        assert!(before.is_none(), "file numbers are used once");
    }

    pub(crate) fn remove(&self, number: u32) {
        self.opened.forget(number);
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

    /// Sets the bytes written in one of these files.
    pub(crate) fn set_recorded(&self, file: &ValueFile, bytes: u64) {
        let before = file.recorded.swap(bytes, Ordering::AcqRel);
        // If the file became shorter, the difference wraps around, and so does the sum: modulo 2^64 it is right.
        self.recorded.fetch_add(bytes.wrapping_sub(before), Ordering::AcqRel);
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.load(Ordering::Acquire)
    }

    /// Numbers of the files in which nothing is referenced, without the `excepted` ones.
    pub(crate) fn without_references(&self, excepted: impl Fn(u32) -> bool) -> Vec<u32> {
        let files = self.all();
        files
            .iter()
            .filter(|file| file.live() == 0 && !excepted(file.number))
            .map(|file| file.number)
            .collect()
    }

    /// Checks the sums over all files. Nothing may be retained, released or written meanwhile.
    pub(crate) fn check_all(&self) {
        let files = self.all();
        let live: u64 = files.iter().map(|file| file.live()).sum();
        assert!(live == self.live_bytes(), "{live} bytes are live, {} are counted", self.live_bytes());
        let recorded: u64 = files.iter().map(|file| file.recorded()).sum();
        let counted = self.recorded_bytes();
        assert!(recorded == counted, "{recorded} bytes are recorded, {counted} are counted");
    }

    /// Counts `references` to values of so many bytes together in a file. An empty value needs no file, neither here
    /// nor when it is read.
    pub(crate) fn retain(&self, number: u32, references: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let file = self.get(number).unwrap_or_else(|| {
            let mut files = self.files.write();
            files.entry(number).or_insert_with(|| Arc::new(ValueFile::new(number, None))).clone()
        });
        file.referenced.store(true, Ordering::Release);
        file.references.fetch_add(references, Ordering::AcqRel);
        file.live.fetch_add(bytes, Ordering::AcqRel);
        self.live.fetch_add(bytes, Ordering::AcqRel);
    }

    /// From now on these references are the only ones: those counted before are gone. Nothing may be retained or
    /// released meanwhile.
    pub(crate) fn replace_references(&self, counts: &ReferenceCounts) {
        for file in self.all() {
            file.references.store(0, Ordering::Release);
            file.live.store(0, Ordering::Release);
        }
        self.live.store(0, Ordering::Release);
        for (file, (references, bytes)) in &counts.by_file {
            self.retain(*file, *references, *bytes);
        }
    }

    pub(crate) fn release(&self, address: u64, len: u32) {
        if len == 0 {
            return;
        }
        let file = self.get(file_of(address)).expect("a released value was retained, so its file is known");
        let before = file.live.fetch_sub(u64::from(len), Ordering::AcqRel);
        assert!(before >= u64::from(len), "more was released in file {:08x} than retained", file.number);
        file.references.fetch_sub(1, Ordering::AcqRel);
        self.live.fetch_sub(u64::from(len), Ordering::AcqRel);
    }

    /// The handle of a file. Opens it if necessary, and closes the one that was used longest ago if there are too many.
    /// No lock is held during I/O: the owner reads paths, and must not wait for a disk.
    pub(crate) fn open(&self, file: &ValueFile) -> io::Result<Arc<dyn File>> {
        let stamp = self.opened.stamp();
        file.last_use.fetch_max(stamp, Ordering::Relaxed);
        if let Some(handle) = file.handle() {
            return Ok(handle);
        }
        let path = file.path().ok_or(io::ErrorKind::NotFound)?;
        let handle = self.open_path(&path)?;
        let mut location = file.location.write();
        // The file may have moved in the meantime. The handle of its old name stays readable for this call.
        if location.path.as_ref() == Some(&path) && location.handle.is_none() {
            location.handle = Some(handle.clone());
            drop(location);
            self.note_opened(file);
        }
        Ok(handle)
    }

    /// Opens a path. If the process may open no more files, handles that are only kept for later are closed first.
    fn open_path(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        match self.disk.open(path) {
            Err(error) if is_out_of_descriptors(&error) && self.close_older_half() => self.disk.open(path),
            other => other,
        }
    }

    /// Counts an open handle and closes the one that was used longest ago if there are too many.
    pub(crate) fn note_opened(&self, file: &ValueFile) {
        let stamp = self.opened.stamp();
        file.last_use.fetch_max(stamp, Ordering::Relaxed);
        if let Some(oldest) = self.opened.opened(file.number, stamp, |number| self.last_use(number)) {
            self.close(oldest);
        }
    }

    /// Closes half of the handles, those that were used longest ago. Returns whether there were any.
    pub(crate) fn close_older_half(&self) -> bool {
        let closing = self.opened.take_older_half(|number| self.last_use(number));
        closing.iter().for_each(|number| self.close(*number));
        !closing.is_empty()
    }

    fn close(&self, number: u32) {
        let handle = self.get(number).and_then(|file| file.location.write().handle.take());
        drop(handle);
    }

    fn last_use(&self, number: u32) -> u64 {
        self.get(number).map_or(0, |file| file.last_use.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    //! The sums over all files equal what the files hold.
    use super::*;
    use crate::disk::MemDisk;

    fn sum(files: &ValueFiles) -> u64 {
        files.all().iter().map(|file| file.recorded()).sum()
    }

    #[test]
    fn the_sum_of_recorded_bytes_follows_each_file() {
        let files = ValueFiles::new(Arc::new(MemDisk::new()), 4);
        let found = files.insert(1, Path::new("data/00000001.dat"));
        files.set_recorded(&found, 5_000);
        let active = Arc::new(ValueFile::new(2, None));
        files.add(active.clone());
        files.set_recorded(&active, 100);
        files.set_recorded(&active, 164);
        assert_eq!((files.recorded_bytes(), sum(&files)), (5_164, 5_164));
        files.set_recorded(&found, 4_000);
        assert_eq!((files.recorded_bytes(), sum(&files)), (4_164, 4_164), "a file turned out shorter");
        files.remove(1);
        files.remove(1);
        assert_eq!((files.recorded_bytes(), sum(&files)), (164, 164), "a file is removed once");
        files.remove(2);
        assert_eq!(files.recorded_bytes(), 0);
    }

    #[test]
    fn a_file_known_by_its_references_alone_holds_nothing_until_it_is_found() {
        let files = ValueFiles::new(Arc::new(MemDisk::new()), 4);
        files.retain(7, 1, 300);
        assert_eq!(files.recorded_bytes(), 0);
        let found = files.insert(7, Path::new("wal/00000007.seg"));
        files.set_recorded(&found, 900);
        assert_eq!((files.live_bytes(), files.recorded_bytes()), (300, 900));
    }
}
