//! Writing relocated values into a new data segment. Runs off the owner's thread.

use std::sync::Arc;

use bytes::Bytes;

use super::data_segment::{DataSegment, DataSegmentWriter};
use crate::error::{JobError, ReadError};
use crate::read::{Pin, SharedFiles};
use crate::types::StoredValue;

/// Values read at once.
const BATCH_VALUES: usize = 256;

/// Writes values into a new data segment; each with the tag that its footer names it by.
#[must_use = "a relocation must be finished and its result reported"]
pub struct RelocationWriter {
    writer: DataSegmentWriter,
    /// The address of each value that was written, or why it could not be read.
    addresses: Vec<Result<u64, ReadError>>,
}

/// The result of a relocation, for [`crate::Log::relocated`].
#[must_use = "the owner needs the new addresses"]
pub struct RelocationDone {
    pub(super) result: Result<CopiedValues, JobError>,
}

pub(super) struct CopiedValues {
    /// None if no value was written.
    pub(super) file: Option<DataSegment>,
    pub(super) addresses: Vec<Result<u64, ReadError>>,
}

impl RelocationWriter {
    pub(super) fn new(writer: DataSegmentWriter) -> RelocationWriter {
        RelocationWriter { writer, addresses: Vec::new() }
    }

    /// Bytes of the values written so far, and of the file's header.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Adds a value that was checked against its checksum.
    ///
    /// # Errors
    /// The file cannot be written; give the relocation up with [`RelocationWriter::abandon`].
    pub fn push(&mut self, value: &[u8], checksum: u32, tag: &[u8]) -> Result<(), JobError> {
        let address = self.writer.push(value, checksum, tag)?;
        self.addresses.push(Ok(address));
        Ok(())
    }

    /// Makes the values durable. The result has an address for each value, in the order in which they were pushed.
    pub fn finish(self) -> RelocationDone {
        let RelocationWriter { writer, addresses } = self;
        let has_values = addresses.iter().any(Result::is_ok);
        let file = if has_values { writer.finish().map(Some) } else { Ok(None) };
        RelocationDone { result: file.map(|file| CopiedValues { file, addresses }) }
    }

    /// Gives the relocation up, and removes what was written.
    pub fn abandon(self, cause: JobError) -> RelocationDone {
        self.writer.discard();
        RelocationDone { result: Err(cause) }
    }
}

/// Writes a list of values into a new data segment; runs off the owner's thread.
#[must_use = "a relocation must be run and its result reported"]
pub struct Relocation {
    shared: Arc<SharedFiles>,
    writer: RelocationWriter,
    source: RelocationSource,
    /// Keeps the files that are copied from.
    pin: Pin,
}

/// Where the values come from. Each has its tag.
pub(super) enum RelocationSource {
    /// Files of this log.
    Stored(Vec<(StoredValue, Bytes)>),
    /// A peer; each with its checksum.
    Received(Vec<(Bytes, u32, Bytes)>),
}

impl Relocation {
    pub(super) fn new(
        shared: &Arc<SharedFiles>,
        writer: RelocationWriter,
        source: RelocationSource,
    ) -> Relocation {
        Relocation { shared: shared.clone(), writer, source, pin: Pin::new(shared) }
    }

    /// Writes the values.
    pub fn run(self) -> RelocationDone {
        let Relocation { shared, mut writer, source, pin } = self;
        let written = match source {
            RelocationSource::Stored(values) => copy(&shared, &mut writer, &values),
            RelocationSource::Received(values) => write(&mut writer, &values),
        };
        drop(pin);
        match written {
            Ok(()) => writer.finish(),
            Err(error) => writer.abandon(error),
        }
    }
}

/// Copies values of this log. One that cannot be read is left out; a failed write fails the job.
fn copy(
    shared: &SharedFiles,
    writer: &mut RelocationWriter,
    values: &[(StoredValue, Bytes)],
) -> Result<(), JobError> {
    for batch in values.chunks(BATCH_VALUES) {
        let stored: Vec<StoredValue> = batch.iter().map(|(value, _)| *value).collect();
        for (read, (value, tag)) in shared.read_many(&stored).into_iter().zip(batch) {
            match read {
                Ok(bytes) => writer.push(&bytes, value.checksum, tag)?,
                Err(error) => writer.addresses.push(Err(error)),
            }
        }
    }
    Ok(())
}

/// Writes values that were received, after checking each.
fn write(writer: &mut RelocationWriter, values: &[(Bytes, u32, Bytes)]) -> Result<(), JobError> {
    values.iter().try_for_each(|(bytes, checksum, tag)| match crc32c::crc32c(bytes) == *checksum {
        true => writer.push(bytes, *checksum, tag),
        false => Err(JobError::Mismatch("a value".to_owned())),
    })
}
