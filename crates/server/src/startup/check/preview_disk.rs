//! A disk whose writes stay in memory: files are read from the real one and never opened for writing. A file that is
//! written, cut or lengthened is copied into memory first, so a preview costs about one segment of memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log::{Disk, File, LockError, LockGuard, RealDisk};
use parking_lot::Mutex;

/// The real disk, and what a start would have changed.
#[derive(Default)]
pub(super) struct PreviewDisk {
    changes: Mutex<PreviewedChanges>,
}

#[derive(Default)]
struct PreviewedChanges {
    /// Files that were opened, made or renamed, by their names in the preview.
    files: BTreeMap<PathBuf, Arc<PreviewFile>>,
    /// Names that exist on the real disk alone.
    removed: BTreeSet<PathBuf>,
    directories: BTreeSet<PathBuf>,
}

enum Contents {
    /// Those of the file with this name on the real disk.
    Real(PathBuf),
    Memory(Vec<u8>),
}

struct PreviewFile(Mutex<Contents>);

/// A file that is open. A data directory may have more files than a process may open, so only this holds the real one.
struct PreviewHandle {
    file: Arc<PreviewFile>,
    real: Option<Arc<dyn File>>,
}

impl PreviewHandle {
    fn open(file: Arc<PreviewFile>) -> io::Result<Arc<dyn File>> {
        let real = match &*file.0.lock() {
            Contents::Real(path) => Some(RealDisk.open_to_read(path)?),
            Contents::Memory(_) => None,
        };
        Ok(Arc::new(PreviewHandle { file, real }))
    }

    /// The real file, unless it was changed.
    fn unchanged<'a>(&'a self, contents: &Contents) -> Option<&'a Arc<dyn File>> {
        self.real.as_ref().filter(|_| matches!(contents, Contents::Real(_)))
    }
}

impl Contents {
    /// The contents in memory.
    fn changed(&mut self) -> io::Result<&mut Vec<u8>> {
        if let Contents::Real(path) = self {
            *self = Contents::Memory(fs::read(path)?);
        }
        match self {
            Contents::Memory(bytes) => Ok(bytes),
            Contents::Real(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl File for PreviewHandle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let contents = self.file.0.lock();
        match &*contents {
            Contents::Real(_) => {
                let file = self.unchanged(&contents).ok_or(io::ErrorKind::Unsupported)?;
                file.read_at(buffer, offset)
            }
            Contents::Memory(bytes) => {
                let rest = bytes.get(offset as usize..).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
        }
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut contents = self.file.0.lock();
        let bytes = contents.changed()?;
        let mut at = offset as usize;
        for buffer in buffers {
            let end = at + buffer.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(buffer);
            at = end;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        if length <= self.length()? { Ok(()) } else { self.set_length(length) }
    }

    fn length(&self) -> io::Result<u64> {
        match &*self.file.0.lock() {
            Contents::Real(path) => Ok(fs::metadata(path)?.len()),
            Contents::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.0.lock().changed()?.resize(length as usize, 0);
        Ok(())
    }
}

impl Disk for PreviewDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut changes = self.changes.lock();
        if let Some(file) = changes.files.get(path) {
            return PreviewHandle::open(file.clone());
        }
        if changes.removed.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = Arc::new(PreviewFile(Mutex::new(Contents::Real(path.to_owned()))));
        let handle = PreviewHandle::open(file.clone())?;
        changes.files.insert(path.to_owned(), file);
        Ok(handle)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        if self.exists(path)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(PreviewFile(Mutex::new(Contents::Memory(Vec::new()))));
        self.changes.lock().files.insert(path.to_owned(), file.clone());
        PreviewHandle::open(file)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let changes = self.changes.lock();
        let real = match RealDisk.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && changes.directories.contains(dir) => {
                Vec::new()
            }
            real => real?,
        };
        let made = changes.files.keys().filter(|path| path.parent() == Some(dir));
        let made = made.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let left = real.into_iter().filter(|name| !changes.removed.contains(&dir.join(name)));
        Ok(made.chain(left).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let changes = self.changes.lock();
        if changes.files.contains_key(path) || changes.directories.contains(path) {
            return Ok(true);
        }
        Ok(!changes.removed.contains(path) && RealDisk.exists(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.open(from)?;
        let mut changes = self.changes.lock();
        if let Some(file) = changes.files.remove(from) {
            changes.files.insert(to.to_owned(), file);
        }
        changes.removed.insert(from.to_owned());
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut changes = self.changes.lock();
        changes.files.remove(path);
        changes.removed.insert(path.to_owned());
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.changes.lock().directories.insert(dir.to_owned());
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        // Beside other previews; a member does not start meanwhile.
        RealDisk.lock_to_read(path, true)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(dir)
    }
}
