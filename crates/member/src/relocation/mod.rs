//! Relocation: live values leave files that hold little else, so that the files can be freed without a pause.
//!
//! Files are chosen by what they gain ([`choice`]). A job reads what they hold from themselves, looks up what of it
//! lives, and copies that into a new file ([`job`]). Then the references are switched a few at a time. A checkpoint
//! that begins after the switch makes the old files superfluous; the log knows when no reader can be using them any
//! more.
//!
//! ```text
//! Idle ------------> Copying ------------> switching
//!  files that gain     a job writes the      200 references   the files are empty: the next
//!  most                live values to a      a step           checkpoint frees them
//!                      new file              meanwhile the next job copies
//! Searching
//!  a file that does not say what it holds, or still has live values afterwards: its references are
//!  searched for in the whole index, 1,000 keys a step, and copied in the same way
//! ```
//!
//! What is done does not depend on how: a file goes only when nothing refers to it, however that was found out.
//! History that is not compacted is referenced, so a file with much of it holds little garbage and is left alone.

pub(crate) mod choice;
pub(crate) mod eager;
pub(crate) mod job;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use log::{JobError, Log};
use store::{Reader, Reference, Store, VersionPosition};

use crate::io::{MemberFatal, Notice, Output};
use crate::jobs::Job;
use crate::values::stored;
use choice::{MAX_IDLE_LIVE_PERCENT, max_live_percent, sources};
use eager::EagerRelocation;
use job::{FilePosition, MAX_JOB_BYTES, MAX_JOB_VALUES, RelocatedValues, RelocationJob, RelocationWork};

/// Versions looked at in one step of a search: well under a millisecond.
const STEP_VERSIONS: usize = 1_000;

/// References switched in one step. Each is looked up by key and counted again in two files, so that a step of these
/// takes about as long as one of [`STEP_VERSIONS`].
const STEP_SWITCHES: usize = 200;

/// Copies whose references wait to be switched, or are: while there are so many, no other job begins. With one, the
/// next values are copied while references are switched, which takes about half as long.
const MAX_SWITCHINGS: usize = 2;

/// Pause between two steps, in nanoseconds: requests go first.
const STEP_NS: u64 = 1_000_000;

/// How often a member looks for files worth emptying, and for a checkpoint that would free some, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// A checkpoint for the sake of space comes no sooner than this after the last one, in nanoseconds.
const CHECKPOINT_EVERY_NS: u64 = 1_000_000_000;

/// A checkpoint for the sake of space comes when it frees so many bytes, or the share of [`FREED_SHARE`].
const MIN_FREED_BYTES: u64 = 64 << 20;
/// The part of the live bytes that a checkpoint should free.
const FREED_SHARE: u64 = 32;
/// A checkpoint that frees anything comes after so long, in nanoseconds.
const MAX_CHECKPOINT_DELAY_NS: u64 = 10_000_000_000;

/// See the module.
#[derive(Default)]
pub(crate) struct Relocator {
    pub(crate) eager: EagerRelocation,
    stage: RelocationStage,
    /// Copies that are durable, in the order in which they were made: the references of the first are being switched.
    switchings: VecDeque<Switching>,
    /// When the next step of a search or a switch is due.
    next_step_ns: u64,
    /// When to look for files and for a checkpoint again.
    next_look_ns: u64,
    checkpoint_at_ns: u64,
    /// Number of the last job.
    last_job: u64,
    /// Where the last job stopped within a file.
    rest: Option<FilePosition>,
    /// Files that must be searched for in the index.
    to_search: VecDeque<u32>,
    /// Files that could not be emptied, with the live bytes that stayed: not tried again before that changes.
    given_up: BTreeMap<u32, u64>,
}

#[derive(Default)]
enum RelocationStage {
    #[default]
    Idle,
    /// Searching for references into the file, from a key on.
    Searching(IndexSearch),
    /// The job with this number copies what lives in these files; a search goes on afterwards.
    Copying { job: u64, files: Vec<u32>, search: Option<IndexSearch> },
}

