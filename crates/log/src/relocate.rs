//! Giving space back without a pause: live values leave files that hold little else.
//!
//! The order is what makes it safe: values are copied (and checked) into a data segment, which is durable
//! before anybody hears of it; the owner switches the references; a checkpoint begun after that is made
//! durable; whoever may still hold an old reference lets go of its pin; then the old file is freed.

use std::sync::Arc;

use bytes::Bytes;

use crate::data_segment::{DataFile, DataWriter};
use crate::error::{JobError, ReadError};
use crate::header::HEADER_BYTES;
use crate::log::Log;
use crate::prepare::SegmentFactory;
use crate::reader::{Pin, SharedFiles};
use crate::types::StoredValue;

/// A file is worth relocating when at most this share (percent) of what it holds is referenced: three
/// quarters of it come back for a quarter of its bytes written again.
const LIVE_PERCENT: u64 = 25;
/// The same after `Defragment` asked for all space that can be had; the rest is not worth a copy of
/// everything.
const LIVE_PERCENT_EAGER: u64 = 90;
/// Values read at once.
const BATCH_VALUES: usize = 256;

/// A file from which the live values should move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number: the values are those whose place lies in it, see [`crate::file_of`].
    pub file: u32,
    /// Bytes referenced in it.
    pub live_bytes: u64,
    /// Bytes it holds.
    pub file_bytes: u64,
}

/// Copies values into a new data segment; runs off the owner's thread.
#[must_use = "a relocation must be run and its end reported"]
pub struct Relocation {
    shelf: Arc<SharedFiles>,
    writer: DataWriter,
    source: Source,
    /// Keeps the files copied from.
    pin: Pin,
}

enum Source {
    StoredValue(Vec<StoredValue>),
    Given(Vec<(Bytes, u32)>),
}

/// What became of a relocation. Goes back to [`Log::relocated`].
#[must_use = "the owner has to learn where the values are"]
pub struct RelocationDone {
    result: Result<Copied, JobError>,
}

struct Copied {
    file: Option<DataFile>,
    addresses: Vec<Result<u64, ReadError>>,
}

/// Where values have gone.
#[derive(Debug)]
pub struct Relocated {
    /// The new data segment; none if no value could be copied. Name it to [`Log::relocation_switched`].
    pub file: Option<u32>,
    /// The new place of each value in the order they were given, or why it could not be copied: a damaged
    /// value stays where it is, to be repaired.
    pub addresses: Vec<Result<u64, ReadError>>,
}

impl Log {
    /// Files whose live values should move, the emptiest first. Only what lies wholly below the compaction
    /// watermark, the raft log's needs and the newest checkpoint is offered. With `eager`, nearly every file
    /// that would shrink.
    pub fn relocation_candidates(&self, watermark_index: u64, eager: bool) -> Vec<Candidate> {
        let percent = if eager { LIVE_PERCENT_EAGER } else { LIVE_PERCENT };
        let needed = self.needed_segments(watermark_index);
        let files = self.shelf.files.all().into_iter();
        let mut candidates: Vec<Candidate> = files
            .filter(|file| !needed.contains(&file.number) && !self.young.contains(&file.number))
            .map(|file| Candidate { file: file.number, live_bytes: file.live(), file_bytes: file.recorded() })
            // A copy has a header too: without counting it, a file of few bytes would be copied for ever.
            .filter(|file| {
                let bytes = file.file_bytes.saturating_sub(HEADER_BYTES);
                file.live_bytes > 0 && file.live_bytes * 100 <= bytes * percent
            })
            .collect();
        candidates.sort_by_key(|file| (file.live_bytes, file.file));
        candidates
    }

    /// Plans to copy values into a new data segment, in the order given: key order makes lists read
    /// neighbours. They should not be more than [`crate::SEGMENT_BYTES`] together, and must stay well below 4
    /// GiB.
    pub fn relocate(&mut self, values: Vec<StoredValue>) -> Relocation {
        self.relocation(Source::StoredValue(values))
    }

    /// Plans to write values that a peer sent, each with its checksum, in place of damaged ones.
    pub fn write_repaired_values(&mut self, values: Vec<(Bytes, u32)>) -> Relocation {
        self.relocation(Source::Given(values))
    }

