//! Making a segment file ready: named, headed, allocated and durable, so that a write into it needs one sync.
//!
//! A file is made under an unfinished name and renamed when it is durable, so a segment that exists has a
//! whole header. A recycled file keeps its blocks and its old records; their number gives them away. A new one is
//! only allocated: the blocks that a write reaches first cost its sync a change of metadata, for which
//! [`crate::writer`] has a remedy.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, File};
use crate::header::{FileType, HEADER_BYTES, Header};
use crate::layout::{Layout, UNFINISHED_SUFFIX, file_name};
use crate::types::Identity;

/// What is needed to make segments.
#[derive(Clone)]
pub(crate) struct SegmentFactory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) identity: Identity,
    pub(crate) segment_bytes: u64,
}

/// A file that was of use before, to be made into a segment.
#[derive(Debug, Clone)]
pub(crate) struct Used {
    pub(crate) path: PathBuf,
    /// Its blocks up to here have been written.
    pub(crate) written: u64,
}

/// A segment file ready to be written.
pub(crate) struct Prepared {
    pub(crate) path: PathBuf,
    pub(crate) handle: Arc<dyn File>,
    /// Its blocks up to here have been written before, so that writing them again changes no metadata.
    pub(crate) written: u64,
}

impl SegmentFactory {
    /// Makes segment `number`, out of an old file in the WAL directory if there is one.
    pub(crate) fn segment(&self, number: u32, old: Option<&Used>) -> io::Result<Prepared> {
        let unfinished = self.layout.wal.join(file_name(number, UNFINISHED_SUFFIX));
        let made = self.fill(number, old, &unfinished);
        if made.is_err() {
            // Best effort: the next open removes what stays.
            let _ = self.disk.remove(&unfinished);
        }
        made
    }

    fn fill(&self, number: u32, old: Option<&Used>, unfinished: &Path) -> io::Result<Prepared> {
        let handle = match old {
            Some(old) => {
                self.disk.rename(&old.path, unfinished)?;
                // Its contents may only change once it is certain to be found under the unfinished name.
                self.disk.sync_dir(&self.layout.wal)?;
                self.disk.open(unfinished)?
            }
            None => self.disk.create_new(unfinished)?,
        };
        let length = handle.length()?;
        if length > self.segment_bytes {
            handle.set_length(self.segment_bytes)?;
        }
        // What was cut off, or lies behind the blocks that were written, is allocated anew.
        let written = old.map_or(0, |old| old.written.min(length).min(self.segment_bytes)).max(HEADER_BYTES);
        handle.allocate(self.segment_bytes)?;
        let header = Header { file_type: FileType::Segment, number, identity: self.identity };
        handle.write_at(&[IoSlice::new(&header.encode())], 0)?;
        handle.sync_data()?;
        let path = self.layout.segment(number);
        self.disk.rename(unfinished, &path)?;
        self.disk.sync_dir(&self.layout.wal)?;
        Ok(Prepared { path, handle, written })
    }
}
