//! The real disk: `pread`, `pwritev`, `fdatasync`, `fallocate` and `flock` through rustix.

use std::fs;
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::Errno;

use super::interface::{Disk, File, LockError, LockGuard};

/// Buffers handed to one `pwritev`; Linux takes at most 1,024 (`IOV_MAX`).
const BUFFERS_PER_WRITE: usize = 1024;

/// What is stored is for this process alone: values, and hashes of passwords.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// The operating system's file system.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealDisk;

struct RealFile(fs::File);

impl RealFile {
    /// Turns off access times, which nothing uses: updating them costs a small read a twentieth of its time. Only the
    /// owner of a file may do so; for any other user the flag is refused and the file works as before.
    fn new(file: fs::File) -> RealFile {
        let _ = rustix::fs::fcntl_getfl(&file)
            .and_then(|flags| rustix::fs::fcntl_setfl(&file, flags | OFlags::NOATIME));
        RealFile(file)
    }
}

struct RealLock {
    /// Closing the file gives the lock up; none where there was no file to lock.
    _file: Option<fs::File>,
}

impl LockGuard for RealLock {}

/// For disks over this one that change nothing.
impl RealDisk {
    /// Opens a file for reading alone: it cannot be written through the handle.
    ///
    /// # Errors
    /// When there is no such file, or it may not be read.
    pub fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile::new(fs::File::open(path)?)))
    }

    /// Takes the lock that a member would take, and leaves its file as it is. Without that file there is no member, and
    /// nothing to hold. `is_shared`: others may hold it in this way beside us, but no member may.
    ///
    /// # Errors
    /// [`LockError::Held`] by whom, or the file cannot be read.
    pub fn lock_to_read(&self, path: &Path, is_shared: bool) -> Result<Box<dyn LockGuard>, LockError> {
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Box::new(RealLock { _file: None }));
            }
            file => file?,
        };
        take_lock(&file, is_shared)?;
        Ok(Box::new(RealLock { _file: Some(file) }))
    }
}

/// Locks a file, or says who holds it.
fn take_lock(file: &fs::File, is_shared: bool) -> Result<(), LockError> {
    let operation = match is_shared {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Held(holder(file))),
        Err(error) => Err(LockError::Io(error.into())),
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(RealFile::new(file)))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file =
            fs::OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
        Ok(Arc::new(RealFile::new(file)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in fs::read_dir(dir)? {
            let item = item?;
            if !item.file_type()?.is_dir() {
                names.push(item.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.sync_dir(parent.unwrap_or(Path::new(".")))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the lock file names its holder to the next process that finds it locked"
    )]
    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(path)?;
        let text = format!("{}\n", std::process::id());
        take_lock(&file, false)?;
        // On a full disk even these bytes may not fit. They only tell the next process who holds the lock.
        let _ = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
        Ok(Box::new(RealLock { _file: Some(file) }))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(dir)?;
        // A file system without a size does not say how full it is.
        let is_unknown = stat.f_blocks == 0;
        Ok(if is_unknown { u64::MAX } else { stat.f_bavail.saturating_mul(stat.f_frsize) })
    }
}

/// What the lock file says about its holder: the process id it wrote.
fn holder(file: &fs::File) -> String {
    let mut text = [0; 32];
    let count = file.read_at(&mut text, 0).unwrap_or(0);
    match std::str::from_utf8(&text[..count]).ok().and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(process) => format!("process {process}"),
        None => "another process".to_owned(),
    }
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        // The position of the file moves, which nothing here reads. What is only in the page cache counts as written.
        match rustix::fs::seek(&self.0, SeekFrom::Data(offset)) {
            Ok(written) => Ok(Some(written)),
            Err(Errno::NXIO) => Ok(None),
            // Such a file system does not tell.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(Some(offset)),
            Err(error) => Err(error.into()),
        }
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        for group in buffers.chunks(BUFFERS_PER_WRITE) {
            let mut group: Vec<IoSlice<'_>> = group.to_vec();
            let mut rest = group.as_mut_slice();
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                match rustix::io::pwritev(&self.0, rest, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        offset += count as u64;
                        IoSlice::advance_slices(&mut rest, count);
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        // A signal may interrupt it, such as the timer of a CPU profile.
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, length))
        {
            // A file system without fallocate: lengthen the file instead.
            Err(rustix::io::Errno::OPNOTSUPP) if self.length()? < length => self.0.set_len(length),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}
