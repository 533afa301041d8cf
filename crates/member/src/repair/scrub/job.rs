//! A part of a round of the scrub: reads some entries, some of a checkpoint file, or some values, and says what is
//! damaged.

use bytes::Bytes;
use log::{CheckpointFile, FileChunks, OpenError, ReadError};
use store::{Reader, VersionPosition};

/// Bytes read by one job, unless a single entry or value is larger: at most 16 reads one after the other, which a write
/// of a client may have to wait for.
pub(super) const MAX_JOB_BYTES: u64 = 64 << 10;

/// A read of a small value counts as so many bytes: the disk reads a page.
pub(super) const MIN_READ_BYTES: u64 = 4096;

/// Versions looked up at once, of one key or of several: some microseconds of the store's lock.
pub(super) const MAX_LOOK_UP_VERSIONS: usize = 64;

/// Look-ups of one job: it ends after some milliseconds although no version has a value to read.
pub(super) const MAX_JOB_LOOK_UPS: usize = 256;

/// What a round has read and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubTotals {
    /// Bytes read, a small value counted as a page.
    pub bytes: u64,
    /// Damaged entries, checkpoint files and values.
    pub damaged: u64,
}

/// A part of a round.
pub struct ScrubJob(pub(super) ScrubRead);

pub(super) enum ScrubRead {
    Entries { from: u64, to: u64, job: log::ReadJob },
    Checkpoint { file: CheckpointFile, chunks: Option<FileChunks> },
    Values { from: VersionPosition, reader: Reader, files: log::Reader },
}

/// What a part of a round has found.
pub struct Scrubbed {
    pub(super) bytes: u64,
    pub(super) found: ScrubFound,
}

pub(super) enum ScrubFound {
    /// These entries were read, or one of them cannot be.
    Entries { from: u64, to: u64, read: Result<u64, ReadError> },
    /// Where to go on in a file, `None` at its end; or what is wrong with it.
    Checkpoint { file: CheckpointFile, rest: Result<Option<FileChunks>, OpenError> },
    /// Keys and addresses of damaged values; where to go on.
    Values { damaged: Vec<(Bytes, u64)>, rest: Option<VersionPosition> },
}

impl ScrubJob {
    /// Reads; blocks on the disk.
    pub fn run(self) -> Scrubbed {
        match self.0 {
            ScrubRead::Entries { from, to, job } => {
                let read = job.run();
                let read = read.map(|entries| entries.iter().map(|entry| entry.payload.len() as u64).sum());
                let bytes = read.as_ref().map_or(MIN_READ_BYTES, |bytes: &u64| *bytes + MIN_READ_BYTES);
                Scrubbed { bytes, found: ScrubFound::Entries { from, to, read } }
            }
            ScrubRead::Checkpoint { file, chunks } => {
                let mut bytes = MIN_READ_BYTES;
                let rest = read_checkpoint(&file, chunks, &mut bytes);
                Scrubbed { bytes, found: ScrubFound::Checkpoint { file, rest } }
            }
            ScrubRead::Values { from, reader, files } => read_values(from, &reader, &files),
        }
    }
}

/// Reads chunks of a file, from its beginning unless it is open, until enough bytes are read. Adds their number.
fn read_checkpoint(
    file: &CheckpointFile,
    chunks: Option<FileChunks>,
    bytes: &mut u64,
) -> Result<Option<FileChunks>, OpenError> {
    let mut chunks = match chunks {
        Some(chunks) => chunks,
        None => file.open()?,
    };
    while *bytes < MAX_JOB_BYTES {
        match chunks.next().transpose()? {
            Some(chunk) => *bytes += chunk.len() as u64,
            None => return Ok(None),
        }
    }
    Ok(Some(chunks))
}

/// Reads values from a place on until enough bytes are read, or enough versions were looked at.
fn read_values(from: VersionPosition, reader: &Reader, files: &log::Reader) -> Scrubbed {
    // The pin comes first: it keeps the files of whatever the index shows.
    let pin = files.pin();
    let mut damaged = Vec::new();
    let (mut bytes, mut rest) = (0, Some(from));
    for _ in 0..MAX_JOB_LOOK_UPS {
        let Some(position) = rest else { break };
        let (references, next) = reader.live_references(|_| true, &position, MAX_LOOK_UP_VERSIONS);
        for reference in references {
            let value = &reference.value;
            bytes += u64::from(value.len).max(MIN_READ_BYTES);
            match pin.read(value.address, value.len, value.checksum) {
                Err(error) if !error.is_out_of_descriptors() => {
                    damaged.push((reference.key.clone(), value.address));
                }
                _ => {}
            }
            if bytes >= MAX_JOB_BYTES {
                let rest = VersionPosition { key: reference.key, after: Some(reference.revision) };
                return Scrubbed { bytes, found: ScrubFound::Values { damaged, rest: Some(rest) } };
            }
        }
        rest = next;
    }
    Scrubbed { bytes, found: ScrubFound::Values { damaged, rest } }
}
