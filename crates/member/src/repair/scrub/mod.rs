//! The scrub: reads all entries of the log, all checkpoint files and all values, slowly, so that damage is repaired
//! while peers still have intact copies, and before a client, a follower or a start wants what is damaged.
//!
//! A *round* reads what there is when it comes there: first the entries that the log retains, then the chain
//! of checkpoints, then the values of all retained versions, in the order of keys. It reads a little, then pauses for
//! as long as [`pauses`] says, so that it keeps its rate and no client waits long for the disk because of it:
//!
//! ```text
//! entries 400 to 900    job: 64 KiB of them    pause    job    pause ...     entry 512 is damaged -> repair
//! checkpoint files       job: 64 KiB of them    pause    ...               a chunk is damaged -> a new base
//! keys "" to the end    job: some values       pause    job    pause ...     a value of k7 is damaged -> repair
//! wait until the next round is due
//! ```
//!
//! It finds; the repair of [values](crate::repair::values) and [entries](crate::repair::entries) is the same as after
//! any other read. A damaged checkpoint is replaced: memory has the whole state, so a base is written, which takes the
//! place of all checkpoints. What is recent is read from memory; its file is read by a later round.

pub(crate) mod job;
mod pauses;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use log::{CheckpointFile, FileChunks, Log, OpenError, ReadError};
use store::{Reader, VersionPosition};

use crate::config::ScrubRate;
use crate::jobs::Job;
use job::{MAX_JOB_BYTES, ScrubFound, ScrubJob, ScrubRead, ScrubTotals, Scrubbed};
use pauses::ScrubPauses;

/// Pause before entries are read again for which there was no descriptor.
const RETRY_NS: u64 = 100_000_000;

/// Where the scrub is.
#[derive(Default)]
pub(crate) struct Scrub {
    stage: ScrubStage,
    is_reading: bool,
    /// When to read on.
    due_ns: u64,
    next_round_ns: Option<u64>,
    /// Of this round.
    totals: ScrubTotals,
    pauses: ScrubPauses,
}

#[derive(Default)]
enum ScrubStage {
    #[default]
    Waiting,
    /// The entries `next..end`; those up to `single_until` one at a time, because one of them is damaged.
    Entries { next: u64, end: u64, single_until: u64 },
    /// The checkpoint files after this one, or from the middle of one that is open.
    Checkpoints { after: Option<u32>, open: Option<(CheckpointFile, FileChunks)> },
    /// The values from here on.
    Values(VersionPosition),
}

/// What follows from a part of a round.
#[derive(Debug, Default)]
pub(crate) struct ScrubNews {
    /// Bytes that were read.
    pub(crate) bytes: u64,
    /// Keys and addresses of values to repair.
    pub(crate) values: Vec<(Bytes, u64)>,
    /// The entry to repair, and why.
    pub(crate) entry: Option<(u64, ReadError)>,
    /// What is wrong with a checkpoint.
    pub(crate) checkpoint: Option<OpenError>,
    /// The round is over.
    pub(crate) ended: Option<ScrubTotals>,
}

impl Scrub {
    /// The log has grown by so many bytes: clients write.
    pub(crate) fn log_grew(&mut self, bytes: u64) {
        self.pauses.wrote(bytes);
    }

