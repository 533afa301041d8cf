//! Writes a checkpoint file, off the owner's thread, and commits it by replacing the manifest.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::manifest::{CheckpointKind, Manifest, ManifestLink};
use super::reserve::ReserveUse;
use crate::error::{JobError, is_full};
use crate::format::{FileHeader, FileType};
use crate::segments::SegmentFactory;
use crate::types::LogId;
use crate::write::BulkFile;

/// Largest chunk; bounds what a reader allocates.
pub const MAX_CHUNK_BYTES: usize = 16 << 20;

/// The length that marks the last frame.
pub(super) const END_MARK: u32 = u32::MAX;

/// Writes one checkpoint, chunk by chunk. It has no effect before [`CheckpointWriter::finish`] commits it.
pub struct CheckpointWriter {
    factory: SegmentFactory,
    manifest: Arc<Mutex<Manifest>>,
    link: ManifestLink,
    position: ChainPosition,
    file: BulkFile,
    frames: u64,
    /// None for a merge, which frees nothing.
    reserve: Option<ReserveUse>,
    /// Whether something was written. Before that the reserve is given up, if it is needed.
    has_begun: bool,
    gave_up_reserve: bool,
}

/// Where a checkpoint goes in the chain.
pub(super) enum ChainPosition {
    /// A base: in place of the whole chain.
    Whole,
    /// A delta: behind this checkpoint, which must be the last.
    Behind(u32),
    /// In place of these, which must follow each other in the chain.
    InPlaceOf(Vec<u32>),
}

/// Why a checkpoint is not committed.
pub(super) struct NotCommitted {
    pub(super) error: JobError,
    /// Whether the manifest on disk is the one before, for certain. Otherwise it may be either one.
    pub(super) is_unchanged: bool,
}

impl NotCommitted {
    fn unchanged(error: JobError) -> NotCommitted {
        NotCommitted { error, is_unchanged: true }
    }

    /// Whether the commit may succeed later: it lacked space, or descriptors, and has had no effect.
    pub(super) fn is_transient(&self) -> bool {
        self.is_unchanged && (self.error.is_full() || self.error.is_out_of_descriptors())
    }
}

/// The result of a checkpoint, for [`crate::Log::checkpoint_done`].
#[derive(Debug)]
#[must_use = "the owner needs the result of its checkpoint"]
pub struct CheckpointDone {
    pub(crate) number: u32,
    /// The file, if the checkpoint failed and no manifest on disk can name it.
    pub(crate) leftover: Option<PathBuf>,
    /// The reserve was given up for it.
    pub(crate) gave_up_reserve: bool,
    pub(crate) result: Result<Vec<ManifestLink>, JobError>,
}

/// The checksum of a frame: over its ordinal and its bytes, so that a lost or swapped frame is noticed.
pub(super) fn frame_checksum(ordinal: u64, data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&ordinal.to_le_bytes()), data)
}

/// The first frame: describes the file, so that it can be checked without its manifest.
pub(super) fn description(kind: CheckpointKind, id: LogId) -> [u8; 17] {
    let mut bytes = [0; 17];
    bytes[0] = kind as u8;
    bytes[1..9].copy_from_slice(&id.index.to_le_bytes());
    bytes[9..].copy_from_slice(&id.term.to_le_bytes());
    bytes
}

impl CheckpointDone {
    /// Whether the checkpoint failed and no manifest on disk can name it. If neither this nor success holds, either
    /// manifest may be on disk.
    pub(super) fn is_not_committed(&self) -> bool {
        self.leftover.is_some()
    }
}

impl CheckpointWriter {
    pub(super) fn new(
        factory: &SegmentFactory,
        manifest: &Arc<Mutex<Manifest>>,
        reserve: Option<ReserveUse>,
        (number, kind, id): (u32, CheckpointKind, LogId),
        position: ChainPosition,
    ) -> CheckpointWriter {
        let header = FileHeader { file_type: FileType::Checkpoint, number, identity: factory.identity };
        let link = ManifestLink { number, kind, id, length: 0 };
        let path = link.path(&factory.layout);
        let mut writer = CheckpointWriter {
            file: BulkFile::new(&factory.disk, path, &header.encode()),
            factory: factory.clone(),
            manifest: manifest.clone(),
            link,
            position,
            frames: 0,
            reserve,
            has_begun: false,
            gave_up_reserve: false,
        };
        writer.frame(&description(kind, id));
        writer
    }

