//! A member's disk: the log's disk in memory, which loses power, fills up and fails, and a wrapper that carries out the
//! defects that concern disks.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::{Disk, File, LockError, LockGuard, MemDisk};

use crate::defects::Defect;
use crate::defects::records;

/// Bytes of the header of a data segment.
const DATA_HEADER_BYTES: usize = 64;

/// Error text of a disk whose machine is losing power.
pub(crate) const DISK_STOPPED: &str = "the disk has stopped";

/// What a defect does to a member's disk; nothing without one.
#[derive(Default)]
pub(crate) struct Tampering {
    /// The defect, if this member has it.
    pub(crate) defect: Option<Defect>,
    /// The salt of the directory's records.
    pub(crate) salt: u32,
    /// Values are being relocated.
    pub(crate) relocating: bool,
    /// Files whose sync was reported and not done.
    unsynced: Vec<Arc<dyn File>>,
}

/// The disk of one machine.
#[derive(Clone)]
pub(crate) struct SimDisk {
    pub(crate) inner: MemDisk,
    tampering: Arc<Mutex<Tampering>>,
    reads: Arc<AtomicU64>,
}

struct SimFile {
    inner: Arc<dyn File>,
    tampering: Arc<Mutex<Tampering>>,
    reads: Arc<AtomicU64>,
    is_segment: bool,
    is_data: bool,
}

fn locked(tampering: &Mutex<Tampering>) -> MutexGuard<'_, Tampering> {
    tampering.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimDisk {
    /// An empty disk.
    pub(crate) fn new(defect: Option<Defect>, salt: u32) -> SimDisk {
        let tampering = Tampering { defect, salt, relocating: false, unsynced: Vec::new() };
        SimDisk { inner: MemDisk::new(), tampering: Arc::new(Mutex::new(tampering)), reads: Arc::default() }
    }

    /// The disk of the same machine with other contents: those that a crash left.
    pub(crate) fn with(&self, inner: MemDisk) -> SimDisk {
        locked(&self.tampering).unsynced.clear();
        SimDisk { inner, ..self.clone() }
    }

    fn wrap(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        // A segment is created under another name, in the same directory.
        let is_within = |name: &str| path.parent().is_some_and(|dir| dir.ends_with(name));
        let (is_segment, is_data) = (is_within("wal"), is_within("member/data"));
        let (tampering, reads) = (self.tampering.clone(), self.reads.clone());
        Arc::new(SimFile { inner: file, tampering, reads, is_segment, is_data })
    }

    /// Notes whether values are being relocated, for the defect that loses some of them.
    pub(crate) fn set_relocating(&self, relocating: bool) {
        locked(&self.tampering).relocating = relocating;
    }

    /// Reads so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Paths of all files of the data directory.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let dirs = ["wal", "data", "checkpoint"].map(|dir| Path::new("/data/member").join(dir));
        let names = dirs.iter().flat_map(|dir| {
            let names = self.inner.list(dir).unwrap_or_default();
            names.into_iter().map(|name| dir.join(name))
        });
        names.collect()
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.inner.open(path)?))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.inner.create_new(path)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match locked(&self.tampering).defect {
            Some(Defect::DirectoryNotSynced) => Ok(()),
            _ => self.inner.sync_dir(dir),
        }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        self.inner.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.free_bytes(dir)
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read_at(buffer, offset)
    }

    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        self.inner.next_written(offset)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let (defect, salt, relocating, unsynced) = {
            let mut tampering = locked(&self.tampering);
            (tampering.defect, tampering.salt, tampering.relocating, std::mem::take(&mut tampering.unsynced))
        };
        unsynced.iter().try_for_each(|file| file.sync_data())?;
        let forget = match defect {
            Some(Defect::VoteNotPersisted) => records::HARD_STATE,
            Some(Defect::HardStateRecycled) => records::OPENING,
            Some(Defect::RelocationDropsVersion) if self.is_data && relocating => {
                let mut bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
                // The values come first, after the header; the end is the footer, which nothing depends on.
                let start = if offset == 0 { DATA_HEADER_BYTES.min(bytes.len()) } else { 0 };
                let end = start + (bytes.len() - start) / 4;
                bytes[start..end].fill(0);
                return self.inner.write_at(&[IoSlice::new(&bytes)], offset);
            }
            _ => return self.inner.write_at(buffers, offset),
        };
        if !self.is_segment {
            return self.inner.write_at(buffers, offset);
        }
        let mut bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        records::forget_votes(&mut bytes, offset, forget, salt);
        self.inner.write_at(&[IoSlice::new(&bytes)], offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut tampering = locked(&self.tampering);
        match tampering.defect {
            Some(Defect::ReplyBeforeSync) if self.is_segment => {
                tampering.unsynced.push(self.inner.clone());
                Ok(())
            }
            Some(Defect::SyncSkipped) if self.is_segment => Ok(()),
            _ => {
                drop(tampering);
                self.inner.sync_data()
            }
        }
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.inner.set_length(length)
    }
}
