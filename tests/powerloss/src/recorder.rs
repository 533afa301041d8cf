//! A disk that records the operations on it.
//!
//! It performs one operation at a time, whatever thread calls it. So the recorded order is the order on the disk, and a
//! sync covers everything before it. Reads are not recorded.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use log::{Disk, File, LockError, LockGuard, RealDisk};
use parking_lot::Mutex;

use crate::setup::DATA_DIR;

/// One operation that a disk performed. Paths begin with `DATA_DIR`, files are named by numbers.
#[derive(Debug, Clone)]
pub enum DiskOperation {
    /// A directory was made, durably.
    CreateDirectory(PathBuf),
    /// A file was made and opened.
    Create(u64, PathBuf),
    /// A file was opened.
    Open(u64, PathBuf),
    /// The last use of an open file.
    Close(u64),
    /// Bytes were written at an offset.
    Write(u64, u64, Bytes),
    /// A file was made durable.
    Sync(u64),
    /// A file was lengthened, at least, to so many bytes.
    Allocate(u64, u64),
    /// A file was given a length.
    SetLength(u64, u64),
    /// A file got another name.
    Rename(PathBuf, PathBuf),
    /// A name was removed.
    Remove(PathBuf),
    /// The names of a directory were made durable.
    SyncDirectory(PathBuf),
}

impl DiskOperation {
    /// Whether what a power loss leaves may differ before and after it.
    pub fn is_change(&self) -> bool {
        !matches!(self, DiskOperation::Open(..) | DiskOperation::Close(_))
    }
}

/// A real directory and what was done to it.
#[derive(Clone)]
pub struct Recorder {
    root: PathBuf,
    record: Arc<Mutex<OperationLog>>,
}

#[derive(Default)]
struct OperationLog {
    operations: Vec<DiskOperation>,
    next_file: u64,
    /// Changes that still succeed; then the process counts as killed. `None`: all.
    left: Option<u64>,
}

struct RecordedFile {
    inner: Arc<dyn File>,
    number: u64,
    record: Arc<Mutex<OperationLog>>,
}

impl Recorder {
    /// Records what happens in a directory that is empty now.
    pub fn new(root: impl Into<PathBuf>) -> Recorder {
        Recorder { root: root.into(), record: Arc::default() }
    }

    /// Number of operations so far.
    pub fn position(&self) -> usize {
        self.record.lock().operations.len()
    }

    /// Refuses all changes after this many more, as if the process were killed there; `None` allows all again.
    pub fn kill_after(&self, changes: Option<u64>) {
        self.record.lock().left = changes;
    }

    /// Whether a change was refused, or the next one will be.
    pub fn is_killed(&self) -> bool {
        self.record.lock().left == Some(0)
    }

    /// All operations.
    pub fn into_operations(self) -> Vec<DiskOperation> {
        std::mem::take(&mut self.record.lock().operations)
    }

    fn shown(&self, path: &Path) -> PathBuf {
        Path::new(DATA_DIR).join(path.strip_prefix(&self.root).unwrap_or(path))
    }

    /// Gives a file a number of its own.
    fn number(&self, record: &mut OperationLog, file: Arc<dyn File>) -> RecordedFile {
        let number = record.next_file;
        record.next_file += 1;
        RecordedFile { inner: file, number, record: self.record.clone() }
    }
}

/// Performs a change and records it, unless the process counts as killed.
fn perform(
    record: &Mutex<OperationLog>,
    operation: impl FnOnce() -> DiskOperation,
    act: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut record = record.lock();
    spend(&mut record)?;
    act()?;
    record.operations.push(operation());
    Ok(())
}

fn spend(record: &mut OperationLog) -> io::Result<()> {
    match &mut record.left {
        None => Ok(()),
        Some(0) => Err(io::Error::other("the process was killed")),
        Some(left) => {
            *left -= 1;
            Ok(())
        }
    }
}

impl Disk for Recorder {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut record = self.record.lock();
        let file = self.number(&mut record, RealDisk.open(path)?);
        record.operations.push(DiskOperation::Open(file.number, self.shown(path)));
        Ok(Arc::new(file))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut record = self.record.lock();
        spend(&mut record)?;
        let file = self.number(&mut record, RealDisk.create_new(path)?);
        record.operations.push(DiskOperation::Create(file.number, self.shown(path)));
        Ok(Arc::new(file))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealDisk.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let shown = || DiskOperation::Rename(self.shown(from), self.shown(to));
        perform(&self.record, shown, || RealDisk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        perform(&self.record, || DiskOperation::Remove(self.shown(path)), || RealDisk.remove(path))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let shown = || DiskOperation::CreateDirectory(self.shown(dir));
        perform(&self.record, shown, || RealDisk.create_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        perform(&self.record, || DiskOperation::SyncDirectory(self.shown(dir)), || RealDisk.sync_dir(dir))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        RealDisk.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(dir)
    }
}

impl File for RecordedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        self.inner.next_written(offset)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let bytes = || {
            let all: Vec<&[u8]> = buffers.iter().map(|buffer| &**buffer).collect();
            DiskOperation::Write(self.number, offset, all.concat().into())
        };
        perform(&self.record, bytes, || self.inner.write_at(buffers, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        perform(&self.record, || DiskOperation::Sync(self.number), || self.inner.sync_data())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        perform(&self.record, || DiskOperation::Allocate(self.number, length), || self.inner.allocate(length))
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        perform(
            &self.record,
            || DiskOperation::SetLength(self.number, length),
            || self.inner.set_length(length),
        )
    }
}

impl Drop for RecordedFile {
    fn drop(&mut self) {
        self.record.lock().operations.push(DiskOperation::Close(self.number));
    }
}