/// A search of the index for the references into a file.
struct IndexSearch {
    file: u32,
    /// Where to go on; `None` at the end.
    from: Option<VersionPosition>,
    found: Vec<Reference>,
    bytes: u64,
}

/// References that are being switched to the copies in `target`.
struct Switching {
    target: Option<u32>,
    moves: std::vec::IntoIter<(Reference, u64)>,
    /// The files that were copied from.
    sources: Vec<u32>,
    /// Files whose contents were read to the end.
    emptied: Vec<u32>,
    /// The search that goes on afterwards.
    search: Option<IndexSearch>,
}

/// What a step works on.
pub(crate) struct RelocationContext<'a> {
    pub(crate) log: &'a mut Log,
    pub(crate) store: &'a mut Store,
    pub(crate) reader: &'a Reader,
    pub(crate) out: &'a mut Output,
}

impl Relocator {
    /// A client asked to defragment.
    pub(crate) fn start_eager(&mut self) {
        self.eager.start();
        self.given_up.clear();
        self.next_look_ns = 0;
    }

    /// When something is due; `None` while a job or an external event must come first.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        match self.stage {
            RelocationStage::Searching(_) => Some(self.next_step_ns),
            _ if !self.switchings.is_empty() => Some(self.next_step_ns),
            // A member that writes looks at each tick.
            RelocationStage::Idle => self.eager.next_due_ns(),
            RelocationStage::Copying { .. } => None,
        }
    }

    /// Whether there is a step of a search or a switch to make.
    fn has_step(&self) -> bool {
        matches!(self.stage, RelocationStage::Searching(_)) || !self.switchings.is_empty()
    }

    /// Whether a step of a search or a switch is due.
    pub(crate) fn is_step_due(&self, now_ns: u64) -> bool {
        self.has_step() && now_ns >= self.next_step_ns
    }

    /// Whether it is time to look for files, and for a checkpoint that frees some.
    pub(crate) fn is_look_due(&self, now_ns: u64) -> bool {
        now_ns
            >= self.eager.next_due_ns().map_or(self.next_look_ns, |eager_ns| eager_ns.min(self.next_look_ns))
    }

    /// A look was taken.
    pub(crate) fn looked(&mut self, now_ns: u64) {
        self.next_look_ns = now_ns + LOOK_NS;
        self.eager.looked(now_ns);
    }

    /// Whether nothing is being relocated.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.stage, RelocationStage::Idle) && self.switchings.is_empty()
    }

    /// Whether the next files can be begun with. A search goes on by itself.
    pub(crate) fn can_begin(&self) -> bool {
        matches!(self.stage, RelocationStage::Idle)
            && self.switchings.len() < MAX_SWITCHINGS
            && self.switchings.iter().all(|switching| switching.search.is_none())
    }

    /// Whether a job copies values.
    pub(crate) fn is_copying(&self) -> bool {
        matches!(self.stage, RelocationStage::Copying { .. })
    }

    /// Begins with the next files worth emptying. `is_idle` says whether no client waits for the disk. Returns whether
    /// there are any.
    pub(crate) fn begin_files(&mut self, is_idle: bool, context: &mut RelocationContext<'_>) -> bool {
        assert!(self.can_begin(), "one copy at a time");
        // Before the next files: a file that waits for a search would be chosen again.
        if !self.to_search.is_empty() {
            return self.begin_search();
        }
        let log = &mut *context.log;
        let values = log.reader();
        let percent = match self.eager.is_on() {
            true => MAX_IDLE_LIVE_PERCENT,
            false => max_live_percent(values.file_bytes(), values.live_bytes(), is_idle),
        };
        // All values of the file may have gone meanwhile, and the file with them.
        let rest = self.rest.take().filter(|(file, _)| log.relocatable(*file).is_some());
        // What lives in a file that was copied from is found there until the references are switched.
        let is_given_up = |file: &log::Candidate| {
            self.given_up.get(&file.file) == Some(&file.live_bytes)
                || self.switchings.iter().any(|switching| switching.sources.contains(&file.file))
                || rest.is_some_and(|(rest, _)| rest == file.file)
        };
        let chosen = sources(log, percent, MAX_JOB_BYTES, is_given_up);
        let mut files = VecDeque::new();
        for (file, position) in rest.into_iter().chain(chosen.into_iter().map(|file| (file, 0))) {
            match log.contents(file, position) {
                Some(contents) => files.push_back((file, contents)),
                None => self.to_search.push_back(file),
            }
        }
        if !files.is_empty() {
            let numbers = files.iter().map(|(file, _)| *file).collect();
            let (reader, writer) = (context.reader.clone(), log.begin_relocation());
            self.start_job(RelocationWork::Files { files, reader, writer }, numbers, None, context.out);
        }
        self.is_copying() || self.begin_search()
    }

    /// Begins to search for what refers to a file, if one waits for it, and no reference waits to be switched, which
    /// would be found once more.
    fn begin_search(&mut self) -> bool {
        if !self.switchings.is_empty() {
            return false;
        }
        let Some(file) = self.to_search.pop_front() else { return false };
        let (from, found) = (Some(VersionPosition::default()), Vec::new());
        self.stage = RelocationStage::Searching(IndexSearch { file, from, found, bytes: 0 });
        true
    }

    fn start_job(
        &mut self,
        work: RelocationWork,
        files: Vec<u32>,
        search: Option<IndexSearch>,
        out: &mut Output,
    ) {
        self.last_job += 1;
        self.stage = RelocationStage::Copying { job: self.last_job, files, search };
        out.background.push(Job::Relocate(Box::new(RelocationJob { id: self.last_job, work })));
    }

    /// Whether a checkpoint that frees so many bytes should be written now, with so many bytes live. While space is low
    /// (`is_low`), any byte is worth it.
    pub(crate) fn is_worth_a_checkpoint(
        &self,
        now_ns: u64,
        freed_bytes: u64,
        live_bytes: u64,
        is_low: bool,
    ) -> bool {
        if freed_bytes == 0 {
            return false;
        }
        let wanted = MIN_FREED_BYTES.max(live_bytes / FREED_SHARE);
        let since_ns = now_ns.saturating_sub(self.checkpoint_at_ns);
        self.eager.is_on()
            || since_ns >= MAX_CHECKPOINT_DELAY_NS
            || ((is_low || freed_bytes >= wanted) && since_ns >= CHECKPOINT_EVERY_NS)
    }

    /// A checkpoint begins for the sake of space.
    pub(crate) fn checkpoint_began(&mut self, now_ns: u64) {
        self.checkpoint_at_ns = now_ns;
    }

    /// A checkpoint was not written: the client that asked to defragment must ask again.
    pub(crate) fn checkpoint_failed(&mut self) {
        self.eager.end();
    }

    /// Nothing is left to gain now.
    pub(crate) fn nothing_to_gain(&mut self) {
        self.eager.end();
    }

    /// One step of a search or a switch.
    pub(crate) fn step(&mut self, now_ns: u64, context: &mut RelocationContext<'_>) {
        self.next_step_ns = now_ns + STEP_NS;
        match std::mem::take(&mut self.stage) {
            RelocationStage::Searching(search) => self.search(search, context),
            other => {
                self.stage = other;
                if let Some(switching) = self.switchings.pop_front() {
                    self.switch(switching, context);
                }
            }
        }
    }

    fn search(&mut self, mut search: IndexSearch, context: &mut RelocationContext<'_>) {
        let file = search.file;
        if let Some(from) = search.from.take() {
            let in_file = |address| log::file_of(address) == file;
            let (more, rest) = context.reader.live_references(in_file, &from, STEP_VERSIONS);
            search.bytes += more.iter().map(|reference| u64::from(reference.value.len)).sum::<u64>();
            search.found.extend(more);
            search.from = rest;
        }
        let is_full = search.found.len() >= MAX_JOB_VALUES || search.bytes >= MAX_JOB_BYTES;
        if search.from.is_some() && !is_full {
            self.stage = RelocationStage::Searching(search);
        } else if search.found.is_empty() {
            self.file_done(file, context);
        } else {
            let references = std::mem::take(&mut search.found);
            search.bytes = 0;
            let values = references.iter().map(|found| (stored(&found.value), found.key.clone())).collect();
            let job = context.log.relocate(values);
            self.start_job(RelocationWork::Found { references, job }, vec![file], Some(search), context.out);
        }
    }

    /// The copies are durable, or could not be made. Returns the keys and addresses of values that are damaged.
    ///
    /// # Errors
    /// The log can no longer be trusted.
    pub(crate) fn copied(
        &mut self,
        copied: RelocatedValues,
        context: &mut RelocationContext<'_>,
    ) -> Result<Vec<(Bytes, u64)>, MemberFatal> {
        let RelocatedValues { id, references, done, emptied, unreadable, rest, mut damaged } = copied;
        let is_awaited = matches!(&self.stage, RelocationStage::Copying { job, .. } if *job == id);
        let stage = if is_awaited { std::mem::take(&mut self.stage) } else { RelocationStage::Idle };
        let relocated = match context.log.relocated(done) {
            Ok(relocated) => relocated,
            Err(JobError::Fatal(fatal)) => return Err(fatal.into()),
            Err(error) => {
                let text = format!("values cannot be moved: {error}");
                context.out.notices.push(Notice::Failure { text });
                if let RelocationStage::Copying { files, .. } = stage {
                    files.into_iter().for_each(|file| self.give_up(file, context.log));
                }
                return Ok(damaged);
            }
        };
        let RelocationStage::Copying { files: sources, search, .. } = stage else {
            // The state was replaced meanwhile: the copies have no references.
            relocated.file.into_iter().for_each(|copies| context.log.relocation_switched(copies));
            return Ok(Vec::new());
        };
        assert!(references.len() == relocated.addresses.len(), "every value that was to move has a result");
        let mut moves = Vec::with_capacity(references.len());
        for (reference, address) in references.into_iter().zip(relocated.addresses) {
            match address {
                Ok(address) => moves.push((reference, address)),
                Err(_) => damaged.push((reference.key, reference.value.address)),
            }
        }
        self.to_search.extend(unreadable);
        self.rest = rest;
        let (target, moves) = (relocated.file, moves.into_iter());
        self.switchings.push_back(Switching { target, moves, sources, emptied, search });
        // For the next files.
        self.next_look_ns = 0;
        Ok(damaged)
    }

    fn switch(&mut self, mut switching: Switching, context: &mut RelocationContext<'_>) {
        for (reference, address) in switching.moves.by_ref().take(STEP_SWITCHES) {
            // A version that is gone, or whose value was repaired meanwhile, stays as it is.
            context.store.relocate(&reference.key, reference.revision, &reference.value, address);
        }
        if switching.moves.len() > 0 {
            self.switchings.push_front(switching);
            return;
        }
        let Switching { target, emptied, search, .. } = switching;
        target.into_iter().for_each(|target| context.log.relocation_switched(target));
        for file in emptied {
            match context.log.relocatable(file).map(|left| left.live_bytes) {
                // What its contents did not name is searched for, once.
                Some(live) if self.given_up.get(&file) != Some(&live) => self.to_search.push_back(file),
                _ => context.out.notices.push(Notice::Relocated { file }),
            }
        }
        if let Some(search) = search {
            self.stage = RelocationStage::Searching(search);
        }
        self.next_look_ns = 0;
    }

    /// The state was replaced: what was being moved is gone.
    pub(crate) fn state_replaced(&mut self, log: &mut Log) {
        self.stage = RelocationStage::Idle;
        let targets = self.switchings.drain(..).filter_map(|switching| switching.target);
        targets.for_each(|target| log.relocation_switched(target));
        self.given_up.clear();
        self.to_search.clear();
        self.rest = None;
    }

    /// A search is over.
    fn file_done(&mut self, file: u32, context: &mut RelocationContext<'_>) {
        self.give_up(file, context.log);
        context.out.notices.push(Notice::Relocated { file });
        self.next_look_ns = 0;
    }

    /// Leaves a file alone until some of its live bytes go.
    fn give_up(&mut self, file: u32, log: &Log) {
        match log.relocatable(file).map(|left| left.live_bytes) {
            Some(live) => self.given_up.insert(file, live),
            None => self.given_up.remove(&file),
        };
    }
}
