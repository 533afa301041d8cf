//! Data segments: files of values outside of entries, one after the other, without frames, and a footer.
//!
//! The store's value pointers have the address, length and checksum of each value. A data segment gets its name when it
//! is whole and durable, and never changes afterwards.

use std::path::PathBuf;

use super::footer::FooterBuilder;
use crate::error::JobError;
use crate::format::{FileHeader, FileType, UNFINISHED_SUFFIX, file_name};
use crate::segments::{FileNumbers, SegmentFactory};
use crate::types::{StoredValue, address_at, file_of, offset_of};
use crate::write::{BulkFile, read_full};

/// A data segment being written.
pub(crate) struct DataSegmentWriter {
    factory: SegmentFactory,
    number: u32,
    unfinished: BulkFile,
    /// Names the values so far, in a file that gets a footer.
    footer: Option<FooterBuilder>,
}

/// A durable data segment.
#[derive(Debug, Clone)]
pub(crate) struct DataSegment {
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Bytes of its footer.
    pub(crate) footer_bytes: u64,
}

impl DataSegmentWriter {
    /// A file with a footer.
    pub(crate) fn with_footer(factory: &SegmentFactory, number: u32) -> DataSegmentWriter {
        let footer = Some(FooterBuilder::default());
        DataSegmentWriter { footer, ..DataSegmentWriter::without_footer(factory, number) }
    }

    /// A file that does not say which values it holds.
    pub(crate) fn without_footer(factory: &SegmentFactory, number: u32) -> DataSegmentWriter {
        let header = FileHeader { file_type: FileType::DataSegment, number, identity: factory.identity };
        let unfinished = factory.layout.data.join(file_name(number, UNFINISHED_SUFFIX));
        let unfinished = BulkFile::new(&factory.disk, unfinished, &header.encode());
        DataSegmentWriter { factory: factory.clone(), number, unfinished, footer: None }
    }

    /// Bytes so far, without the footer.
    pub(crate) fn bytes(&self) -> u64 {
        self.unfinished.bytes()
    }

    /// Adds a value with the tag for the footer, if the file has one, and returns its log address.
    ///
    /// # Errors
    /// Creating, writing or syncing the file failed; it is unusable.
    pub(crate) fn push(&mut self, value: &[u8], checksum: u32, tag: &[u8]) -> Result<u64, JobError> {
        let address = address_at(self.number, self.bytes());
        self.unfinished.push(value);
        self.unfinished.write_full()?;
        if let Some(footer) = &mut self.footer {
            let len = u32::try_from(value.len()).expect("a value is far below 4 GiB");
            footer.push(StoredValue { address, len, checksum }, tag);
        }
        Ok(address)
    }

    /// Reads bytes of a value that was added.
    fn read_back(&mut self, offset: u64, into: &mut [u8]) -> Result<(), JobError> {
        self.unfinished.read_back(offset, into)
    }

    /// Makes the file durable under its name.
    pub(crate) fn finish(mut self) -> Result<DataSegment, JobError> {
        let finished = self.make_durable();
        if finished.is_err() {
            self.discard();
        }
        finished
    }

    /// Removes the file. Best effort: the next open removes unfinished files.
    pub(crate) fn discard(self) {
        self.unfinished.discard();
    }

    fn make_durable(&mut self) -> Result<DataSegment, JobError> {
        let mut footer_bytes = 0;
        if let Some(footer) = self.footer.take() {
            footer_bytes = footer.bytes();
            self.unfinished.push(&footer.finish(self.unfinished.bytes()));
        }
        let bytes = self.unfinished.finish()?;
        let layout = &self.factory.layout;
        let path = layout.data_segment(self.number);
        let disk = &self.factory.disk;
        let unfinished = self.unfinished.path();
        disk.rename(unfinished, &path).map_err(JobError::io("rename", unfinished))?;
        disk.sync_dir(&layout.data).map_err(JobError::io("sync", &layout.data))?;
        Ok(DataSegment { number: self.number, path, bytes, footer_bytes })
    }
}

/// Writes the values of a snapshot into data segments without footers, each up to the size of a segment.
pub(crate) struct DataSegmentSeries {
    factory: SegmentFactory,
    numbers: FileNumbers,
    current: Option<DataSegmentWriter>,
    finished: Vec<DataSegment>,
}

impl DataSegmentSeries {
    pub(crate) fn new(factory: &SegmentFactory, numbers: &FileNumbers) -> DataSegmentSeries {
        DataSegmentSeries {
            factory: factory.clone(),
            numbers: numbers.clone(),
            current: None,
            finished: Vec::new(),
        }
    }

    /// Adds a value and returns its log address.
    pub(crate) fn push(&mut self, value: &[u8], checksum: u32) -> Result<u64, JobError> {
        let full =
            |writer: &DataSegmentWriter| writer.bytes() + value.len() as u64 > self.factory.segment_bytes;
        if self.current.as_ref().is_some_and(full) {
            self.finish_current()?;
        }
        let begin = || DataSegmentWriter::without_footer(&self.factory, self.numbers.next());
        self.current.get_or_insert_with(begin).push(value, checksum, b"")
    }

    /// Reads a value, or a part of one, that was added.
    ///
    /// # Errors
    /// It is in no file of this series, or reading it failed.
    pub(crate) fn read_back(&mut self, value: StoredValue) -> Result<Vec<u8>, JobError> {
        let (number, offset) = (file_of(value.address), u64::from(offset_of(value.address)));
        let mut bytes = vec![0; value.len as usize];
        if let Some(current) = self.current.as_mut().filter(|current| current.number == number) {
            current.read_back(offset, &mut bytes)?;
        } else {
            let file = self.finished.iter().find(|file| file.number == number);
            let file = file.ok_or_else(|| JobError::Mismatch(format!("a value in file {number}")))?;
            let disk = &self.factory.disk;
            let read = disk.open(&file.path).and_then(|open| read_full(&*open, &mut bytes, offset));
            read.map_err(JobError::io("read", &file.path))?;
        }
        match crc32c::crc32c(&bytes) == value.checksum {
            true => Ok(bytes),
            false => Err(JobError::Mismatch("a value that was just written".to_owned())),
        }
    }

    pub(crate) fn finish_current(&mut self) -> Result<(), JobError> {
        if let Some(current) = self.current.take() {
            self.finished.push(current.finish()?);
        }
        Ok(())
    }

    /// The durable data segments so far.
    pub(crate) fn finished(&self) -> &[DataSegment] {
        &self.finished
    }

    /// Removes all files. Best effort: the next open removes files that nothing references.
    pub(crate) fn discard(&mut self) {
        if let Some(current) = self.current.take() {
            current.discard();
        }
        for file in self.finished.drain(..) {
            let _ = self.factory.disk.remove(&file.path);
        }
    }
}
