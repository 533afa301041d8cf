//! Write jobs: what the log thread runs. Group commit is running many at once.
//!
//! Blocks that were allocated and never written cost the sync that reaches them first a change of the file system's
//! metadata. Zeroing whole files beforehand would write everything twice; so only a *small* group that enters such
//! blocks behind other small ones writes zeros behind itself, up to the next multiple of [`AHEAD_BYTES`], and the
//! small groups that follow find written blocks. Large groups would gain little for many bytes, and so would a small
//! one among large ones, as they come by under load: what follows it overwrites the zeros. Zeros behind the last
//! record end the log as anything does that was never a record of the segment.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::disk::File;
use crate::error::Fatal;
use crate::files::ValueFile;
use crate::prepare::{SegmentFactory, Used};
use crate::reader::SharedFiles;

/// Small groups are spared new blocks up to the next multiple of this; dozens of them fit in.
const AHEAD_BYTES: u64 = 32 << 10;
/// A group is small up to this length: a page, which is what the disk writes for a single command anyway.
const SMALL_GROUP_BYTES: u64 = 4 << 10;
/// So many small groups in a row are taken for the beginning of many.
const SMALL_GROUPS: u32 = 8;
/// Zeros are written a page at a time: what one call writes Linux may keep in memory as one piece, all of which a later
/// small write makes dirty again.
const ZEROS_PER_CALL: u64 = 4 << 10;
static ZEROS: [u8; ZEROS_PER_CALL as usize] = [0; ZEROS_PER_CALL as usize];

/// Writes planned by the owner. Run them in the order they were handed out.
#[must_use = "what is planned must be written, or the log has a hole"]
pub struct WriteJob {
    pub(crate) shelf: Arc<SharedFiles>,
    pub(crate) parts: Vec<Part>,
    /// Log position after these writes.
    pub(crate) end: u64,
}

/// Adjacent bytes of one file.
pub(crate) struct Part {
    pub(crate) file: Arc<ValueFile>,
    /// The file was not prepared in time and is made first.
    pub(crate) create: Option<Creation>,
    /// A first record larger than a segment: the file is lengthened first.
    pub(crate) grow_to: Option<u64>,
    /// Length of the file.
    pub(crate) capacity: u64,
    pub(crate) offset: u64,
    pub(crate) buffers: Vec<Bytes>,
}

/// How to make a segment: anew, or out of an old file.
pub(crate) struct Creation {
    pub(crate) workshop: SegmentFactory,
    pub(crate) old: Option<Used>,
}

/// What became of a group of write jobs. Goes back to [`crate::Log::complete`].
#[derive(Debug)]
#[must_use = "the owner has to learn what became of its writes"]
pub struct WriteDone {
    pub(crate) end: u64,
    pub(crate) result: Result<(), Fatal>,
    /// How long each sync took, in order; for metrics and slow-disk warnings.
    pub sync_times: Vec<Duration>,
}

impl WriteJob {
    /// Bytes it writes; for limits and metrics.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().flat_map(|part| &part.buffers).map(|buffer| buffer.len() as u64).sum()
    }

    /// The log position which is durable when this job is done.
    pub fn position(&self) -> u64 {
        self.end
    }

    /// Writes everything, then syncs once. A group that goes on in another segment syncs the first before it
    /// writes into the next: a segment that has been begun proves that the ones before it are durable.
    /// `clock` tells the time since any fixed moment.
    pub fn run_all(jobs: Vec<WriteJob>, clock: &dyn Fn() -> Duration) -> WriteDone {
        let end = jobs.iter().map(|job| job.end).max().unwrap_or(0);
        let mut sync_times = Vec::new();
        let result = run(&jobs, clock, &mut sync_times);
        WriteDone { end, result, sync_times }
    }
}

fn run(jobs: &[WriteJob], clock: &dyn Fn() -> Duration, times: &mut Vec<Duration>) -> Result<(), Fatal> {
    let Some(shelf) = jobs.first().map(|job| &job.shelf) else { return Ok(()) };
    let parts: Vec<&Part> = jobs.iter().flat_map(|job| &job.parts).collect();
    let mut rest = parts.as_slice();
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|part| part.file.number == first.file.number).count();
        let (group, others) = rest.split_at(same);
        let handle = open(shelf, group)?;
        write(&handle, group)?;
        let begun = clock();
        handle.sync_data().map_err(Fatal::io("sync", &first.file.shown_path()))?;
        times.push(clock().saturating_sub(begun));
        rest = others;
    }
    Ok(())
}

