//! Work off the hot path: preparing, recycling and removing files, one small job at a time.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::is_full;
use crate::files::ValueFile;
use crate::log::{Log, Retired, Segment};
use crate::mover::{Move, Moved};
use crate::prepare::{Prepared, SegmentFactory, Used};

/// Something to do on a background thread. Jobs may run in any order and beside each other.
#[must_use = "the owner counts on it being run"]
pub struct BackgroundJob(Work);

enum Work {
    Prepare { workshop: SegmentFactory, number: u32, old: Option<Used> },
    Remove { disk: Arc<dyn Disk>, path: PathBuf },
    Move(Move),
}

/// What became of a background job. Goes back to [`Log::background_done`].
#[must_use = "the owner has to learn what became of its jobs"]
pub struct BackgroundDone(Outcome);

enum Outcome {
    Prepared { number: u32, result: io::Result<Prepared> },
    Removed { path: PathBuf, result: io::Result<()> },
    Moved(Moved),
}

/// A background job failed. The log works on; it will be tried again or cleaned up when the log is next
/// opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct BackgroundError {
    /// What was tried.
    pub action: &'static str,
    /// With what.
    pub path: PathBuf,
    /// The operating system's answer.
    pub source: io::Error,
}

impl BackgroundJob {
    /// Does it.
    pub fn run(self) -> BackgroundDone {
        BackgroundDone(match self.0 {
            Work::Prepare { workshop, number, old } => {
                Outcome::Prepared { number, result: workshop.segment(number, old.as_ref()) }
            }
            Work::Remove { disk, path } => {
                let result = match disk.remove(&path) {
                    // A checkpoint given up before its first write has no file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    other => other,
                };
                Outcome::Removed { path, result }
            }
            Work::Move(work) => Outcome::Moved(work.run()),
        })
    }
}

impl Log {
    /// The next thing to do in the background, if any.
    pub fn next_job(&mut self) -> Option<BackgroundJob> {
        self.retire_unreferenced();
        self.release_retired();
        let work =
            self.prepare_job().or_else(|| self.remove_job()).or_else(|| self.move_job().map(Work::Move));
        work.map(BackgroundJob)
    }

    /// Takes in what became of a background job.
    pub fn background_done(&mut self, done: BackgroundDone) -> Result<(), BackgroundError> {
        match done.0 {
            Outcome::Prepared { number, result } => self.prepared(number, result),
            Outcome::Removed { path, result } => {
                self.spares.full = false;
                result.map_err(|source| BackgroundError { action: "remove", path, source })
            }
            Outcome::Moved(moved) => self.moved(moved),
        }
    }

    /// Tries again to allocate the next segment and the reserve: space may have come back. To be called now
    /// and then while [`Log::space`] says `Low`.
    pub fn retry_space(&mut self) {
        self.spares.full = false;
    }

    fn prepare_job(&mut self) -> Option<Work> {
        if !self.spares.wants_more() {
            return None;
        }
        self.spares.preparing += 1;
        let old = self.spares.take_old();
        Some(Work::Prepare { workshop: self.workshop.clone(), number: self.numbers.next(), old })
    }

    fn prepared(&mut self, number: u32, result: io::Result<Prepared>) -> Result<(), BackgroundError> {
        self.spares.preparing -= 1;
        match result {
            Ok(prepared) => {
                let file = ValueFile::new(number, None);
                file.set_location(&prepared.path, Some(prepared.handle));
                file.note_written(prepared.written);
                self.spares.add(Arc::new(file), self.newest_segment());
                Ok(())
            }
            Err(source) => {
                // Whatever the reason, trying again at once would only spin; `retry_space` tries again.
                self.spares.full = true;
                let path = self.workshop.layout.segment(number);
                let action = if is_full(&source) { "allocate" } else { "prepare" };
                Err(BackgroundError { action, path, source })
            }
        }
    }

    fn remove_job(&mut self) -> Option<Work> {
        let path = self.removable.pop().or_else(|| Some(self.spares.take_surplus()?.path))?;
        Some(Work::Remove { disk: self.workshop.disk.clone(), path })
    }

