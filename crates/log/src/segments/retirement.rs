//! Frees files that hold nothing of use, as soon as no reader can hold an address into them.
//!
//! ```text
//!   1. a checkpoint begins          files without references now are noted (nothing can be added: all entries applied)
//!   2. the checkpoint is durable    the noted files become *unreferenced*: no checkpoint on disk refers to them
//!   3. not needed any more          neither recovery nor raft needs them: they are *retired*, and the epoch ends
//!   4. all pins of that epoch gone  they are recycled into segments, or removed
//! ```
//!
//! What is retired is a path. A segment that moved out of the WAL directory is retired under its old path when it has
//! moved, and under its new one when nothing references it. No path is retired twice: it would be recycled twice, and
//! the second time the file of that name is gone.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::chain::SegmentChain;
use super::factory::UsedFile;
use super::preallocated::PreallocatedSegments;
use crate::error::OpenError;
use crate::format::Layout;
use crate::read::{SharedFiles, ValueFile};

/// A retired file that readers may still use.
struct RetiredFile {
    file: Arc<ValueFile>,
    path: PathBuf,
    /// The epoch that ended when it was retired.
    epoch: u64,
    /// The file may be made into a segment.
    is_recyclable: bool,
}

/// Files on their way out.
pub(crate) struct FileRetirement {
    shared: Arc<SharedFiles>,
    layout: Arc<Layout>,
    /// Files without a reference in the newest durable checkpoint, or since.
    unreferenced: BTreeSet<u32>,
    retired: Vec<RetiredFile>,
    /// Files that can be removed at any time.
    removable: Vec<PathBuf>,
}

impl FileRetirement {
    pub(crate) fn new(shared: Arc<SharedFiles>, layout: Arc<Layout>) -> FileRetirement {
        let (retired, removable) = (Vec::new(), Vec::new());
        FileRetirement { shared, layout, unreferenced: BTreeSet::new(), retired, removable }
    }

    /// Adds files that no durable checkpoint refers to, and in which nothing can be referenced any more.
    pub(crate) fn add_unreferenced(&mut self, files: impl IntoIterator<Item = u32>) {
        self.unreferenced.extend(files);
    }

    /// Adds the files that nothing has referenced since the log was opened, without the `needed` ones: an unfinished
    /// relocation or installation left them, or all their values were deleted.
    ///
    /// # Errors
    /// [`OpenError::MissingFiles`] if files are referenced that do not exist.
    pub(crate) fn add_orphans(&mut self, needed: &BTreeSet<u32>) -> Result<(), OpenError> {
        let mut missing = Vec::new();
        for file in self.shared.files.all() {
            if file.is_absent() && file.live() > 0 {
                missing.push(file.number);
            } else if !file.was_referenced() && !needed.contains(&file.number) {
                self.unreferenced.insert(file.number);
            }
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(OpenError::MissingFiles { numbers: missing, path: self.layout.data_dir.clone() }),
        }
    }

    /// Adds files that can be removed at once.
    pub(crate) fn add_removable(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.removable.extend(paths);
    }

    pub(crate) fn has_unreferenced(&self) -> bool {
        !self.unreferenced.is_empty()
    }

    /// Whether a file waits for its readers under the path that it has now.
    pub(crate) fn is_retired(&self, file: &ValueFile) -> bool {
        let mut same = self.retired.iter().filter(|retired| retired.file.number == file.number);
        same.any(|retired| Some(&retired.path) == file.path().as_ref())
    }

    /// Retires the unreferenced files, except those that recovery or raft needs and the one that is being moved. They
    /// leave the chain of segments.
    pub(crate) fn retire_unreferenced(
        &mut self,
        needed: &BTreeSet<u32>,
        moving: Option<u32>,
        chain: &mut SegmentChain,
    ) {
        let candidates: Vec<u32> = self.unreferenced.difference(needed).copied().collect();
        for number in candidates {
            let Some(file) = self.shared.files.get(number) else {
                self.unreferenced.remove(&number);
                continue;
            };
            if moving == Some(number) {
                continue;
            }
            self.unreferenced.remove(&number);
            assert!(
                file.live() == 0,
                "file {number:08x} was referenced again after its entries were applied"
            );
            chain.remove(number);
            // As long as it is pinned, every checkpoint finds a retired file unreferenced again.
            if self.is_retired(&file) {
                continue;
            }
            if let Some(path) = file.path() {
                self.retire(file, path);
            }
        }
    }

    /// Frees `path` when no reader can hold an address into the file, which may have another path by now.
    pub(crate) fn retire(&mut self, file: Arc<ValueFile>, path: PathBuf) {
        let epoch = self.shared.pins.end_epoch();
        let is_recyclable = path == self.layout.segment(file.number);
        self.retired.push(RetiredFile { file, path, epoch, is_recyclable });
    }

    /// Recycles or frees the retired files whose readers are gone.
    pub(crate) fn release_retired(&mut self, preallocated: &mut PreallocatedSegments) {
        let pins = &self.shared.pins;
        let (over, waiting): (Vec<RetiredFile>, Vec<RetiredFile>) =
            std::mem::take(&mut self.retired).into_iter().partition(|retired| pins.is_over(retired.epoch));
        self.retired = waiting;
        for RetiredFile { file, path, is_recyclable, .. } in over {
            // A segment that has moved to the data directory is still in use under its number.
            if file.path().as_ref() == Some(&path) {
                self.shared.files.remove(file.number);
            }
            match is_recyclable && preallocated.wants_old() {
                true => preallocated.add_old(UsedFile { path, written: file.written() }),
                false => self.removable.push(path),
            }
        }
    }

    /// The next file to remove.
    pub(crate) fn take_removable(&mut self) -> Option<PathBuf> {
        self.removable.pop()
    }

    /// Walks the files: each unreferenced one is known, none of them is referenced, and each path is retired once.
    pub(crate) fn check_all(&self) {
        for number in &self.unreferenced {
            let file = self.shared.files.get(*number);
            assert!(file.is_some_and(|file| file.live() == 0), "file {number:08x} is known and unreferenced");
        }
        let paths: BTreeSet<&PathBuf> = self.retired.iter().map(|retired| &retired.path).collect();
        assert!(paths.len() == self.retired.len(), "a path is retired once");
    }
}
