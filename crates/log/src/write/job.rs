//! Write jobs: what a flusher runs, that is the log thread or the reader of a peer's stream. Jobs that wait together
//! share one sync: a *flush* is what is written to a file before a sync of it.
//!
//! # Zeros ahead of small flushes
//!
//! The first write to a block that was only allocated makes its sync update the file system's metadata, which takes
//! about as long as the sync itself. Writing zeros to whole segments in advance would write everything twice. Therefore
//! only a *small* flush that reaches new blocks, after other small flushes, writes zeros after itself, up to the next
//! multiple of [`AHEAD_BYTES`]. The small flushes that follow find written blocks:
//!
//! ```text
//!   8th small flush in a row          the next dozens of small flushes overwrite the zeros
//!   | records | 0 0 0 0 0 0 0 0 ... 0 |
//!                                     ^ 32 KiB boundary
//! ```
//!
//! Large flushes would gain little, and so would a small flush between large ones, which occurs under load. Zeros are
//! not a record, so for recovery the log ends before them.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::disk::File;
use crate::error::Fatal;
use crate::format::{ALIGNMENT, HEADER_BYTES};
use crate::read::{SharedFiles, ValueFile};

/// Zeros are written up to the next multiple of this; dozens of small flushes fit in.
const AHEAD_BYTES: u64 = 32 << 10;
/// A flush is small up to this length: a page, which the disk writes even for a single command.
const MAX_SMALL_FLUSH_BYTES: u64 = 4 << 10;
/// After this many small flushes in a row, more are expected.
const MIN_SMALL_FLUSHES: u32 = 8;
/// Zeros are written a page at a time: Linux may cache the bytes of one call as one folio, and a later small write
/// would make all of it dirty again.
const ZEROS_PER_CALL: u64 = 4 << 10;
static ZEROS: [u8; ZEROS_PER_CALL as usize] = [0; ZEROS_PER_CALL as usize];

/// Writes planned by the owner. Run them in the order they were handed out.
#[must_use = "a planned write that is not run leaves a hole in the log"]
pub struct WriteJob {
    pub(crate) shared: Arc<SharedFiles>,
    pub(crate) parts: Vec<WritePart>,
    /// Log position before these writes.
    pub(crate) start: u64,
    /// Log position after these writes.
    pub(crate) end: u64,
}

/// Adjacent bytes of one file.
pub(crate) struct WritePart {
    pub(crate) file: Arc<ValueFile>,
    /// Length of the file.
    pub(crate) capacity: u64,
    pub(crate) offset: u64,
    pub(crate) buffers: Vec<Bytes>,
}

impl WritePart {
    /// An empty part of a file of `capacity` bytes.
    pub(crate) fn new(file: Arc<ValueFile>, capacity: u64, offset: u64) -> WritePart {
        WritePart { file, capacity, offset, buffers: Vec::new() }
    }
}

/// The result of write jobs that ran together, for [`crate::Log::complete`].
#[derive(Debug)]
#[must_use = "the owner needs the result of its writes"]
pub struct WriteDone {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) result: Result<(), Fatal>,
    /// How long each sync took, in order; for metrics and slow-disk warnings.
    pub sync_times: Vec<Duration>,
    /// How long the writes before each sync took.
    pub write_times: Vec<Duration>,
}

impl WriteJob {
    /// Bytes that it writes; for limits and metrics.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().flat_map(|part| &part.buffers).map(|buffer| buffer.len() as u64).sum()
    }

    /// The log position which is durable when this job is done.
    pub fn position(&self) -> u64 {
        self.end
    }

    /// Writes and syncs the jobs file by file, in order. A segment is synced before the next is written: a segment with
    /// an opening proves that all earlier segments are durable. `clock` returns
    /// the time since any fixed moment.
    pub fn run_all(jobs: Vec<WriteJob>, clock: &dyn Fn() -> Duration) -> WriteDone {
        let in_order = jobs.windows(2).all(|pair| pair[0].end == pair[1].start);
        assert!(in_order, "jobs run in the order in which they were planned");
        let start = jobs.first().map_or(0, |job| job.start);
        let end = jobs.last().map_or(0, |job| job.end);
        let (mut sync_times, mut write_times) = (Vec::new(), Vec::new());
        let result = run(&jobs, clock, &mut sync_times, &mut write_times);
        WriteDone { start, end, result, sync_times, write_times }
    }
}

