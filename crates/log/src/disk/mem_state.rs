//! The state of a [`MemDisk`](super::MemDisk): names, contents, pending changes, injected faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::mem_inode::Inode;

/// Which operations a fault makes fail.
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

/// A fault injected in advance: after `after` more such operations succeed, the next one fails.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// What fails.
    pub operation: Operation,
    /// How many more of these succeed first.
    pub after: u64,
    /// The error it fails with.
    pub kind: io::ErrorKind,
}

#[derive(Default)]
pub(super) struct MemState {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) names: BTreeMap<PathBuf, u64>,
    pub(super) directories: BTreeSet<PathBuf>,
    pub(super) unsynced_names: BTreeMap<PathBuf, Vec<NameChange>>,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) faults: Vec<Fault>,
    /// Operations that changed something, ever.
    pub(super) changes: u64,
    /// Bytes that were read, ever.
    pub(super) bytes_read: u64,
    /// From this count of changes on, everything fails.
    pub(super) stop_at: Option<u64>,
    pub(super) capacity: Option<u64>,
    /// Directories that are file systems of their own, and the capacity of each.
    pub(super) mounted: BTreeMap<PathBuf, u64>,
    /// Most files that may be open at once.
    pub(super) max_open: Option<u64>,
    pub(super) next_inode: u64,
}

#[derive(Clone)]
pub(super) enum NameChange {
    Created { path: PathBuf },
    Removed { path: PathBuf, inode: u64 },
    Renamed { from: PathBuf, to: PathBuf, replaced: Option<u64> },
}

impl MemState {
    pub(super) fn strike(&mut self, operation: Operation) -> io::Result<()> {
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

    pub(super) fn change_name(&mut self, change: NameChange, dir: &Path) {
        self.unsynced_names.entry(dir.to_owned()).or_default().push(change);
    }

    pub(super) fn undo(&mut self, change: &NameChange) {
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

    /// Fails as a process does that has all the descriptors it may have.
    pub(super) fn reserve_handle(&self) -> io::Result<()> {
        let open = || self.inodes.values().map(|inode| inode.handles).sum::<u64>();
        match self.max_open.is_some_and(|most| open() >= most) {
            true => Err(rustix::io::Errno::MFILE.into()),
            false => Ok(()),
        }
    }

    /// Bytes that are free on the file system of this path; `None` if it is not limited.
    pub(super) fn free_bytes(&self, path: &Path) -> Option<u64> {
        let mount = self.mount(path);
        let capacity = mount.map_or(self.capacity, |mount| self.mounted.get(mount).copied())?;
        let here = self.names.iter().filter(|(path, _)| self.mount(path) == mount);
        Some(capacity.saturating_sub(here.map(|(_, inode)| self.inodes[inode].length).sum()))
    }

    fn mount<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.ancestors().find(|dir| self.mounted.contains_key(*dir))
    }

    pub(super) fn reserve(&self, inode: u64, length: u64) -> io::Result<()> {
        let growth = length.saturating_sub(self.inodes[&inode].length);
        if growth == 0 || (self.capacity.is_none() && self.mounted.is_empty()) {
            return Ok(());
        }
        let path = self.names.iter().find_map(|(path, named)| (*named == inode).then_some(path.as_path()));
        match self.free_bytes(path.unwrap_or(Path::new(""))).is_some_and(|free| growth > free) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    /// Drops the contents of a file that has neither a name nor a handle, and cannot get its name back.
    pub(super) fn forget(&mut self, inode: u64) {
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

    pub(super) fn inode(&mut self, number: u64) -> &mut Inode {
        self.inodes.get_mut(&number).expect("an open file has its inode")
    }
}
