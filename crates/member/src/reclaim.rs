//! Space given back without a pause: live values leave files that hold little else, and checkpoints let the files go.
//!
//! One file at a time and in small steps: its references are looked for a few keys at a time, a job copies the values,
//! the references are switched a few at a time. Then a checkpoint that begins after the switch makes the old file
//! superfluous; the log knows when nobody can be reading from it any more. History that is not compacted is
//! referenced, so a file above the compaction watermark holds little garbage and is left alone.
//!
//! *Eager*, after a client asked to defragment, means: every file with garbage worth the copy, the segment being
//! written and entries kept for followers included, until nothing is left to gain.

use std::collections::BTreeMap;

use bytes::Bytes;
use log::{JobError, RelocationDone, Space, StoredValue};
use store::Reference;

use crate::background::{Job, Purpose};
use crate::io::{Fatal, Notice, Now, Output};
use crate::member::Member;

/// Keys looked at in one step: well under a millisecond.
const STEP_KEYS: usize = 1_000;

/// References switched in one step. Each is looked up by key and counted anew in two files, so a step of these takes
/// about as long as one of [`STEP_KEYS`].
const STEP_SWITCHES: usize = 200;

/// Pause between two steps, in nanoseconds: requests go first.
const STEP_NS: u64 = 1_000_000;

/// How often it is looked whether what eagerness waits for has come, in nanoseconds.
const SETTLE_NS: u64 = 10_000_000;

/// How often it is looked for something to do, in nanoseconds.
const LOOK_NS: u64 = 1_000_000_000;

/// A checkpoint for the sake of space comes no sooner than this after the last one, in nanoseconds.
const CHECKPOINT_EVERY_NS: u64 = 10_000_000_000;

/// Values moved by one job: what is remembered of them meanwhile stays within some megabytes.
const JOB_VALUES: usize = 20_000;

/// Bytes of values moved by one job, unless a single one is larger.
const JOB_BYTES: u64 = 32 << 20;

/// An eager follower waits this long behind its checkpoint before it forgets the entries there, in nanoseconds: it
/// cannot know what the others have, but whoever is well has them by then, should this member lead.
const CATCH_UP_NS: u64 = 1_000_000_000;

/// What the relocator is at.
#[derive(Default)]
pub(crate) struct Reclaim {
    eager: bool,
    /// The checkpoint that eagerness waits for first: at or behind this entry.
    settle_at: Option<u64>,
    /// When that checkpoint was there.
    settled_at_ns: Option<u64>,
    stage: Stage,
    next_ns: u64,
    checkpoint_not_before_ns: u64,
    /// Files that could not be emptied, with the bytes that stayed: not tried again before that changes.
    given_up: BTreeMap<u32, u64>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Idle,
    /// Looking for references into the file, from a key on.
    Walking { file: u32, from: Bytes, found: Vec<Reference>, bytes: u64 },
    /// A job copies these; the walk goes on from `rest`.
    Copying { file: u32, rest: Option<Bytes>, moving: Vec<Reference> },
    /// The copies are durable in `target`; references are being switched.
    Switching {
        file: u32,
        rest: Option<Bytes>,
        target: Option<u32>,
        moves: std::vec::IntoIter<(Reference, u64)>,
    },
}

impl Reclaim {
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let waits =
            matches!(self.stage, Stage::Copying { .. }) || (matches!(self.stage, Stage::Idle) && !self.eager);
        (!waits).then_some(self.next_ns)
    }

    /// A checkpoint was not written: whoever asked for space asks again.
    pub(crate) fn checkpoint_failed(&mut self) {
        self.eager = false;
    }
}

impl Member {
    /// Gives space back eagerly.
    pub(crate) fn defragment(&mut self) {
        self.upkeep.purge_again();
        self.reclaim.eager = true;
        self.reclaim.settle_at = None;
        self.reclaim.settled_at_ns = None;
        self.reclaim.given_up.clear();
        self.reclaim.next_ns = 0;
    }