    /// Takes in what became of a relocation. The new file is kept, referenced or not, until
    /// [`Log::relocation_switched`].
    pub fn relocated(&mut self, done: RelocationDone) -> Result<Relocated, JobError> {
        let Copied { file, addresses } = done.result?;
        if let Some(file) = &file {
            self.adopt_data_file(file);
        }
        Ok(Relocated { file: file.map(|file| file.number), addresses })
    }

    /// Says that the references have been switched: retained at the new places, released at the old ones.
    pub fn relocation_switched(&mut self, file: u32) {
        self.young.remove(&file);
    }

    pub(crate) fn adopt_data_file(&mut self, file: &DataFile) {
        let adopted = self.shelf.files.insert(file.number, &file.path);
        self.shelf.files.set_recorded(&adopted, file.bytes);
        self.young.insert(file.number);
    }

    fn relocation(&mut self, source: Source) -> Relocation {
        let number = self.numbers.next();
        let writer = DataWriter::new(&self.workshop, number);
        Relocation { shelf: self.shelf.clone(), writer, source, pin: self.reader().pin() }
    }
}

impl Relocation {
    /// Copies the values.
    pub fn run(self) -> RelocationDone {
        let Relocation { shelf, mut writer, source, pin } = self;
        let addresses = match source {
            Source::StoredValue(values) => copy(&shelf, &mut writer, &values),
            Source::Given(values) => write(&mut writer, &values),
        };
        drop(pin);
        let result = addresses.and_then(|addresses| {
            let file = match addresses.iter().any(Result::is_ok) {
                true => Some(writer.finish()?),
                false => None,
            };
            Ok(Copied { file, addresses })
        });
        RelocationDone { result }
    }
}

type Places = Result<Vec<Result<u64, ReadError>>, JobError>;

fn copy(shelf: &SharedFiles, writer: &mut DataWriter, values: &[StoredValue]) -> Places {
    let mut addresses = Vec::with_capacity(values.len());
    for batch in values.chunks(BATCH_VALUES) {
        for value in shelf.read_many(batch) {
            addresses.push(match value {
                Ok(bytes) => Ok(writer.push(&bytes)?),
                Err(error) => Err(error),
            });
        }
    }
    Ok(addresses)
}

fn write(writer: &mut DataWriter, values: &[(Bytes, u32)]) -> Places {
    let mut addresses = Vec::with_capacity(values.len());
    for (bytes, checksum) in values {
        if crc32c::crc32c(bytes) != *checksum {
            return Err(JobError::Mismatch("a value".to_owned()));
        }
        addresses.push(Ok(writer.push(bytes)?));
    }
    Ok(addresses)
}

/// Writes values and hands out the next data segment when one is full.
pub(crate) struct DataWriters {
    workshop: SegmentFactory,
    numbers: crate::spares::Numbers,
    current: Option<DataWriter>,
    finished: Vec<DataFile>,
}

impl DataWriters {
    pub(crate) fn new(workshop: &SegmentFactory, numbers: &crate::spares::Numbers) -> DataWriters {
        DataWriters {
            workshop: workshop.clone(),
            numbers: numbers.clone(),
            current: None,
            finished: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, value: &[u8]) -> Result<u64, JobError> {
        let full = |writer: &DataWriter| writer.bytes() + value.len() as u64 > self.workshop.segment_bytes;
        if self.current.as_ref().is_some_and(full) {
            self.finish_current()?;
        }
        let current =
            self.current.get_or_insert_with(|| DataWriter::new(&self.workshop, self.numbers.next()));
        current.push(value)
    }

    pub(crate) fn finish_current(&mut self) -> Result<(), JobError> {
        if let Some(current) = self.current.take() {
            self.finished.push(current.finish()?);
        }
        Ok(())
    }

    pub(crate) fn finished(&self) -> &[DataFile] {
        &self.finished
    }

    /// Removes everything written; best effort, since files that nothing references go at the next open.
    pub(crate) fn discard(&mut self) {
        if let Some(current) = self.current.take() {
            current.discard();
        }
        for file in self.finished.drain(..) {
            let _ = self.workshop.disk.remove(&file.path);
        }
    }
}
