//! Relocation: live values leave files that hold little else, so that the files can be freed without a pause.
//!
//! One file at a time and in small steps. A search finds the references into the file a few keys at a time, a job
//! copies the values, and the references are switched a few at a time. A checkpoint that begins after the switch makes
//! the old file superfluous; the log knows when no reader can be using it any more.
//!
//! ```text
//! Idle ------> Searching ------> Copying ------> Switching ----> Idle
//!  a file with   1,000 keys a     a job writes    200 references   the file is empty: the next
//!  little live   step, until a    the values to   a step           checkpoint frees it
//!  data          job is full      a new file
//!                    ^                                |
//!                    '---- keys are left to search ---'
//! ```
//!
//! History that is not compacted is referenced, so a file above the compaction revision holds little garbage and is
//! left alone. *Eager* relocation, after a client asked to defragment, treats every file with garbage worth a copy,
//! the segment being written and entries kept for followers included, until nothing is left to gain.

use std::collections::BTreeMap;

use bytes::Bytes;
use log::{JobError, Log, RelocationDone, Space};
use store::{Reader, Reference, Store};

use crate::io::{MemberFatal, Notice, Output};
use crate::jobs::{Job, Purpose};
use crate::values::stored;

/// Keys searched in one step: well under a millisecond.
const STEP_KEYS: usize = 1_000;

/// References switched in one step. Each is looked up by key and counted again in two files, so that a step of these
/// takes about as long as one of [`STEP_KEYS`].
const STEP_SWITCHES: usize = 200;

/// Pause between two steps, in nanoseconds: requests go first.
const STEP_NS: u64 = 1_000_000;

/// How often eager relocation checks whether what it waits for has happened, in nanoseconds.
const SETTLE_NS: u64 = 10_000_000;

/// How often an idle member looks for a file worth emptying, in nanoseconds.
const LOOK_NS: u64 = 1_000_000_000;

/// A checkpoint for the sake of space comes no sooner than this after the last one, in nanoseconds.
const CHECKPOINT_EVERY_NS: u64 = 10_000_000_000;

/// Values moved by one job: what is remembered of them meanwhile stays within some megabytes.
const JOB_VALUES: usize = 20_000;

/// Bytes of values moved by one job, unless a single one is larger.
const JOB_BYTES: u64 = 32 << 20;

/// An eager follower waits this long behind its checkpoint before it forgets the entries there, in nanoseconds. It
/// cannot know what the others have, but a healthy member has them by then, should this member lead.
const CATCH_UP_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Default)]
pub(crate) struct Relocator {
    is_eager: bool,
    /// The checkpoint that eager relocation waits for first: at or behind this entry.
    settle_at: Option<u64>,
    /// When that checkpoint was found, on the monotonic clock.
    settled_at_ns: Option<u64>,
    stage: RelocationStage,
    next_ns: u64,
    checkpoint_not_before_ns: u64,
    /// Files that could not be emptied, with the live bytes that stayed: not tried again before that changes.
    given_up: BTreeMap<u32, u64>,
}

#[derive(Default)]
enum RelocationStage {
    #[default]
    Idle,
    /// Searching for references into the file, from a key on.
    Searching { file: u32, from: Bytes, found: Vec<Reference>, bytes: u64 },
    /// A job copies these; the search goes on from `rest`.
    Copying { file: u32, rest: Option<Bytes>, moving: Vec<Reference> },
    /// The copies are durable in `target`; references are being switched.
    Switching(Switching),
}

struct Switching {
    file: u32,
    rest: Option<Bytes>,
    target: Option<u32>,
    moves: std::vec::IntoIter<(Reference, u64)>,
}

/// What eager relocation needs before it looks at files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Something is under way: look again later.
    Waits,
    /// The active segment shall end, with a checkpoint behind it.
    EndSegment,
    /// Nothing is in the way: entries that only followers might need can be forgotten.
    Settled,
}

impl Relocator {
    /// A client asked to defragment.
    pub(crate) fn start_eager(&mut self) {
        self.is_eager = true;
        self.settle_at = None;
        self.settled_at_ns = None;
        self.given_up.clear();
        self.next_ns = 0;
    }

    /// Whether every file with garbage worth a copy is treated.
    pub(crate) fn is_eager(&self) -> bool {
        self.is_eager
    }