    /// The state was replaced: what was being moved is gone.
    pub(crate) fn forget_reclaiming(&mut self) {
        if let Stage::Switching { target: Some(target), .. } = std::mem::take(&mut self.reclaim.stage) {
            self.log.relocation_switched(target);
        }
        self.reclaim.given_up.clear();
    }

    /// One step, if it is time.
    pub(crate) fn reclaim_space(&mut self, now: Now, out: &mut Output) {
        if now.monotonic_ns < self.reclaim.next_ns
            || self.snapshots.is_installing()
            || self.upkeep.is_stopping()
        {
            return;
        }
        self.reclaim.next_ns = now.monotonic_ns + STEP_NS;
        match std::mem::take(&mut self.reclaim.stage) {
            Stage::Idle => self.look_for_space(now, out),
            Stage::Walking { file, from, found, bytes } => self.walk(file, &from, found, bytes, out),
            Stage::Switching { file, rest, target, moves } => self.switch(file, rest, target, moves, out),
            copying @ Stage::Copying { .. } => self.reclaim.stage = copying,
        }
    }

    /// What is next: settle what eagerness needs, then files to empty, then a checkpoint that lets empty files go.
    fn look_for_space(&mut self, now: Now, out: &mut Output) {
        if self.upkeep.is_checkpoint_running() || self.reclaim.eager && self.settle_for_space(now, out) {
            return;
        }
        let eager = self.reclaim.eager;
        let candidates = self.log.relocation_candidates(u64::MAX, eager).into_iter();
        let mut worth =
            candidates.filter(|file| self.reclaim.given_up.get(&file.file) != Some(&file.live_bytes));
        if let Some(candidate) = worth.next() {
            let file = candidate.file;
            self.reclaim.stage = Stage::Walking { file, from: Bytes::new(), found: Vec::new(), bytes: 0 };
            return;
        }
        let due = eager || now.monotonic_ns >= self.reclaim.checkpoint_not_before_ns;
        if due && self.log.reclaimable_bytes(self.backlog.applied(), self.forgettable()) > 0 {
            self.reclaim.checkpoint_not_before_ns = now.monotonic_ns + CHECKPOINT_EVERY_NS;
            self.begin_checkpoint(out);
            return;
        }
        self.reclaim.eager = false;
        self.reclaim.next_ns = now.monotonic_ns + LOOK_NS;
    }

    /// Before files are looked at: history is purged, the active segment ended, and a checkpoint behind it written, so
    /// that only what must be kept is kept. True while that is under way.
    fn settle_for_space(&mut self, now: Now, out: &mut Output) -> bool {
        if self.reader.purged() < self.reader.compacted() {
            self.reclaim.next_ns = now.monotonic_ns + SETTLE_NS;
            return true;
        }
        let Some(settle_at) = self.reclaim.settle_at else {
            // On a full disk the reserve is not for this: then the active segment stays.
            if !self.log.can_roll_over() && self.log.space() == Space::Ok {
                self.reclaim.next_ns = now.monotonic_ns + SETTLE_NS;
                return true;
            }
            self.reclaim.settle_at = Some(self.leave_segment(now, out));
            return true;
        };
        let is_settled = self.log.checkpoint_id().is_some_and(|id| id.index >= settle_at);
        if !is_settled || self.log.durable_position() < self.log.position() {
            self.reclaim.next_ns = now.monotonic_ns + SETTLE_NS;
            return true;
        }
        let settled_at_ns = *self.reclaim.settled_at_ns.get_or_insert(now.monotonic_ns);
        let is_alone = self.reader.members().len() <= 1;
        if !self.leadership.leading && !is_alone && now.monotonic_ns < settled_at_ns + CATCH_UP_NS {
            self.reclaim.next_ns = now.monotonic_ns + SETTLE_NS;
            return true;
        }
        self.truncate();
        false
    }

    /// Entries up to here need not be kept for anyone.
    pub(crate) fn forgettable(&self) -> u64 {
        let applied = self.backlog.applied();
        let kept = match self.reclaim.eager {
            false => applied.saturating_sub(self.config.catchup_entries),
            true => self.needed_at_least().min(applied),
        };
        kept.min(self.snapshots.oldest_needed(applied))
    }