fn run(
    jobs: &[WriteJob],
    clock: &dyn Fn() -> Duration,
    sync_times: &mut Vec<Duration>,
    write_times: &mut Vec<Duration>,
) -> Result<(), Fatal> {
    let Some(shared) = jobs.first().map(|job| &job.shared) else { return Ok(()) };
    let parts: Vec<&WritePart> = jobs.iter().flat_map(|job| &job.parts).collect();
    let mut rest = parts.as_slice();
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|part| part.file.number == first.file.number).count();
        let (flush, others) = rest.split_at(same);
        let path = first.file.shown_path();
        let handle = shared.files.open(&first.file).map_err(Fatal::io("open", &path))?;
        let opened = clock();
        write(&handle, flush)?;
        let begun = clock();
        write_times.push(begun.saturating_sub(opened));
        handle.sync_data().map_err(Fatal::io("sync", &path))?;
        sync_times.push(clock().saturating_sub(begun));
        rest = others;
    }
    Ok(())
}

/// Writes the parts of a flush, all of one file; adjacent parts are written with one call. Zeros may follow the last.
fn write(handle: &Arc<dyn File>, flush: &[&WritePart]) -> Result<(), Fatal> {
    let file = &flush[0].file;
    let path = file.shown_path();
    let mut at = 0;
    while at < flush.len() {
        let offset = flush[at].offset;
        assert!(offset >= HEADER_BYTES && offset.is_multiple_of(ALIGNMENT), "no record begins at {offset}");
        let mut end = offset;
        let mut slices = Vec::new();
        while at < flush.len() && flush[at].offset == end {
            for buffer in &flush[at].buffers {
                slices.push(IoSlice::new(buffer));
                end += buffer.len() as u64;
            }
            at += 1;
        }
        assert!(end <= flush[0].capacity, "records end at {end}, the file at {}", flush[0].capacity);
        handle.write_at(&slices, offset).map_err(Fatal::io("write", &path))?;
        if at == flush.len() {
            let small_flushes = file.note_flush(end - offset <= MAX_SMALL_FLUSH_BYTES);
            let ahead = zeros_ahead(small_flushes, end, file.written(), flush[0].capacity);
            end = write_zeros(handle, end, end + ahead).map_err(Fatal::io("write", &path))?;
        }
        file.note_written(end);
    }
    Ok(())
}

/// Writes zeros over `from..to`; returns `to`.
fn write_zeros(handle: &Arc<dyn File>, mut from: u64, to: u64) -> io::Result<u64> {
    while from < to {
        let next = (from + 1).next_multiple_of(ZEROS_PER_CALL).min(to);
        handle.write_at(&[IoSlice::new(&ZEROS[..(next - from) as usize])], from)?;
        from = next;
    }
    Ok(to)
}

/// Bytes of zeros to write after the last of `small_flushes` in a row, which ends at `end`, in a file of `capacity`
/// bytes whose blocks have been written up to `written`.
fn zeros_ahead(small_flushes: u32, end: u64, written: u64, capacity: u64) -> u64 {
    if small_flushes < MIN_SMALL_FLUSHES || end <= written {
        return 0;
    }
    end.next_multiple_of(AHEAD_BYTES).min(capacity).saturating_sub(end)
}

#[cfg(test)]
mod tests {
    //! Which flushes write zeros after themselves, and how many.
    use super::*;

    #[test]
    fn small_flushes_in_a_row_write_zeros_once() {
        let capacity = 64 << 20;
        assert_eq!(zeros_ahead(MIN_SMALL_FLUSHES, 1_000, 64, capacity), AHEAD_BYTES - 1_000);
        assert_eq!(
            zeros_ahead(MIN_SMALL_FLUSHES + 1, 1_400, AHEAD_BYTES, capacity),
            0,
            "its blocks are written"
        );
        assert_eq!(zeros_ahead(99, AHEAD_BYTES, AHEAD_BYTES, capacity), 0);
        assert_eq!(zeros_ahead(99, AHEAD_BYTES + 8, AHEAD_BYTES, capacity), AHEAD_BYTES - 8);
        assert_eq!(zeros_ahead(0, 8_000, 64, capacity), 0, "a large flush");
        assert_eq!(zeros_ahead(MIN_SMALL_FLUSHES - 1, 8_000, 64, capacity), 0, "small ones among large ones");
    }

    #[test]
    fn zeros_never_lengthen_a_file() {
        assert_eq!(zeros_ahead(MIN_SMALL_FLUSHES, 1_000, 64, 4_096), 3_096);
        assert_eq!(zeros_ahead(MIN_SMALL_FLUSHES, 4_096, 64, 4_096), 0);
    }

    #[test]
    fn a_large_flush_ends_a_row_of_small_ones() {
        let file = ValueFile::new(1, None);
        assert_eq!([true, true, false, true].map(|is_small| file.note_flush(is_small)), [1, 2, 0, 1]);
    }
}