    /// When the next step is due; `None` while a job or an external event must come first.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let waits = match self.stage {
            RelocationStage::Copying { .. } => true,
            RelocationStage::Idle => !self.is_eager,
            _ => false,
        };
        (!waits).then_some(self.next_ns)
    }

    /// Whether a step is due.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Begins a step: the next one is due after a pause. Returns whether a file should be looked for.
    pub(crate) fn begin_step(&mut self, now_ns: u64) -> bool {
        self.next_ns = now_ns + STEP_NS;
        matches!(self.stage, RelocationStage::Idle)
    }

    /// Before files are looked at eagerly: history is purged, the active segment ended, and a checkpoint behind it
    /// written, so that only what must be kept is kept.
    pub(crate) fn settle(&mut self, now_ns: u64, log: &Log, reader: &Reader, leads: bool) -> Settling {
        let wait = |relocator: &mut Relocator| {
            relocator.next_ns = now_ns + SETTLE_NS;
            Settling::Waits
        };
        if reader.purged() < reader.compacted() {
            return wait(self);
        }
        let Some(settle_at) = self.settle_at else {
            // On a full disk the reserve is not for this: then the active segment stays.
            let rolls_over_soon = !log.can_roll_over() && log.space() == Space::Ok;
            return if rolls_over_soon { wait(self) } else { Settling::EndSegment };
        };
        let is_settled = log.checkpoint_id().is_some_and(|id| id.index >= settle_at);
        if !is_settled || log.durable_position() < log.position() {
            return wait(self);
        }
        let settled_at_ns = *self.settled_at_ns.get_or_insert(now_ns);
        let is_alone = reader.members().len() <= 1;
        if !leads && !is_alone && now_ns < settled_at_ns + CATCH_UP_NS {
            return wait(self);
        }
        Settling::Settled
    }

    /// The active segment has ended with entry `last`.
    pub(crate) fn segment_ended(&mut self, last: u64) {
        self.settle_at = Some(last);
    }

    /// The last entry that every follower heard of recently has. A follower assumes the checkpoint it settled at (see
    /// [`CATCH_UP_NS`]).
    pub(crate) fn needed_by_followers(&self, status: &consensus::Status, member_id: u64) -> u64 {
        let others = status.peers.iter().filter(|peer| peer.id != member_id && peer.recent_active);
        let settled = self.settled_at_ns.and(self.settle_at).unwrap_or(0);
        others.map(|peer| peer.matched).min().unwrap_or(settled)
    }

    /// Begins with the next file worth emptying. Returns whether there is one.
    pub(crate) fn begin_file(&mut self, log: &Log) -> bool {
        let mut candidates = log.relocation_candidates(u64::MAX, self.is_eager).into_iter();
        let is_new = |file: &log::Candidate| self.given_up.get(&file.file) != Some(&file.live_bytes);
        let Some(candidate) = candidates.find(is_new) else { return false };
        self.stage = RelocationStage::Searching {
            file: candidate.file,
            from: Bytes::new(),
            found: Vec::new(),
            bytes: 0,
        };
        true
    }

    /// Whether a checkpoint may be written for the sake of space.
    pub(crate) fn may_checkpoint(&self, now_ns: u64) -> bool {
        self.is_eager || now_ns >= self.checkpoint_not_before_ns
    }

    /// A checkpoint begins for the sake of space.
    pub(crate) fn checkpoint_began(&mut self, now_ns: u64) {
        self.checkpoint_not_before_ns = now_ns + CHECKPOINT_EVERY_NS;
    }

    /// A checkpoint was not written: the client that asked to defragment must ask again.
    pub(crate) fn checkpoint_failed(&mut self) {
        self.is_eager = false;
    }

    /// Nothing is left to gain now.
    pub(crate) fn rest(&mut self, now_ns: u64) {
        self.is_eager = false;
        self.next_ns = now_ns + LOOK_NS;
    }

    /// One step of a search or a switch.
    pub(crate) fn step(&mut self, log: &mut Log, store: &mut Store, reader: &Reader, out: &mut Output) {
        match std::mem::take(&mut self.stage) {
            RelocationStage::Searching { file, from, found, bytes } => {
                self.search(file, &from, found, bytes, log, reader, out);
            }
            RelocationStage::Switching(switching) => self.switch(switching, log, store, out),
            other => self.stage = other,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the four parts of the stage, and what it works on")]
    fn search(
        &mut self,
        file: u32,
        from: &Bytes,
        mut found: Vec<Reference>,
        mut bytes: u64,
        log: &mut Log,
        reader: &Reader,
        out: &mut Output,
    ) {
        let in_file = |address| log::file_of(address) == file;
        let (more, rest) = reader.live_references(in_file, from, STEP_KEYS);
        bytes += more.iter().map(|reference| u64::from(reference.value.len)).sum::<u64>();
        found.extend(more);
        match rest {
            Some(from) if found.len() < JOB_VALUES && bytes < JOB_BYTES => {
                self.stage = RelocationStage::Searching { file, from, found, bytes };
            }
            None if found.is_empty() => self.file_done(file, log, out),
            rest => {
                let values = found.iter().map(|reference| stored(&reference.value)).collect();
                let job = log.relocate(values);
                self.stage = RelocationStage::Copying { file, rest, moving: found };
                out.background.push(Job::Relocate { purpose: Purpose::Space, job });
            }
        }
    }

    /// The copies are durable, or could not be made. Returns the addresses of values that are damaged.
    ///
    /// # Errors
    /// The log can no longer be trusted.
    pub(crate) fn copied(
        &mut self,
        done: RelocationDone,
        log: &mut Log,
        out: &mut Output,
    ) -> Result<Vec<u64>, MemberFatal> {
        let stage = std::mem::take(&mut self.stage);
        let relocated = match log.relocated(done) {
            Ok(relocated) => relocated,
            Err(JobError::Fatal(fatal)) => return Err(fatal.into()),
            Err(error) => {
                out.notices.push(Notice::Failure { text: format!("values cannot be moved: {error}") });
                if let RelocationStage::Copying { file, .. } = stage {
                    self.give_up(file, log);
                }
                return Ok(Vec::new());
            }
        };
        let RelocationStage::Copying { file, rest, moving } = stage else {
            // The state was replaced meanwhile: the copies have no references.
            relocated.file.into_iter().for_each(|copies| log.relocation_switched(copies));
            return Ok(Vec::new());
        };
        assert!(moving.len() == relocated.addresses.len(), "every value that was to move has a result");
        let mut moves = Vec::with_capacity(moving.len());
        let mut damaged = Vec::new();
        for (reference, address) in moving.into_iter().zip(relocated.addresses) {
            match address {
                Ok(address) => moves.push((reference, address)),
                Err(_) => damaged.push(reference.value.address),
            }
        }
        let moves = moves.into_iter();
        self.stage = RelocationStage::Switching(Switching { file, rest, target: relocated.file, moves });
        Ok(damaged)
    }

    fn switch(&mut self, mut switching: Switching, log: &mut Log, store: &mut Store, out: &mut Output) {
        for (reference, address) in switching.moves.by_ref().take(STEP_SWITCHES) {
            // A version that is gone, or whose value was repaired meanwhile, stays as it is.
            store.relocate(&reference.key, reference.revision, &reference.value, address);
        }
        if switching.moves.len() > 0 {
            self.stage = RelocationStage::Switching(switching);
            return;
        }
        let Switching { file, rest, target, .. } = switching;
        target.into_iter().for_each(|target| log.relocation_switched(target));
        match rest {
            Some(from) => {
                self.stage = RelocationStage::Searching { file, from, found: Vec::new(), bytes: 0 };
            }
            None => self.file_done(file, log, out),
        }
    }

    /// The state was replaced: what was being moved is gone.
    pub(crate) fn state_replaced(&mut self, log: &mut Log) {
        if let RelocationStage::Switching(Switching { target: Some(target), .. }) =
            std::mem::take(&mut self.stage)
        {
            log.relocation_switched(target);
        }
        self.given_up.clear();
    }

    fn file_done(&mut self, file: u32, log: &Log, out: &mut Output) {
        self.give_up(file, log);
        out.notices.push(Notice::Relocated { file });
    }

    /// Leaves a file alone until some of its live bytes go.
    fn give_up(&mut self, file: u32, log: &Log) {
        let left = log.relocation_candidates(u64::MAX, true).into_iter().find(|left| left.file == file);
        if let Some(left) = left {
            self.given_up.insert(file, left.live_bytes);
        } else {
            self.given_up.remove(&file);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Which files are emptied, freed and given up, and what eager relocation waits for.
    use super::*;
    use crate::jobs::Done;
    use crate::tests::LogAndStore;

    /// A state whose first file holds so many of the 40 values that were written into it, and that file.
    fn shrunk_to(live: usize) -> (LogAndStore, u32) {
        let mut state = LogAndStore::new(&[1, 2, 3]);
        (0..40).for_each(|number| state.put(&format!("key{number:02}"), vec![number; 1_000]));
        let file = log::file_of(state.reference("key00").value.address);
        state.end_segment();
        (live..40).for_each(|number| state.put(&format!("key{number:02}"), ""));
        state.drop_history();
        state.checkpoint();
        (state, file)
    }

    /// Relocates until no file is worth it. Returns the notices, and the addresses of damaged values.
    fn relocate(relocator: &mut Relocator, state: &mut LogAndStore) -> (Vec<Notice>, Vec<u64>) {
        let (mut out, mut damaged) = (Output::default(), Vec::new());
        while !relocator.begin_step(0) || relocator.begin_file(&state.log) {
            relocator.step(&mut state.log, &mut state.store, &state.reader, &mut out);
            for job in std::mem::take(&mut out.background) {
                let Done::Relocated { done, .. } = job.run() else { unreachable!() };
                damaged.extend(relocator.copied(done, &mut state.log, &mut out).expect("the log is intact"));
            }
        }
        (out.notices, damaged)
    }

    #[test]
    fn live_values_leave_a_file_that_holds_little_else_and_a_checkpoint_frees_it() {
        let (mut state, file) = shrunk_to(5);
        let contents = state.contents();
        assert_eq!(relocate(&mut Relocator::default(), &mut state).0, [Notice::Relocated { file }]);
        assert_eq!((state.values_in(file), state.contents()), (0, contents));
        let copies = log::file_of(state.reference("key00").value.address);
        state.checkpoint();
        assert!(!state.has_file(file) && state.has_file(copies));
        (0..5).for_each(|number| state.put(&format!("key{number:02}"), ""));
        state.drop_history();
        state.checkpoint();
        assert!(!state.has_file(copies));
    }

    #[test]
    fn a_file_that_holds_more_is_emptied_only_eagerly() {
        let (mut state, file) = shrunk_to(20);
        let mut relocator = Relocator::default();
        assert_eq!(relocate(&mut relocator, &mut state).0, []);
        relocator.start_eager();
        assert_eq!(relocate(&mut relocator, &mut state).0, [Notice::Relocated { file }]);
    }

    #[test]
    fn a_file_that_cannot_be_emptied_is_left_alone_until_less_of_it_is_live() {
        let (mut state, file) = shrunk_to(5);
        let mut relocator = Relocator::default();
        state.disk.set_capacity(Some(0));
        assert!(matches!(relocate(&mut relocator, &mut state).0[..], [Notice::Failure { .. }]));
        state.disk.set_capacity(None);
        assert_eq!(relocate(&mut relocator, &mut state).0, []);
        state.put("key00", "");
        state.drop_history();
        assert_eq!(relocate(&mut relocator, &mut state).0, [Notice::Relocated { file }]);
    }

    #[test]
    fn a_damaged_value_is_reported_and_stays_while_the_others_leave() {
        let (mut state, file) = shrunk_to(5);
        let address = state.reference("key02").value.address;
        state.damage(address);
        let (_, damaged) = relocate(&mut Relocator::default(), &mut state);
        assert_eq!(damaged, [address]);
        assert_eq!(state.values_in(file), 1);
    }

    #[test]
    fn eager_relocation_waits_for_purge_segment_checkpoint_and_followers() {
        let mut state = LogAndStore::new(&[1, 2, 3]);
        let mut relocator = Relocator::default();
        relocator.start_eager();
        state.put("key", "value");
        state.compact();
        assert_eq!(relocator.settle(0, &state.log, &state.reader, true), Settling::Waits, "for the purge");
        state.drop_history();
        assert_eq!(relocator.settle(0, &state.log, &state.reader, true), Settling::EndSegment);
        state.end_segment();
        relocator.segment_ended(state.log.last_index());
        assert_eq!(relocator.settle(0, &state.log, &state.reader, true), Settling::Waits, "for a checkpoint");
        state.checkpoint();
        let mut settle = |now_ns, leads| relocator.settle(now_ns, &state.log, &state.reader, leads);
        assert_eq!(settle(5, false), Settling::Waits, "a follower for the others");
        assert_eq!(settle(4 + CATCH_UP_NS, false), Settling::Waits);
        assert_eq!(settle(5 + CATCH_UP_NS, false), Settling::Settled);
        assert_eq!(settle(6, true), Settling::Settled, "a leader knows what they have");
    }
}
