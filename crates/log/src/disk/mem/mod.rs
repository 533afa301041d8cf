//! A disk in memory that behaves as badly as a real one may.
//!
//! Every write stays *pending* until its file is synced, every change of a name until its directory is.
//! [`MemDisk::crash`] makes the disk as a machine finds it after losing power: of the pending writes of a
//! file each may be there, be missing or be torn; of the pending name changes of a directory a prefix is
//! there (as journaling file systems keep them). Faults are set beforehand by operation and count, so a run
//! is repeatable to the byte.

mod inode;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Disk, File, LockError, LockGuard};
use inode::Inode;

/// What an injected fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `read_at`.
    Read,
    /// `write_at`, `set_length`.
    Write,
    /// `sync_data`, `sync_dir`.
    Sync,
    /// `allocate`.
    Allocate,
}

/// A fault set beforehand: after `after` more operations of its sort succeed, the next one fails.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// What fails.
    pub operation: Operation,
    /// How many more of these succeed first.
    pub after: u64,
    /// The error it fails with.
    pub kind: io::ErrorKind,
}

/// A pending change when power is lost. The answer is how much of it is found afterwards, from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    /// So many bytes that were written in one go.
    Bytes(u64),
    /// Another length of a file: 0 or 1.
    Length,
    /// So many changes of the names in one directory.
    Names(u64),
}

/// A deterministic disk in memory. Clones are handles to the same disk; [`MemDisk::fork`] copies it.
#[derive(Clone, Default)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    directories: BTreeSet<PathBuf>,
    unsynced_names: BTreeMap<PathBuf, Vec<NameChange>>,
    locks: BTreeSet<PathBuf>,
    faults: Vec<Fault>,
    /// Operations that changed something, ever.
    changes: u64,
    /// From this count of changes on, everything fails.
    stop_at: Option<u64>,
    capacity: Option<u64>,
    next_inode: u64,
}

#[derive(Clone)]
enum NameChange {
    Created { path: PathBuf },
    Removed { path: PathBuf, inode: u64 },
    Renamed { from: PathBuf, to: PathBuf, replaced: Option<u64> },
}

struct MemFile {
    state: Arc<Mutex<State>>,
    inode: u64,
    /// The name it was opened by, which it usually still has when it is closed.
    opened_as: PathBuf,
}

impl MemFile {
    fn open(disk: &MemDisk, state: &mut State, inode: u64, path: &Path) -> Arc<dyn File> {
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
    state: Arc<Mutex<State>>,
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
        let fork = State {
            inodes,
            names: state.names.clone(),
            directories: state.directories.clone(),
            unsynced_names: state.unsynced_names.clone(),
            capacity: state.capacity,
            next_inode: state.next_inode,
            ..State::default()
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

    /// Sets a fault.
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

    /// Limits the sum of all files' lengths; `None` lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
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

impl State {
    fn strike(&mut self, operation: Operation) -> io::Result<()> {
        if self.stop_at.is_some_and(|stop| self.changes >= stop) {
            return Err(io::Error::other("the disk has stopped"));
        }
        if let Some(at) = self.faults.iter().position(|fault| fault.operation == operation) {
            if self.faults[at].after == 0 {
                return Err(self.faults.remove(at).kind.into());
            }
            self.faults[at].after -= 1;
        }
        if operation != Operation::Read {
            self.changes += 1;
        }
        Ok(())
    }

    fn change_name(&mut self, change: NameChange, dir: &Path) {
        self.unsynced_names.entry(dir.to_owned()).or_default().push(change);
    }

    fn undo(&mut self, change: &NameChange) {
        match change {
            NameChange::Created { path } => {
                self.names.remove(path);
            }
            NameChange::Removed { path, inode } => {
                self.names.insert(path.clone(), *inode);
            }
            NameChange::Renamed { from, to, replaced } => {
                if let Some(inode) = self.names.remove(to) {
                    self.names.insert(from.clone(), inode);
                }
                if let Some(inode) = replaced {
                    self.names.insert(to.clone(), *inode);
                }
            }
        }
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|inode| self.inodes[inode].length).sum()
    }

    fn reserve(&self, inode: u64, length: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let growth = length.saturating_sub(self.inodes[&inode].length);
        match growth > 0 && self.used_bytes() + growth > capacity {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    /// Drops the contents of a file that has neither a name nor a handle, and cannot get its name back.
    fn forget(&mut self, inode: u64) {
        let named = self.names.values().any(|named| *named == inode);
        let may_return = self.unsynced_names.values().flatten().any(|change| match change {
            NameChange::Removed { inode: gone, .. } => *gone == inode,
            NameChange::Renamed { replaced, .. } => *replaced == Some(inode),
            NameChange::Created { .. } => false,
        });
        if !named && !may_return && self.inodes.get(&inode).is_some_and(|inode| inode.handles == 0) {
            self.inodes.remove(&inode);
        }
    }

    fn inode(&mut self, number: u64) -> &mut Inode {
        self.inodes.get_mut(&number).expect("an open file has its inode")
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

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        Ok(state.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used_bytes())))
    }
}

impl File for MemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.strike(Operation::Read)?;
        Ok(state.inode(self.inode).read(buffer, offset))
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