/// The handle of the file of a group, which is made or lengthened if a part says so.
fn open(shelf: &SharedFiles, group: &[&Part]) -> Result<Arc<dyn File>, Fatal> {
    let file = &group[0].file;
    if let Some(Creation { workshop, old }) = group.iter().find_map(|part| part.create.as_ref()) {
        let path = workshop.layout.segment(file.number);
        let prepared =
            workshop.segment(file.number, old.as_ref()).map_err(Fatal::io("create segment", &path))?;
        file.set_location(&prepared.path, Some(prepared.handle));
        file.note_written(prepared.written);
    }
    let path = file.shown_path();
    let handle = shelf.files.open(file).map_err(Fatal::io("open", &path))?;
    if let Some(length) = group.iter().find_map(|part| part.grow_to) {
        handle.allocate(length).map_err(Fatal::io("lengthen", &path))?;
        // Whatever a crash leaves of the record, the file is long enough for it.
        handle.sync_data().map_err(Fatal::io("sync", &path))?;
    }
    Ok(handle)
}

/// Writes a group of parts of one file; those that touch go in one call. Zeros may follow the last.
fn write(handle: &Arc<dyn File>, group: &[&Part]) -> Result<(), Fatal> {
    let file = &group[0].file;
    let path = file.shown_path();
    let mut at = 0;
    while at < group.len() {
        let offset = group[at].offset;
        let mut end = offset;
        let mut slices = Vec::new();
        while at < group.len() && group[at].offset == end {
            for buffer in &group[at].buffers {
                slices.push(IoSlice::new(buffer));
                end += buffer.len() as u64;
            }
            at += 1;
        }
        handle.write_at(&slices, offset).map_err(Fatal::io("write", &path))?;
        if at == group.len() {
            let small_groups = file.note_group(end - offset <= SMALL_GROUP_BYTES);
            let ahead = zeros_ahead(small_groups, end, file.written(), group[0].capacity);
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

/// Zeros to write behind the last of `small_groups` in a row, which ends at `end`, in a file of `capacity` bytes whose
/// blocks have been written up to `written`.
fn zeros_ahead(small_groups: u32, end: u64, written: u64, capacity: u64) -> u64 {
    if small_groups < SMALL_GROUPS || end <= written {
        return 0;
    }
    end.next_multiple_of(AHEAD_BYTES).min(capacity).saturating_sub(end)
}

#[cfg(test)]
mod tests {
    //! Who writes zeros behind itself, and how many.
    use super::*;

    #[test]
    fn small_groups_in_a_row_write_zeros_ahead_of_those_that_follow_once() {
        let capacity = 64 << 20;
        assert_eq!(zeros_ahead(SMALL_GROUPS, 1_000, 64, capacity), AHEAD_BYTES - 1_000);
        assert_eq!(zeros_ahead(SMALL_GROUPS + 1, 1_400, AHEAD_BYTES, capacity), 0, "its blocks are written");
        assert_eq!(zeros_ahead(99, AHEAD_BYTES, AHEAD_BYTES, capacity), 0);
        assert_eq!(zeros_ahead(99, AHEAD_BYTES + 8, AHEAD_BYTES, capacity), AHEAD_BYTES - 8);
        assert_eq!(zeros_ahead(0, 8_000, 64, capacity), 0, "a large group");
        assert_eq!(zeros_ahead(SMALL_GROUPS - 1, 8_000, 64, capacity), 0, "small ones among large ones");
    }

    #[test]
    fn zeros_never_lengthen_a_file() {
        assert_eq!(zeros_ahead(SMALL_GROUPS, 1_000, 64, 4_096), 3_096);
        assert_eq!(zeros_ahead(SMALL_GROUPS, 4_096, 64, 4_096), 0);
    }

    #[test]
    fn a_large_group_ends_a_row_of_small_ones() {
        let file = ValueFile::new(1, None);
        assert_eq!([true, true, false, true].map(|is_small| file.note_group(is_small)), [1, 2, 0, 1]);
    }
}
