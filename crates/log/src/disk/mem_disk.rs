//! A disk in memory that may lose and damage data in every way a real one may.
//!
//! A write is *pending* until its file is synced; a change of a name is pending until its directory is synced.
//! [`MemDisk::crash`] returns the disk as a machine finds it after a power loss: each pending write of a file is
//! there, missing or torn; of the pending name changes of a directory a prefix is there (as journaling file systems
//! keep them). Faults are injected in advance by operation and count, so every run is repeatable to the byte.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::interface::{Disk, File, LockError, LockGuard};
use super::mem_inode::{Inode, Unsynced};
use super::mem_state::{Fault, MemState, NameChange, Operation};

/// A deterministic disk in memory. Clones are handles to the same disk; [`MemDisk::fork`] copies it.
#[derive(Clone, Default)]
pub struct MemDisk {
    state: Arc<Mutex<MemState>>,
}

struct MemFile {
    state: Arc<Mutex<MemState>>,
    inode: u64,
    /// The name it was opened by, which it usually still has when it is closed.
    opened_as: PathBuf,
}

impl MemFile {
    fn open(disk: &MemDisk, state: &mut MemState, inode: u64, path: &Path) -> Arc<dyn File> {
        state.inode(inode).handles += 1;
        Arc::new(MemFile { state: disk.state.clone(), inode, opened_as: path.to_owned() })
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.inode(self.inode).handles -= 1;
        // Looking for another name takes long when there are thousands.
        if state.names.get(&self.opened_as) != Some(&self.inode) {
            state.forget(self.inode);
        }
    }
}

struct MemLock {
    state: Arc<Mutex<MemState>>,
    path: PathBuf,
}

impl LockGuard for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.state.lock().locks.remove(&self.path);
    }
}

impl MemDisk {
    /// An empty disk without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy as another process would find it after this one was killed: nothing is lost, locks are free,
    /// faults are gone. Pending writes stay pending.
    pub fn fork(&self) -> MemDisk {
        let state = self.state.lock();
        let mut inodes = state.inodes.clone();
        inodes.values_mut().for_each(|inode| inode.handles = 0);
        let fork = MemState {
            inodes,
            names: state.names.clone(),
            directories: state.directories.clone(),
            unsynced_names: state.unsynced_names.clone(),
            capacity: state.capacity,
            mounted: state.mounted.clone(),
            next_inode: state.next_inode,
            ..MemState::default()
        };
        MemDisk { state: Arc::new(Mutex::new(fork)) }
    }

    /// A copy as a machine finds it after losing power now. `choose(n)` picks a number below `n` and decides
    /// what becomes of each pending change: for a write 0 = kept, 1 = lost, 2 = torn at a chosen byte.
    pub fn crash(&self, choose: &mut dyn FnMut(u64) -> u64) -> MemDisk {
        self.lose_power(&mut |unsynced| match unsynced {
            Unsynced::Bytes(bytes) => match choose(3) {
                0 => bytes,
                1 => 0,
                _ => choose(bytes + 1),
            },
            Unsynced::Length => u64::from(choose(3) == 0),
            Unsynced::Names(changes) => choose(changes + 1),
        })
    }

    /// A copy as a machine finds it after losing power now. `survives` is asked about every pending change, file
    /// after file and in each in the order they were made, then about the names of each directory.
    pub fn lose_power(&self, survives: &mut dyn FnMut(Unsynced) -> u64) -> MemDisk {
        let disk = self.fork();
        {
            let mut state = disk.state.lock();
            for inode in state.inodes.values_mut() {
                inode.crash(survives);
            }
            let changes = std::mem::take(&mut state.unsynced_names);
            for list in changes.into_values() {
                let kept = survives(Unsynced::Names(list.len() as u64)).min(list.len() as u64) as usize;
                for change in list[kept..].iter().rev() {
                    state.undo(change);
                }
            }
        }
        disk
    }

