//! A disk on which nothing changes: what is written, renamed or removed is ignored.
//!
//! Opening a log cuts off a torn end and removes unfinished files, as every start does. A command that only looks must
//! leave a directory as it found it, so it opens the log over this disk. Files are opened for reading alone. The lock
//! is the real one, which a member would take, but nothing is written into its file; a directory without that file has
//! no member.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log::{Disk, File, LockError, LockGuard, RealDisk};

/// The real disk, without its writes.
#[derive(Default)]
pub(crate) struct ReadOnlyDisk {
    /// A file that is shown with other bytes than it has, to try out what they would change.
    pub(crate) shown: Option<(PathBuf, Vec<u8>)>,
}

/// A file, without its writes.
enum ReadOnlyFile {
    Real(Arc<dyn File>),
    Shown(Vec<u8>),
    /// One that would have been created.
    Absent,
}

impl Disk for ReadOnlyDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(match &self.shown {
            Some((shown, bytes)) if shown == path => ReadOnlyFile::Shown(bytes.clone()),
            _ => ReadOnlyFile::Real(RealDisk.open_to_read(path)?),
        }))
    }

    fn create_new(&self, _: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(ReadOnlyFile::Absent))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealDisk.exists(path)
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        RealDisk.lock_to_read(path, false)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(dir)
    }
}

impl File for ReadOnlyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            ReadOnlyFile::Real(file) => file.read_at(buffer, offset),
            ReadOnlyFile::Shown(bytes) => {
                let rest = bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            ReadOnlyFile::Absent => Ok(0),
        }
    }

    fn write_at(&self, _: &[IoSlice<'_>], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        match self {
            ReadOnlyFile::Real(file) => file.length(),
            ReadOnlyFile::Shown(bytes) => Ok(bytes.len() as u64),
            ReadOnlyFile::Absent => Ok(0),
        }
    }

    fn set_length(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}