    /// Files in which nothing is referenced now and nothing can be any more, since every entry in them is
    /// applied.
    pub(crate) fn without_references(&self, applied: u64) -> Vec<u32> {
        let unapplied = self.segments_from(|segment| segment.previous_index <= applied);
        let settled = |number: u32| !unapplied.contains(&number) && !self.young.contains(&number);
        let files = self.shelf.files.all();
        files.iter().filter(|file| file.live() == 0 && settled(file.number)).map(|file| file.number).collect()
    }

    /// Whether an open would read this file from one end to the other, and refuse it for damage.
    pub fn is_replayed(&self, file: u32) -> bool {
        let checkpoint = self.checkpoint_id().map_or(0, |id| id.index);
        self.segments_from(|segment| segment.previous_index <= checkpoint).contains(&file)
    }

    /// Bytes in files that could go if a checkpoint of the state after `applied` were made now and entries up to
    /// `forgotten` were given up.
    pub fn reclaimable_bytes(&self, applied: u64, forgotten: u64) -> u64 {
        let settled = applied.min(forgotten.max(self.index.base().index));
        let needed = self
            .segments_from(|segment| segment.previous_index <= settled && segment.opened_at <= self.durable);
        let going = |number: u32| self.retired.iter().any(|retired| retired.file.number == number);
        let free = self.without_references(applied).into_iter();
        let files = free.filter(|number| !needed.contains(number) && !going(*number));
        files.filter_map(|number| self.shelf.files.get(number)).map(|file| file.recorded()).sum()
    }

    /// Retires every file that no checkpoint, no reference and no replay needs.
    pub(crate) fn retire_unreferenced(&mut self) {
        if self.unreferenced.is_empty() {
            return;
        }
        let needed = self.needed_segments(u64::MAX);
        let candidates: Vec<u32> = self.unreferenced.difference(&needed).copied().collect();
        for number in candidates {
            let Some(file) = self.shelf.files.get(number) else {
                self.unreferenced.remove(&number);
                continue;
            };
            if self.moving == Some(number) {
                continue;
            }
            self.unreferenced.remove(&number);
            assert!(
                file.live() == 0,
                "file {number:08x} was referenced again after its entries were applied"
            );
            self.segments.retain(|segment| segment.number != number);
            if let Some(path) = file.path() {
                self.retire(file, path);
            }
        }
    }

    /// Puts a file away until nobody can hold a reference into it.
    pub(crate) fn retire(&mut self, file: Arc<ValueFile>, path: PathBuf) {
        let era = self.shelf.pins.end_era();
        let recyclable = path == self.workshop.layout.segment(file.number);
        self.retired.push(Retired { file, path, era, recyclable });
    }

    /// Segments that recovery would replay, that raft may ask for, or that alone carry the hard state.
    /// `watermark_index` asks for more than that to be kept.
    pub(crate) fn needed_segments(&self, watermark_index: u64) -> BTreeSet<u32> {
        let checkpoint = self.checkpoints.chain.last().map_or(0, |link| link.id.index);
        let settled = checkpoint.min(self.index.base().index).min(watermark_index);
        self.segments_from(|segment| segment.previous_index <= settled && segment.opened_at <= self.durable)
    }

    /// The last segment that covers something, and all behind it; all segments if none does.
    fn segments_from(&self, covers: impl Fn(&Segment) -> bool) -> BTreeSet<u32> {
        let start = self.segments.iter().rposition(covers).unwrap_or(0);
        self.segments.iter().skip(start).map(|segment| segment.number).collect()
    }

    /// Recycles or removes retired files whose readers are gone.
    fn release_retired(&mut self) {
        let pins = &self.shelf.pins;
        let (over, waiting) =
            std::mem::take(&mut self.retired).into_iter().partition(|retired| pins.is_over(retired.era));
        self.retired = waiting;
        let over: Vec<Retired> = over;
        for Retired { file, path, recyclable, .. } in over {
            // A segment that has moved lives on under its number.
            if file.path().as_ref() == Some(&path) {
                self.shelf.files.remove(file.number);
            }
            match recyclable && self.spares.wants_old() {
                true => self.spares.add_old(Used { path, written: file.written() }),
                false => self.removable.push(path),
            }
        }
    }
}