    /// Makes a later operation fail.
    pub fn inject(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    /// Makes every operation fail after this many more changes (writes, syncs, names), as if power were lost.
    pub fn stop_after(&self, changes: u64) {
        let mut state = self.state.lock();
        state.stop_at = Some(state.changes + changes);
    }

    /// How many changes (writes, syncs, names) this disk has seen.
    pub fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// How many bytes were read from this disk.
    pub fn bytes_read(&self) -> u64 {
        self.state.lock().bytes_read
    }

    /// Limits the sum of all files' lengths; `None` lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// Makes a directory a file system of its own, and limits the sum of the lengths of the files below it. They do not
    /// count elsewhere.
    pub fn set_capacity_of(&self, dir: &Path, bytes: u64) {
        self.state.lock().mounted.insert(dir.to_owned(), bytes);
    }

    /// Limits the files that are open at once; past it opening and creating fail with `EMFILE`. `None` lifts the limit.
    pub fn set_max_open(&self, files: Option<u64>) {
        self.state.lock().max_open = files;
    }

    /// Flips one bit of a file, durably, as failing media do.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let mut state = self.state.lock();
        let number = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let inode = state.inodes.get_mut(&number).expect("every name has its file");
        let mut byte = [0];
        inode.read(&mut byte, offset);
        inode.put(offset, &[byte[0] ^ (1 << (bit & 7))]);
        Ok(())
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl Disk for MemDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        state.strike(Operation::Read)?;
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        state.reserve_handle()?;
        Ok(MemFile::open(self, &mut state, inode, path))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        state.strike(Operation::Write)?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !state.directories.contains(parent(path)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.reserve_handle()?;
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Inode::default());
        state.names.insert(path.to_owned(), inode);
        state.change_name(NameChange::Created { path: path.to_owned() }, parent(path));
        Ok(MemFile::open(self, &mut state, inode, path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state.lock();
        state.strike(Operation::Read)?;
        if !state.directories.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.names.keys().filter(|path| parent(path) == dir);
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.state.lock();
        state.strike(Operation::Read)?;
        Ok(state.names.contains_key(path) || state.directories.contains(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.strike(Operation::Write)?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        let replaced = state.names.insert(to.to_owned(), inode);
        let change = NameChange::Renamed { from: from.to_owned(), to: to.to_owned(), replaced };
        state.change_name(change, parent(to));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.strike(Operation::Write)?;
        let inode = state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.change_name(NameChange::Removed { path: path.to_owned(), inode }, parent(path));
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.strike(Operation::Write)?;
        state.directories.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.strike(Operation::Sync)?;
        let changes = state.unsynced_names.remove(dir).unwrap_or_default();
        for change in changes {
            match change {
                NameChange::Removed { inode, .. } => state.forget(inode),
                NameChange::Renamed { replaced: Some(inode), .. } => state.forget(inode),
                NameChange::Renamed { replaced: None, .. } | NameChange::Created { .. } => {}
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        let mut state = self.state.lock();
        state.strike(Operation::Read)?;
        if !state.locks.insert(path.to_owned()) {
            return Err(LockError::Held("another owner".to_owned()));
        }
        Ok(Box::new(MemLock { state: self.state.clone(), path: path.to_owned() }))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        Ok(self.state.lock().free_bytes(dir).unwrap_or(u64::MAX))
    }
}

impl File for MemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.strike(Operation::Read)?;
        let count = state.inode(self.inode).read(buffer, offset);
        state.bytes_read += count as u64;
        Ok(count)
    }

    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(self.state.lock().inode(self.inode).next_written(offset))
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let bytes = buffers.iter().map(|buffer| &**buffer).collect::<Vec<&[u8]>>().concat();
        let mut state = self.state.lock();
        state.strike(Operation::Write)?;
        state.reserve(self.inode, offset + bytes.len() as u64)?;
        if !bytes.is_empty() {
            state.inode(self.inode).write(offset, bytes);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.strike(Operation::Sync)?;
        state.inode(self.inode).pending.clear();
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.strike(Operation::Allocate)?;
        state.reserve(self.inode, length)?;
        let inode = state.inode(self.inode);
        if inode.length < length {
            inode.resize(length);
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.state.lock().inode(self.inode).length)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.strike(Operation::Write)?;
        state.reserve(self.inode, length)?;
        state.inode(self.inode).resize(length);
        Ok(())
    }
}