    /// Adds a chunk of at most [`MAX_CHUNK_BYTES`]. After an error give the writer to
    /// [`CheckpointWriter::abandon`].
    pub fn write(&mut self, chunk: &[u8]) -> Result<(), JobError> {
        assert!(chunk.len() <= MAX_CHUNK_BYTES, "a chunk has {} bytes", chunk.len());
        self.frame(chunk);
        self.begin();
        self.file.write_full()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Makes the checkpoint durable and commits it.
    pub fn finish(mut self) -> CheckpointDone {
        let committed = self.make_durable().map_err(NotCommitted::unchanged);
        let committed = committed.and_then(|()| self.commit());
        self.ended(committed)
    }

    /// The result of a checkpoint that is committed, or not.
    pub(super) fn ended(self, committed: Result<Vec<ManifestLink>, NotCommitted>) -> CheckpointDone {
        // If the disk may have either manifest, the file stays until the next open.
        let is_unchanged = committed.as_ref().is_err_and(|failure| failure.is_unchanged);
        CheckpointDone {
            number: self.link.number,
            leftover: is_unchanged.then(|| self.file.path().to_owned()),
            gave_up_reserve: self.gave_up_reserve,
            result: committed.map_err(|failure| failure.error),
        }
    }

    /// Abandons the checkpoint.
    pub fn abandon(self, cause: JobError) -> CheckpointDone {
        CheckpointDone {
            number: self.link.number,
            leftover: Some(self.file.path().to_owned()),
            gave_up_reserve: self.gave_up_reserve,
            result: Err(cause),
        }
    }

    /// Before the first write: makes room on a full disk.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.gave_up_reserve = self.reserve.as_ref().is_some_and(ReserveUse::give_up_if_needed);
        }
    }

    fn frame(&mut self, data: &[u8]) {
        self.file.push(&(data.len() as u32).to_le_bytes());
        self.file.push(&frame_checksum(self.frames, data).to_le_bytes());
        self.file.push(data);
        self.frames += 1;
    }

    /// Writes the last frame and makes the file durable. [`CheckpointWriter::commit`] may follow.
    pub(super) fn make_durable(&mut self) -> Result<(), JobError> {
        self.begin();
        let count = self.frames.to_le_bytes();
        self.file.push(&END_MARK.to_le_bytes());
        self.file.push(&frame_checksum(self.frames, &count).to_le_bytes());
        self.file.push(&count);
        self.link.length = self.file.finish()?;
        let dir = &self.factory.layout.checkpoint;
        self.factory.disk.sync_dir(dir).map_err(JobError::io("sync", dir))
    }

    /// Commits the durable file by replacing the manifest. After a [transient](NotCommitted::is_transient) failure it
    /// may be called again.
    pub(super) fn commit(&mut self) -> Result<Vec<ManifestLink>, NotCommitted> {
        let disk = self.factory.disk.as_ref();
        let layout = &self.factory.layout;
        let path = layout.manifest();
        let mut manifest = self.manifest.lock();
        let next = self.successor(&manifest).map_err(NotCommitted::unchanged)?;
        let mut written = next.write_unfinished(disk, layout);
        if written.as_ref().is_err_and(is_full) && self.reserve.as_ref().is_some_and(ReserveUse::give_up) {
            self.gave_up_reserve = true;
            written = next.write_unfinished(disk, layout);
        }
        written.map_err(JobError::io("replace", &path)).map_err(NotCommitted::unchanged)?;
        Manifest::replace_by_unfinished(disk, layout)
            .map_err(JobError::io("replace", &path))
            .map_err(|error| NotCommitted { error, is_unchanged: false })?;
        *manifest = next;
        Ok(manifest.chain.clone())
    }

    /// The manifest with this checkpoint, unless the ones that it extends or replaces have been superseded.
    fn successor(&self, current: &Manifest) -> Result<Manifest, JobError> {
        let old = &current.chain;
        let last = old.last();
        let replaced = match &self.position {
            ChainPosition::Whole if last.is_none_or(|last| last.id.index <= self.link.id.index) => {
                0..old.len()
            }
            ChainPosition::Behind(parent) if last.is_some_and(|last| last.number == *parent) => {
                old.len()..old.len()
            }
            ChainPosition::InPlaceOf(numbers) => position_of(old, numbers).ok_or(JobError::Superseded)?,
            ChainPosition::Whole | ChainPosition::Behind(_) => return Err(JobError::Superseded),
        };
        let mut chain = old.clone();
        chain.splice(replaced, [self.link]);
        let next_number = current.next_number.max(self.link.number + 1);
        Ok(Manifest { identity: current.identity, next_number, chain })
    }
}

/// Where the checkpoints with these numbers follow each other in a chain.
fn position_of(chain: &[ManifestLink], numbers: &[u32]) -> Option<Range<usize>> {
    let first = chain.iter().position(|link| Some(&link.number) == numbers.first())?;
    let found = chain.get(first..first + numbers.len())?;
    let is_same = found.iter().map(|link| link.number).eq(numbers.iter().copied());
    is_same.then(|| first..first + numbers.len())
}
