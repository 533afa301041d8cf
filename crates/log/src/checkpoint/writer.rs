//! Writing a checkpoint, off the owner's thread.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::manifest::{Link, Manifest};
use super::{CheckpointKind, MAX_CHUNK_BYTES};
use crate::bulk_file::BulkFile;
use crate::error::JobError;
use crate::header::{FileType, Header};
use crate::layout::file_name;
use crate::prepare::SegmentFactory;
use crate::types::LogId;

/// The length that marks the last frame.
pub(super) const END_MARK: u32 = u32::MAX;

/// Writes one checkpoint, chunk by chunk. Nothing counts until [`CheckpointWriter::finish`] committed it.
pub struct CheckpointWriter {
    workshop: SegmentFactory,
    manifest: Arc<Mutex<Manifest>>,
    link: Link,
    parent: Option<u32>,
    file: BulkFile,
    frames: u64,
}

/// What became of a checkpoint. Goes back to [`crate::Log::checkpoint_done`].
#[derive(Debug)]
#[must_use = "the owner has to learn what became of its checkpoint"]
pub struct CheckpointDone {
    pub(crate) number: u32,
    /// The file, when it failed and certainly is not named by the manifest.
    pub(crate) leftover: Option<PathBuf>,
    pub(crate) result: Result<Vec<Link>, JobError>,
}

/// The checksum of a frame: its ordinal and its bytes, so that a frame cannot be lost or swapped unseen.
pub(super) fn frame_checksum(ordinal: u64, data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&ordinal.to_le_bytes()), data)
}

/// What the first frame says, so that a file can be judged without its manifest.
pub(super) fn description(kind: CheckpointKind, id: LogId) -> [u8; 17] {
    let mut bytes = [0; 17];
    bytes[0] = kind as u8;
    bytes[1..9].copy_from_slice(&id.index.to_le_bytes());
    bytes[9..].copy_from_slice(&id.term.to_le_bytes());
    bytes
}

impl CheckpointDone {
    /// It failed, and the manifest on disk certainly does not name it.
    pub(crate) fn is_certainly_void(&self) -> bool {
        self.leftover.is_some()
    }
}

impl CheckpointWriter {
    pub(crate) fn new(
        workshop: &SegmentFactory,
        manifest: &Arc<Mutex<Manifest>>,
        number: u32,
        kind: CheckpointKind,
        id: LogId,
        parent: Option<u32>,
    ) -> CheckpointWriter {
        let header = Header { file_type: FileType::Checkpoint, number, identity: workshop.identity };
        let path = workshop.layout.checkpoint.join(file_name(number, kind.suffix()));
        let mut writer = CheckpointWriter {
            file: BulkFile::new(&workshop.disk, path, &header.encode()),
            workshop: workshop.clone(),
            manifest: manifest.clone(),
            link: Link { number, kind, id, length: 0 },
            parent,
            frames: 0,
        };
        writer.frame(&description(kind, id));
        writer
    }

    /// Adds a chunk of at most [`MAX_CHUNK_BYTES`]. After an error give the writer to
    /// [`CheckpointWriter::abandon`].
    pub fn write(&mut self, chunk: &[u8]) -> Result<(), JobError> {
        assert!(chunk.len() <= MAX_CHUNK_BYTES, "a chunk has {} bytes", chunk.len());
        self.frame(chunk);
        self.file.write_full()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Makes the checkpoint durable and commits it.
    pub fn finish(mut self) -> CheckpointDone {
        let written = self.make_durable();
        let is_written = written.is_ok();
        let result = written.and_then(|()| self.commit());
        // When replacing the manifest fails, either one may be found: then the file stays until the next
        // open.
        let certain = !is_written || matches!(result, Err(JobError::Superseded));
        CheckpointDone {
            number: self.link.number,
            leftover: certain.then(|| self.file.path().to_owned()),
            result,
        }
    }

    /// Gives it up.
    pub fn abandon(self, cause: JobError) -> CheckpointDone {
        CheckpointDone {
            number: self.link.number,
            leftover: Some(self.file.path().to_owned()),
            result: Err(cause),
        }
    }

    fn frame(&mut self, data: &[u8]) {
        self.file.push(&(data.len() as u32).to_le_bytes());
        self.file.push(&frame_checksum(self.frames, data).to_le_bytes());
        self.file.push(data);
        self.frames += 1;
    }

    fn make_durable(&mut self) -> Result<(), JobError> {
        let count = self.frames.to_le_bytes();
        self.file.push(&END_MARK.to_le_bytes());
        self.file.push(&frame_checksum(self.frames, &count).to_le_bytes());
        self.file.push(&count);
        self.link.length = self.file.finish()?;
        let dir = &self.workshop.layout.checkpoint;
        self.workshop.disk.sync_dir(dir).map_err(JobError::io("sync", dir))
    }

    fn commit(&mut self) -> Result<Vec<Link>, JobError> {
        let disk = self.workshop.disk.as_ref();
        let layout = &self.workshop.layout;
        let mut manifest = self.manifest.lock();
        let next = self.successor(&manifest)?;
        let path = layout.manifest();
        next.replace(disk, layout).map_err(JobError::io("replace", &path))?;
        *manifest = next;
        Ok(manifest.chain.clone())
    }

    /// The manifest after this checkpoint, unless the one it builds upon is gone.
    fn successor(&self, current: &Manifest) -> Result<Manifest, JobError> {
        let last = current.chain.last();
        let fits = match self.link.kind {
            CheckpointKind::Base => last.is_none_or(|last| last.id.index <= self.link.id.index),
            CheckpointKind::Delta => last.map(|last| last.number) == self.parent,
        };
        if !fits {
            return Err(JobError::Superseded);
        }
        let mut chain = match self.link.kind {
            CheckpointKind::Base => Vec::new(),
            CheckpointKind::Delta => current.chain.clone(),
        };
        chain.push(self.link);
        let next_number = current.next_number.max(self.link.number + 1);
        Ok(Manifest { identity: current.identity, next_number, chain })
    }
}
