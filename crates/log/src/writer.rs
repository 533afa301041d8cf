//! Write jobs: what the log thread runs. Group commit is running many at once.

use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::disk::File;
use crate::error::Fatal;
use crate::files::ValueFile;
use crate::prepare::Workshop;
use crate::reader::Shelf;

/// Writes planned by the owner. Run them in the order they were handed out.
#[must_use = "what is planned must be written, or the log has a hole"]
pub struct WriteJob {
    pub(crate) shelf: Arc<Shelf>,
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
    pub(crate) offset: u64,
    pub(crate) buffers: Vec<Bytes>,
}

/// How to make a segment: anew, or out of an old file.
pub(crate) struct Creation {
    pub(crate) workshop: Workshop,
    pub(crate) old: Option<PathBuf>,
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
fn open(shelf: &Shelf, group: &[&Part]) -> Result<Arc<dyn File>, Fatal> {
    let file = &group[0].file;
    if let Some(Creation { workshop, old }) = group.iter().find_map(|part| part.create.as_ref()) {
        let path = workshop.layout.segment(file.number);
        let prepared =
            workshop.segment(file.number, old.as_ref()).map_err(Fatal::io("create segment", &path))?;
        file.place_at(&prepared.path, Some(prepared.handle));
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

/// Writes a group of parts of one file; those that touch go in one call.
fn write(handle: &Arc<dyn File>, group: &[&Part]) -> Result<(), Fatal> {
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
        let path = group[0].file.shown_path();
        handle.write_at(&slices, offset).map_err(Fatal::io("write", &path))?;
    }
    Ok(())
}