    /// The last entry that every follower who is heard of has; a follower guesses (see [`CATCH_UP_NS`]).
    fn needed_at_least(&self) -> u64 {
        let status = self.consensus.status();
        let others =
            status.peers.iter().filter(|peer| peer.id != self.config.member_id && peer.recent_active);
        let settled = self.reclaim.settled_at_ns.and(self.reclaim.settle_at).unwrap_or(0);
        others.map(|peer| peer.matched).min().unwrap_or(settled)
    }

    fn walk(&mut self, file: u32, from: &Bytes, mut found: Vec<Reference>, mut bytes: u64, out: &mut Output) {
        let in_file = |address| log::file_of(address) == file;
        let (more, rest) = self.reader.live_references(in_file, from, STEP_KEYS);
        bytes += more.iter().map(|reference| u64::from(reference.value.len)).sum::<u64>();
        found.extend(more);
        match rest {
            Some(from) if found.len() < JOB_VALUES && bytes < JOB_BYTES => {
                self.reclaim.stage = Stage::Walking { file, from, found, bytes };
            }
            None if found.is_empty() => self.file_done(file, out),
            rest => {
                let stored = found.iter().map(|reference| crate::values::stored(&reference.value)).collect();
                let stored: Vec<StoredValue> = stored;
                let job = self.log.relocate(stored);
                self.reclaim.stage = Stage::Copying { file, rest, moving: found };
                out.background.push(Job::Relocate { purpose: Purpose::Space, job });
            }
        }
    }

    /// Copies are durable, or could not be made.
    pub(crate) fn on_copied(&mut self, done: RelocationDone, out: &mut Output) -> Result<(), Fatal> {
        let stage = std::mem::take(&mut self.reclaim.stage);
        let relocated = match self.log.relocated(done) {
            Ok(relocated) => relocated,
            Err(JobError::Fatal(fatal)) => return Err(fatal.into()),
            Err(error) => {
                out.notices.push(Notice::Failure { text: format!("values cannot be moved: {error}") });
                if let Stage::Copying { file, .. } = stage {
                    self.give_up(file);
                }
                return Ok(());
            }
        };
        let Stage::Copying { file, rest, moving } = stage else {
            // The state was replaced meanwhile: nobody refers to the copies.
            relocated.file.into_iter().for_each(|copies| self.log.relocation_switched(copies));
            return Ok(());
        };
        let mut moves = Vec::with_capacity(moving.len());
        for (reference, address) in moving.into_iter().zip(relocated.addresses) {
            match address {
                Ok(address) => moves.push((reference, address)),
                Err(_) => self.repair_value(reference.value.address, out),
            }
        }
        self.reclaim.stage =
            Stage::Switching { file, rest, target: relocated.file, moves: moves.into_iter() };
        Ok(())
    }

    fn switch(
        &mut self,
        file: u32,
        rest: Option<Bytes>,
        target: Option<u32>,
        mut moves: std::vec::IntoIter<(Reference, u64)>,
        out: &mut Output,
    ) {
        for (reference, address) in moves.by_ref().take(STEP_SWITCHES) {
            // One that is gone, or was repaired meanwhile, stays as it is.
            self.store.relocate(&reference.key, reference.revision, &reference.value, address);
        }
        if moves.len() > 0 {
            self.reclaim.stage = Stage::Switching { file, rest, target, moves };
            return;
        }
        target.into_iter().for_each(|target| self.log.relocation_switched(target));
        match rest {
            Some(from) => self.reclaim.stage = Stage::Walking { file, from, found: Vec::new(), bytes: 0 },
            None => self.file_done(file, out),
        }
    }

    fn file_done(&mut self, file: u32, out: &mut Output) {
        self.give_up(file);
        out.notices.push(Notice::Reclaimed { file });
    }

    /// Not again, unless something of it goes.
    fn give_up(&mut self, file: u32) {
        let left = self.log.relocation_candidates(u64::MAX, true).into_iter().find(|left| left.file == file);
        if let Some(left) = left {
            self.reclaim.given_up.insert(file, left.live_bytes);
        } else {
            self.reclaim.given_up.remove(&file);
        }
    }
}
