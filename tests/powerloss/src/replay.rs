//! Recorded operations, applied to a disk in memory one at a time.
//!
//! A write is replayed in chunks of the size that a device writes at once, so that a power loss may keep any of them.
//! The deliberate defects are carried out here: operations that a defective member would have left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use log::{Disk, File, MemDisk};

use crate::recorder::DiskOperation;

/// Size of the chunks that a device keeps or loses; a power loss may tear one all the same.
const SECTOR_BYTES: usize = 512;
/// Chunk size of larger writes, which the system writes back by pages.
const PAGE_BYTES: usize = 4096;
/// The longest write that is replayed by sectors.
const MAX_BY_SECTOR: usize = 4 * PAGE_BYTES;

/// A deliberate defect, which must be noticed. It begins after the first quarter of a recording, so that acknowledged
/// data is lost rather than an unfinished beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// Log segments are not synced.
    SegmentsNotSynced,
    /// Directories are not synced.
    NamesNotSynced,
    /// Checkpoints are not synced.
    CheckpointsNotSynced,
    /// Files of relocated values are not synced.
    RelocatedNotSynced,
    /// Requests are answered when they are sent.
    AnsweredAtOnce,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 5] = [
        Defect::SegmentsNotSynced,
        Defect::NamesNotSynced,
        Defect::CheckpointsNotSynced,
        Defect::RelocatedNotSynced,
        Defect::AnsweredAtOnce,
    ];

    /// Whether syncs of files in this directory are left out.
    fn forgets_sync_in(self, directory: &str) -> bool {
        match self {
            Defect::SegmentsNotSynced => directory == "wal",
            Defect::CheckpointsNotSynced => directory == "checkpoint",
            Defect::RelocatedNotSynced => directory == "data",
            Defect::NamesNotSynced | Defect::AnsweredAtOnce => false,
        }
    }
}

/// A disk to which recorded operations are applied.
pub(crate) struct DiskReplay<'r> {
    operations: &'r [DiskOperation],
    next: usize,
    pub(crate) disk: MemDisk,
    files: BTreeMap<u64, Arc<dyn File>>,
    /// Files whose syncs are left out.
    forgotten: BTreeSet<u64>,
    defect: Option<Defect>,
    /// Number of operations before the defect begins.
    sound: usize,
}

impl<'r> DiskReplay<'r> {
    pub(crate) fn new(operations: &'r [DiskOperation], defect: Option<Defect>) -> DiskReplay<'r> {
        let disk = MemDisk::new();
        let (files, forgotten, sound) = (BTreeMap::new(), BTreeSet::new(), operations.len() / 4);
        DiskReplay { operations, next: 0, disk, files, forgotten, defect, sound }
    }

    /// Applies the next operation and returns it; `None` after the last.
    pub(crate) fn step(&mut self) -> io::Result<Option<&'r DiskOperation>> {
        let Some(operation) = self.operations.get(self.next) else { return Ok(None) };
        self.next += 1;
        self.play(operation)?;
        Ok(Some(operation))
    }

    fn play(&mut self, operation: &DiskOperation) -> io::Result<()> {
        match operation {
            DiskOperation::CreateDirectory(dir) => self.disk.create_dir_all(dir)?,
            DiskOperation::Create(number, path) => {
                let file = self.disk.create_new(path)?;
                self.opened(*number, path, file);
            }
            DiskOperation::Open(number, path) => {
                let file = self.disk.open(path)?;
                self.opened(*number, path, file);
            }
            DiskOperation::Close(number) => drop(self.files.remove(number)),
            DiskOperation::Write(number, offset, bytes) => write(self.file(*number)?, *offset, bytes)?,
            DiskOperation::Sync(number) if self.errs() && self.forgotten.contains(number) => {}
            DiskOperation::Sync(number) => self.file(*number)?.sync_data()?,
            DiskOperation::Allocate(number, length) => self.file(*number)?.allocate(*length)?,
            DiskOperation::SetLength(number, length) => self.file(*number)?.set_length(*length)?,
            DiskOperation::Rename(from, to) => self.disk.rename(from, to)?,
            DiskOperation::Remove(path) => self.disk.remove(path)?,
            DiskOperation::SyncDirectory(_) if self.errs() && self.defect == Some(Defect::NamesNotSynced) => {
            }
            DiskOperation::SyncDirectory(dir) => self.disk.sync_dir(dir)?,
        }
        Ok(())
    }

    /// Whether the defect has begun.
    fn errs(&self) -> bool {
        self.next > self.sound
    }

    fn opened(&mut self, number: u64, path: &Path, file: Arc<dyn File>) {
        let directory = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let forgets = |defect: Defect| directory.is_some_and(|name| defect.forgets_sync_in(name));
        if self.defect.is_some_and(forgets) {
            self.forgotten.insert(number);
        }
        self.files.insert(number, file);
    }

    fn file(&self, number: u64) -> io::Result<&Arc<dyn File>> {
        self.files.get(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn write(file: &Arc<dyn File>, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let unit = if bytes.len() <= MAX_BY_SECTOR { SECTOR_BYTES } else { PAGE_BYTES };
    let mut at = 0;
    while at < bytes.len() {
        let within = (offset as usize + at) % unit;
        let end = bytes.len().min(at + unit - within);
        file.write_at(&[IoSlice::new(&bytes[at..end])], offset + at as u64)?;
        at = end;
    }
    Ok(())
}
