//! Makes a segment file ready: named, with a header, allocated and durable, so that a write into it needs one sync.
//!
//! The file is made under an unfinished name and renamed when it is durable. A segment that exists therefore has a
//! whole header. A recycled file keeps its blocks and its old records, which recovery recognizes by their segment
//! number. A new file is only allocated: the first write to a block costs a metadata update in its sync, which
//! `write/job.rs` mitigates.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, File};
use crate::format::{FileHeader, FileType, HEADER_BYTES, Layout, UNFINISHED_SUFFIX, file_name};
use crate::types::Identity;

/// Segments that must fit on each disk beside those that are ready: relocation copies the values of nearly
/// empty files into a file of this size, before the files can go.
const FREE_SEGMENTS: u64 = 1;

/// What is needed to make files of a log. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SegmentFactory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) identity: Identity,
    /// The usual length of a segment.
    pub(crate) segment_bytes: u64,
}

/// An old file of the WAL directory, to be made into a segment.
#[derive(Debug, Clone)]
pub(crate) struct UsedFile {
    pub(crate) path: PathBuf,
    /// End of its blocks that have been written.
    pub(crate) written: u64,
}

/// A segment file ready to be written.
pub(crate) struct PreparedSegment {
    pub(crate) path: PathBuf,
    pub(crate) handle: Arc<dyn File>,
    /// Its length.
    pub(crate) bytes: u64,
    /// End of its blocks that have been written before; writing them again changes no metadata.
    pub(crate) written: u64,
}

impl SegmentFactory {
    /// Makes segment `number` of this length, from an old file if there is one.
    pub(crate) fn segment(
        &self,
        number: u32,
        bytes: u64,
        old: Option<&UsedFile>,
    ) -> io::Result<PreparedSegment> {
        let unfinished = self.layout.wal.join(file_name(number, UNFINISHED_SUFFIX));
        let made = self.prepare(number, bytes, old, &unfinished);
        if made.is_err() {
            // Best effort: the next open removes unfinished files.
            let _ = self.disk.remove(&unfinished);
        }
        made
    }

    /// Bytes that are free where segments are made, or where values are copied to if there are fewer.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let (wal, data) = (&self.layout.wal, &self.layout.data);
        Ok(self.disk.free_bytes(wal)?.min(self.disk.free_bytes(data)?))
    }

    /// Bytes that are left free for what frees space.
    pub(crate) fn kept_free_bytes(&self) -> u64 {
        FREE_SEGMENTS * self.segment_bytes
    }

    /// Whether a new segment of this length can be made, and so much is free afterwards, on both disks if the WAL
    /// directory is on one of its own.
    pub(crate) fn has_space_for(&self, bytes: u64, keeps_free: u64) -> io::Result<bool> {
        let (wal, data) = (&self.layout.wal, &self.layout.data);
        let has_room = self.disk.free_bytes(wal)? >= bytes.saturating_add(keeps_free);
        Ok(has_room && self.disk.free_bytes(data)? >= keeps_free)
    }

    /// Whether a sealed segment of this length can be copied into the data directory, and what is kept free is left.
    pub(crate) fn has_space_to_move(&self, bytes: u64) -> io::Result<bool> {
        let free = self.disk.free_bytes(&self.layout.data)?;
        Ok(free >= bytes.saturating_add(self.kept_free_bytes()))
    }

    fn prepare(
        &self,
        number: u32,
        bytes: u64,
        old: Option<&UsedFile>,
        unfinished: &Path,
    ) -> io::Result<PreparedSegment> {
        let handle = match old {
            Some(old) => {
                self.disk.rename(&old.path, unfinished)?;
                // The contents may change only when the unfinished name is durable: otherwise a crash could restore the
                // old name with new contents.
                self.disk.sync_dir(&self.layout.wal)?;
                self.disk.open(unfinished)?
            }
            None => self.disk.create_new(unfinished)?,
        };
        let length = handle.length()?;
        if length > bytes {
            handle.set_length(bytes)?;
        }
        // Blocks that are cut off, or were never written, count as new.
        let written = old.map_or(0, |old| old.written.min(length).min(bytes)).max(HEADER_BYTES);
        handle.allocate(bytes)?;
        let header = FileHeader { file_type: FileType::Segment, number, identity: self.identity };
        handle.write_at(&[IoSlice::new(&header.encode())], 0)?;
        handle.sync_data()?;
        let path = self.layout.segment(number);
        self.disk.rename(unfinished, &path)?;
        self.disk.sync_dir(&self.layout.wal)?;
        Ok(PreparedSegment { path, handle, bytes, written })
    }
}
