//! The two traits through which the log does all of its I/O.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

/// A file system: the operations that the log uses.
pub trait Disk: Send + Sync {
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Creates a file for reading and writing; an existing one is an error (`AlreadyExists`).
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// The names of the files in a directory, sorted. Directories are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Whether a file or directory of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Renames a file within its directory, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory and its parents, durably.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the exclusive lock on a file, creating it; held until the guard is dropped.
    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError>;

    /// Free bytes of the file system that holds a directory.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// An open file.
pub trait File: Send + Sync {
    /// Reads at an offset until the buffer is full or the file ends; returns the bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The first offset from `offset` on where something may have been written; what lies before it reads as zeros.
    /// `None` if that is so up to the end of the file.
    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Writes all buffers, one after the other, starting at an offset.
    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes the contents durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Allocates blocks up to this length and lengthens the file to it; never shortens.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Shortens or lengthens the file.
    fn set_length(&self, length: u64) -> io::Result<()>;
}

/// Holds a directory lock for as long as it lives.
pub trait LockGuard: Send + Sync {}

/// Why a lock was not granted.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it; the text names the holder if it is known.
    Held(String),
    /// The lock file could not be opened, locked or written.
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        LockError::Io(error)
    }
}
