//! Data segments: values that no longer lie in their entries, one behind the other, without frames.
//!
//! Their references know where they begin, how long they are and what they check to. A data segment gets its
//! name when it is whole and durable, and is never changed afterwards.

use std::path::PathBuf;

use crate::bulk_file::BulkFile;
use crate::error::JobError;
use crate::header::{FileType, Header};
use crate::layout::{UNFINISHED_SUFFIX, file_name};
use crate::prepare::SegmentFactory;
use crate::types::address_at;

/// A data segment being written.
pub(crate) struct DataWriter {
    workshop: SegmentFactory,
    number: u32,
    unfinished: BulkFile,
}

/// A durable data segment.
#[derive(Debug, Clone)]
pub(crate) struct DataFile {
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

impl DataWriter {
    pub(crate) fn new(workshop: &SegmentFactory, number: u32) -> DataWriter {
        let header = Header { file_type: FileType::DataSegment, number, identity: workshop.identity };
        let unfinished = workshop.layout.data.join(file_name(number, UNFINISHED_SUFFIX));
        let unfinished = BulkFile::new(&workshop.disk, unfinished, &header.encode());
        DataWriter { workshop: workshop.clone(), number, unfinished }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.unfinished.bytes()
    }

    /// Adds a value and returns its place.
    pub(crate) fn push(&mut self, value: &[u8]) -> Result<u64, JobError> {
        let address = address_at(self.number, self.bytes());
        self.unfinished.push(value);
        self.unfinished.write_full()?;
        Ok(address)
    }

    /// Makes it durable under its name.
    pub(crate) fn finish(mut self) -> Result<DataFile, JobError> {
        let finished = self.make_durable();
        if finished.is_err() {
            self.discard();
        }
        finished
    }

    /// Removes what was written; best effort, since the next open removes what stays.
    pub(crate) fn discard(self) {
        self.unfinished.discard();
    }

    fn make_durable(&mut self) -> Result<DataFile, JobError> {
        let bytes = self.unfinished.finish()?;
        let layout = &self.workshop.layout;
        let path = layout.data_segment(self.number);
        let disk = &self.workshop.disk;
        let unfinished = self.unfinished.path();
        disk.rename(unfinished, &path).map_err(JobError::io("rename", unfinished))?;
        disk.sync_dir(&layout.data).map_err(JobError::io("sync", &layout.data))?;
        Ok(DataFile { number: self.number, path, bytes })
    }
}
