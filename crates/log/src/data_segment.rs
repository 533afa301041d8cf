//! Data segments: values that no longer lie in their entries, one behind the other, without frames.
//!
//! Their references know where they begin, how long they are and what they check to. A data segment gets its
//! name when it is whole and durable, and is never changed afterwards.

use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::File;
use crate::error::JobError;
use crate::header::{FileType, Header};
use crate::layout::{UNFINISHED_SUFFIX, file_name};
use crate::prepare::Workshop;
use crate::types::place_at;

/// Bytes gathered before a write.
const WRITE_BYTES: usize = 1 << 20;

/// A data segment being written.
pub(crate) struct DataWriter {
    workshop: Workshop,
    number: u32,
    unfinished: PathBuf,
    file: Option<Arc<dyn File>>,
    buffer: Vec<u8>,
    written: u64,
}

/// A durable data segment.
#[derive(Debug, Clone)]
pub(crate) struct DataFile {
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

impl DataWriter {
    pub(crate) fn new(workshop: &Workshop, number: u32) -> DataWriter {
        let header = Header { file_type: FileType::DataSegment, number, identity: workshop.identity };
        DataWriter {
            unfinished: workshop.layout.data.join(file_name(number, UNFINISHED_SUFFIX)),
            workshop: workshop.clone(),
            number,
            file: None,
            buffer: header.encode().to_vec(),
            written: 0,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds a value and returns its place.
    pub(crate) fn push(&mut self, value: &[u8]) -> Result<u64, JobError> {
        let place = place_at(self.number, self.bytes());
        self.buffer.extend(value);
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(place)
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
        if self.file.is_some() {
            let _ = self.workshop.disk.remove(&self.unfinished);
        }
    }

    fn make_durable(&mut self) -> Result<DataFile, JobError> {
        self.flush()?;
        let file = self.file.as_ref().expect("a flush opens the file");
        file.sync_data().map_err(JobError::io("sync", &self.unfinished))?;
        let layout = &self.workshop.layout;
        let path = layout.data_segment(self.number);
        let disk = &self.workshop.disk;
        disk.rename(&self.unfinished, &path).map_err(JobError::io("rename", &self.unfinished))?;
        disk.sync_dir(&layout.data).map_err(JobError::io("sync", &layout.data))?;
        Ok(DataFile { number: self.number, path, bytes: self.written })
    }

    fn flush(&mut self) -> Result<(), JobError> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let created = self.workshop.disk.create_new(&self.unfinished);
                created.map_err(JobError::io("create", &self.unfinished))?
            }
        };
        self.file = Some(file.clone());
        file.write_at(&[IoSlice::new(&self.buffer)], self.written)
            .map_err(JobError::io("write", &self.unfinished))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
