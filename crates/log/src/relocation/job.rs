//! The relocation job: reads and checks values, and writes them into a new data segment. Runs off the owner's thread.

use std::sync::Arc;

use bytes::Bytes;

use super::data_segment::{DataSegment, DataSegmentWriter};
use crate::error::{JobError, ReadError};
use crate::read::{Pin, SharedFiles};
use crate::types::StoredValue;

/// Values read at once.
const BATCH_VALUES: usize = 256;

/// Copies values into a new data segment; runs off the owner's thread.
#[must_use = "a relocation must be run and its result reported"]
pub struct Relocation {
    shared: Arc<SharedFiles>,
    writer: DataSegmentWriter,
    source: RelocationSource,
    /// Keeps the files that are copied from.
    pin: Pin,
}

/// Where the values come from.
pub(super) enum RelocationSource {
    /// Files of this log.
    Stored(Vec<StoredValue>),
    /// A peer; each with its checksum.
    Received(Vec<(Bytes, u32)>),
}

/// The result of a relocation, for [`crate::Log::relocated`].
#[must_use = "the owner needs the new addresses"]
pub struct RelocationDone {
    pub(super) result: Result<CopiedValues, JobError>,
}

pub(super) struct CopiedValues {
    /// None if no value could be copied.
    pub(super) file: Option<DataSegment>,
    pub(super) addresses: Vec<Result<u64, ReadError>>,
}

impl Relocation {
    pub(super) fn new(
        shared: &Arc<SharedFiles>,
        writer: DataSegmentWriter,
        source: RelocationSource,
    ) -> Relocation {
        Relocation { shared: shared.clone(), writer, source, pin: Pin::new(shared) }
    }

    /// Copies the values.
    pub fn run(self) -> RelocationDone {
        let Relocation { shared, mut writer, source, pin } = self;
        let addresses = match source {
            RelocationSource::Stored(values) => copy(&shared, &mut writer, &values),
            RelocationSource::Received(values) => write(&mut writer, &values),
        };
        drop(pin);
        let result = addresses.and_then(|addresses| {
            let file = match addresses.iter().any(Result::is_ok) {
                true => Some(writer.finish()?),
                false => None,
            };
            Ok(CopiedValues { file, addresses })
        });
        RelocationDone { result }
    }
}

/// Copies values of this log. One that cannot be read is left out; a failed write fails the job.
fn copy(
    shared: &SharedFiles,
    writer: &mut DataSegmentWriter,
    values: &[StoredValue],
) -> Result<Vec<Result<u64, ReadError>>, JobError> {
    let mut addresses = Vec::with_capacity(values.len());
    for batch in values.chunks(BATCH_VALUES) {
        for value in shared.read_many(batch) {
            addresses.push(match value {
                Ok(bytes) => Ok(writer.push(&bytes)?),
                Err(error) => Err(error),
            });
        }
    }
    Ok(addresses)
}

/// Writes values that were received, after checking each.
fn write(
    writer: &mut DataSegmentWriter,
    values: &[(Bytes, u32)],
) -> Result<Vec<Result<u64, ReadError>>, JobError> {
    let mut addresses = Vec::with_capacity(values.len());
    for (bytes, checksum) in values {
        if crc32c::crc32c(bytes) != *checksum {
            return Err(JobError::Mismatch("a value".to_owned()));
        }
        addresses.push(Ok(writer.push(bytes)?));
    }
    Ok(addresses)
}
