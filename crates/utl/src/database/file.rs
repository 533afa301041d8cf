//! A database file on disk: locked against a server that uses it, and its SHA-256 checked.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dbfile::{DbFile, ReadAt};
use indicatif::ProgressBar;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::line::{CommandLine, Refusal, system_error};

/// Bytes that are summed at once.
const SUM_STEP_BYTES: usize = 1 << 20;

/// A database has whole sectors, so what is longer by a checksum has one behind it.
const SECTOR_BYTES: u64 = 512;

/// Bytes of a SHA-256.
const SUM_BYTES: u64 = 32;

/// Time between two attempts to lock a file.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A file that is read wherever its pages lie.
pub(crate) struct LockedFile {
    file: File,
    path: PathBuf,
}

impl LockedFile {
    /// Opens a file to read it, and takes a lock on it that a running etcd does not grant.
    ///
    /// # Errors
    /// There is no such file, or another process still had locked it after `--timeout`.
    pub(crate) fn open(line: &CommandLine, path: &Path) -> Result<LockedFile, Refusal> {
        LockedFile::open_with(line, path, FlockOperation::NonBlockingLockShared)
    }

    /// As [`open`](Self::open), for a file that is to be replaced: no other process reads it meanwhile.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_alone(line: &CommandLine, path: &Path) -> Result<LockedFile, Refusal> {
        LockedFile::open_with(line, path, FlockOperation::NonBlockingLockExclusive)
    }

    fn open_with(line: &CommandLine, path: &Path, lock: FlockOperation) -> Result<LockedFile, Refusal> {
        let metadata = std::fs::metadata(path).map_err(|error| system_error("stat", path, &error))?;
        if !metadata.is_file() {
            return Err(Refusal::error(format!("{} is not a file", path.display())));
        }
        let file = File::open(path).map_err(|error| system_error("open", path, &error))?;
        let locked = LockedFile { file, path: path.to_owned() };
        locked.lock(lock, line.values.duration("timeout"))?;
        Ok(locked)
    }

    /// Takes a lock within a time; without a limit if that is 0.
    fn lock(&self, operation: FlockOperation, timeout: Duration) -> Result<(), Refusal> {
        let began = Instant::now();
        loop {
            match flock(&self.file, operation) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(system_error("lock", &self.path, &error.into())),
            }
            if !timeout.is_zero() && began.elapsed() >= timeout {
                return Err(Refusal::error(format!(
                    "timeout: another process uses {}: stop that server, or name a copy of the file",
                    self.path.display()
                )));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The database in it.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn database(&self) -> Result<DbFile<&LockedFile>, Refusal> {
        DbFile::open(self).map_err(|error| self.refuse(&error))
    }

    /// An error of reading its pages and records, with its name.
    pub(crate) fn refuse(&self, error: &dbfile::ReadError) -> Refusal {
        Refusal::error(format!("{}: {error}", self.path.display()))
    }

    /// Checks the SHA-256 behind a snapshot.
    ///
    /// # Errors
    /// It is missing, or that of other bytes.
    pub(crate) fn check_sum(&self, bar: &ProgressBar) -> Result<(), Refusal> {
        let name = self.path.display();
        let length = self.size().map_err(|error| system_error("stat", &self.path, &error))?;
        if length % SECTOR_BYTES != SUM_BYTES {
            return Err(Refusal::error(format!(
                "snapshot missing hash but --skip-hash-check=false: {name} is cut off, or no snapshot; a copy of a \
                 data directory's file needs --skip-hash-check"
            )));
        }
        let (mut sum, mut buffer) = (Sha256::new(), vec![0; SUM_STEP_BYTES]);
        let mut offset = 0;
        while offset < length - SUM_BYTES {
            let step = (length - SUM_BYTES - offset).min(SUM_STEP_BYTES as u64);
            let bytes = &mut buffer[..step as usize];
            self.read_at(offset, bytes).map_err(|error| system_error("read", &self.path, &error))?;
            sum.update(&*bytes);
            offset += step;
            bar.set_position(offset);
        }
        let mut expected = [0; SUM_BYTES as usize];
        self.read_at(offset, &mut expected).map_err(|error| system_error("read", &self.path, &error))?;
        if sum.finalize().as_slice() != expected {
            return Err(Refusal::error(format!(
                "the sha256 of {name} is not the one behind it: the file is damaged; take another copy of the snapshot"
            )));
        }
        Ok(())
    }
}

impl ReadAt for &LockedFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
}