    /// When the next part of a round is due; `None` while one is read, and before the first call of
    /// [`Scrub::next_job`].
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        match self.stage {
            _ if self.is_reading => None,
            ScrubStage::Waiting => self.next_round_ns.map(|round_ns| round_ns.max(self.due_ns)),
            _ => Some(self.due_ns),
        }
    }

    /// The next part of a round, if it is due. `applied` is the entry up to which the log is read.
    pub(crate) fn next_job(
        &mut self,
        now_ns: u64,
        rate: ScrubRate,
        log: &Log,
        reader: &Reader,
        applied: u64,
    ) -> Option<Job> {
        if self.is_reading || now_ns < self.due_ns {
            return None;
        }
        if matches!(self.stage, ScrubStage::Waiting) {
            let round_ns = *self.next_round_ns.get_or_insert(now_ns + rate.first_after_ns);
            if now_ns < round_ns {
                return None;
            }
            self.next_round_ns = Some(now_ns + rate.round_ns);
            self.totals = ScrubTotals::default();
            self.stage = ScrubStage::Entries { next: log.first_index(), end: applied + 1, single_until: 0 };
        }
        let read = self.next_entries(log).or_else(|| self.next_of_checkpoints(log)).unwrap_or_else(|| {
            let from = match &self.stage {
                ScrubStage::Values(from) => from.clone(),
                _ => VersionPosition::default(),
            };
            self.stage = ScrubStage::Values(from.clone());
            ScrubRead::Values { from, reader: reader.clone(), files: log.reader() }
        });
        self.is_reading = true;
        self.pauses.begin(now_ns);
        Some(Job::Scrub(Box::new(ScrubJob(read))))
    }

    /// The next entries, if any are left. Those that were removed from the log meanwhile are left out.
    fn next_entries(&mut self, log: &Log) -> Option<ScrubRead> {
        let ScrubStage::Entries { next, end, single_until } = &mut self.stage else { return None };
        let from = (*next).max(log.first_index());
        let end = (*end).min(log.last_index() + 1);
        if from >= end {
            return None;
        }
        let to = if from < *single_until { from + 1 } else { end };
        let job = log.read_entries(from, to, MAX_JOB_BYTES).ok()?;
        let to = from + job.len() as u64;
        *next = from;
        Some(ScrubRead::Entries { from, to, job })
    }

    /// The next part of the checkpoint files, if the entries are read and any file is left. One that has left the chain
    /// is not read to its end; the rest of the chain then waits for the next round.
    fn next_of_checkpoints(&mut self, log: &Log) -> Option<ScrubRead> {
        if matches!(self.stage, ScrubStage::Entries { .. }) {
            self.stage = ScrubStage::Checkpoints { after: None, open: None };
        }
        let ScrubStage::Checkpoints { after, open } = &mut self.stage else { return None };
        if let Some((file, chunks)) = open.take() {
            let is_current = log.has_checkpoint_file(file.number());
            return is_current.then_some(ScrubRead::Checkpoint { file, chunks: Some(chunks) });
        }
        let file = log.next_checkpoint_file(*after)?;
        Some(ScrubRead::Checkpoint { file, chunks: None })
    }

    /// A part of a round was read.
    pub(crate) fn read(&mut self, now_ns: u64, rate: ScrubRate, log: &Log, done: Scrubbed) -> ScrubNews {
        self.is_reading = false;
        self.totals.bytes += done.bytes;
        self.due_ns = now_ns.saturating_add(self.pauses.end(now_ns, &rate, done.bytes));
        let mut news = ScrubNews { bytes: done.bytes, ..ScrubNews::default() };
        match (done.found, &mut self.stage) {
            (ScrubFound::Entries { from, to, read }, ScrubStage::Entries { next, single_until, .. }) => {
                match read {
                    Ok(_) => *next = to,
                    // Nothing is known to be damaged; they are read again.
                    Err(error) if error.is_out_of_descriptors() => {
                        self.due_ns = self.due_ns.max(now_ns.saturating_add(RETRY_NS));
                    }
                    Err(_) if to - from > 1 => *single_until = to,
                    Err(error) => {
                        *next = to;
                        news.entry = Some((from, error));
                    }
                }
            }
            (ScrubFound::Checkpoint { file, rest }, ScrubStage::Checkpoints { after, open }) => match rest {
                Ok(Some(chunks)) => *open = Some((file, chunks)),
                Ok(None) => *after = Some(file.number()),
                Err(error) if error.is_out_of_descriptors() => {
                    self.due_ns = self.due_ns.max(now_ns.saturating_add(RETRY_NS));
                }
                // The new base will take the place of the others, too.
                Err(error) => {
                    let is_current = log.has_checkpoint_file(file.number());
                    news.checkpoint = is_current.then_some(error);
                    self.stage = ScrubStage::Values(VersionPosition::default());
                }
            },
            (ScrubFound::Values { damaged, rest }, ScrubStage::Values(position)) => {
                news.values = damaged;
                match rest {
                    Some(rest) => *position = rest,
                    None => self.stage = ScrubStage::Waiting,
                }
            }
            // A round that was ended meanwhile.
            _ => {}
        }
        let files = log.reader();
        let values = news.values.iter().filter(|(_, address)| files.is_known_damaged(*address)).count();
        let is_entry_damaged = news.entry.as_ref().is_some_and(|(_, error)| !error.is_of_the_disk());
        let is_checkpoint_damaged = news.checkpoint.as_ref().is_some_and(|error| !error.is_of_the_disk());
        self.totals.damaged += values as u64 + u64::from(is_entry_damaged) + u64::from(is_checkpoint_damaged);
        if matches!(self.stage, ScrubStage::Waiting) {
            news.ended = Some(self.totals);
        }
        news
    }
}
