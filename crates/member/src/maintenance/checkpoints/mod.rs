//! When a checkpoint is written, and which kind.
//!
//! A base holds the whole index, a delta what changed since the checkpoint before. As a rule a delta is written. So
//! that neither its number nor its bytes grow forever, checkpoints are merged from their files, without a look at the
//! index: all of them when the deltas have grown to [`DELTAS_TO_BASE`] times the base, and the newest ones when there
//! are [`MAX_DELTAS`] of them. The newest are those of which none is larger than all that follow it together, so a byte
//! is merged again only when as many have been written behind it:
//!
//! ```text
//! base 1 GB | 16 deltas of 1 MB            merged: base 1 GB | 16 MB
//! base 1 GB | 16 MB | 15 deltas of 1 MB    merged: base 1 GB | 16 MB | 15 MB
//! base 1 GB | 16 MB | 15 MB | .. | 2 MB | 1 MB | 1 MB        merged: base 1 GB | 137 MB
//! ```
//!
//! While space is low, chains grow longer before they are merged: space is only freed by a checkpoint, and a delta is
//! small. If it did not fit (much was deleted), a base is tried, and so on in turn. A base is also written when the
//! files could not be merged because one is damaged, or the scrub found one damaged: the state has all that they hold.
//!
//! While a merge runs no checkpoint is written. What cannot wait for it makes it give up: an installation, the end of
//! the process, and, while space is low, a checkpoint that frees some.

#[cfg(test)]
mod tests;

use consensus::ConfState;
use log::{JobError, Log, LogId, Space};
use store::{CheckpointKind, Limits, Store};

use crate::checkpoint_files::GiveUp;
use crate::conf_state;
use crate::jobs::{CheckpointJob, Job, MergeJob};

/// All checkpoints are merged into a base when the deltas have grown to so many times its size. A larger factor writes
/// fewer bytes for a growing index (all bases together are half of the last one, not as much again as with 1), and
/// makes a restart merge more.
const DELTAS_TO_BASE: u64 = 2;

/// Deltas after which the newest of them are merged. Each is a file that a merge, and a restart, has open, and of which
/// it holds frames in memory.
const MAX_DELTAS: usize = 16;

/// The same while space is low.
const MAX_DELTAS_WHILE_LOW: usize = 2 * MAX_DELTAS;

/// A checkpoint that is to take the place of a damaged one, and failed, is tried again after so long, in nanoseconds: a
/// base may be gigabytes, and without it the next start is refused.
const RETRY_DAMAGED_NS: u64 = 60_000_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct CheckpointSchedule {
    commands_since: u64,
    is_running: bool,
    /// A checkpoint is wanted at or behind this entry.
    wanted: Option<u64>,
    /// A checkpoint is wanted as soon as possible.
    wants_now: bool,
    /// The last one, if it did not fit on the disk: the next is of the other kind, which may be smaller.
    too_large: Option<CheckpointKind>,
    begun: Option<CheckpointKind>,
    /// The next one is a base: checkpoints on disk could not be merged.
    wants_base: bool,
    /// One on disk is damaged, until a base has taken its place.
    has_damaged: bool,
    /// The base that was begun last was begun when that was known.
    begun_for_damage: bool,
    /// When a base is tried again that failed while one on disk was damaged.
    retry_ns: Option<u64>,
    /// Of the merge that is running.
    merge: Option<GiveUp>,
}

impl CheckpointSchedule {
    /// Commands were applied.
    pub(crate) fn applied(&mut self, commands: u64) {
        self.commands_since += commands;
    }

    /// The state was replaced by that of a snapshot, which is a checkpoint, a base in place of all others.
    pub(crate) fn installed(&mut self) {
        self.commands_since = 0;
        self.wants_now &= !self.has_damaged;
        (self.has_damaged, self.wants_base, self.retry_ns) = (false, false, None);
    }

    /// A checkpoint shall be written at or behind this entry.
    pub(crate) fn want(&mut self, index: u64) {
        self.wanted = Some(index);
    }

    /// A checkpoint of the present state shall be written as soon as possible.
    pub(crate) fn want_now(&mut self) {
        self.wants_now = true;
    }

    /// A checkpoint on disk is damaged: a base takes its place as soon as possible.
    pub(crate) fn replace_damaged(&mut self) {
        (self.has_damaged, self.wants_base, self.wants_now) = (true, true, true);
    }

    /// Whether the base that has just been written took the place of a damaged checkpoint. One that had begun before
    /// the damage was found did so, too, but it may be what is damaged: the next one tells.
    pub(crate) fn take_replaced(&mut self) -> bool {
        let is_replaced = std::mem::take(&mut self.begun_for_damage) && std::mem::take(&mut self.has_damaged);
        self.wants_now |= self.has_damaged;
        is_replaced
    }

    /// Whether a checkpoint is being written.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Whether the next start needs a checkpoint more than the last one: commands were applied since that began, or one
    /// on disk is damaged or could not be merged.
    pub(crate) fn has_changes(&self) -> bool {
        self.commands_since > 0 || self.is_needed_to_start()
    }

    /// Whether the next start may be refused without another checkpoint.
    pub(crate) fn is_needed_to_start(&self) -> bool {
        self.has_damaged || self.wants_base
    }

    /// Whether a checkpoint should begin: none is running, and enough commands were applied, one is wanted, or the base
    /// that failed is tried again.
    pub(crate) fn is_due(&self, now_ns: u64, applied: u64, every_commands: u64) -> bool {
        let is_wanted = self.wanted.is_some_and(|index| index <= applied);
        let is_retried = self.retry_ns.is_some_and(|from_ns| now_ns >= from_ns);
        !self.is_running
            && (self.commands_since >= every_commands || is_wanted || self.wants_now || is_retried)
    }

    /// Begins a checkpoint of the state at `id`.
    pub(crate) fn begin(&mut self, id: LogId, conf: &ConfState, log: &mut Log, store: &mut Store) -> Job {
        assert!(!self.is_running, "one checkpoint at a time");
        let is_base = match self.too_large {
            Some(kind) => kind == CheckpointKind::Delta,
            None => self.wants_base || log.checkpoint_id().is_none(),
        };
        self.wants_base &= !is_base;
        let wanted = if is_base { CheckpointKind::Base } else { CheckpointKind::Delta };
        let source = store.begin_checkpoint(wanted);
        let kind = match source.kind() {
            CheckpointKind::Base => log::CheckpointKind::Base,
            CheckpointKind::Delta => log::CheckpointKind::Delta,
        };
        let writer = log.begin_checkpoint(kind, id);
        let head = conf_state::encode(conf);
        self.is_running = true;
        self.begun = Some(source.kind());
        self.begun_for_damage = self.has_damaged && source.kind() == CheckpointKind::Base;
        self.retry_ns = None;
        self.wanted.take_if(|index| *index <= id.index);
        self.wants_now = false;
        self.commands_since = 0;
        Job::Checkpoint(Box::new(CheckpointJob { id, writer, head, source }))
    }

    /// Begins to merge checkpoints, if that is due.
    pub(crate) fn begin_merge(&mut self, log: &mut Log, limits: Limits) -> Option<Job> {
        assert!(!self.is_running, "one checkpoint at a time");
        let lengths = log.checkpoint_lengths();
        // On a nearly full disk what must be written to free space should be little.
        let first = first_merged(&lengths, log.space() == Space::Low)?;
        let (writer, checkpoint) = log.begin_checkpoint_merge(first..lengths.len());
        self.is_running = true;
        let give_up = self.merge.insert(GiveUp::default()).clone();
        Some(Job::MergeCheckpoints(Box::new(MergeJob { writer, checkpoint, give_up, limits })))
    }

    /// Something more urgent waits for a merge, if one is running: it ends soon, without a result.
    pub(crate) fn give_up_merge(&self) {
        if let Some(merge) = &self.merge {
            merge.ask();
        }
    }

    /// A checkpoint would free space while space is low: a merge that would not begin now makes way for it. One that
    /// would is as urgent, since it would be given up again and again, and the chain would grow forever.
    pub(crate) fn make_way_for_space(&self, log: &Log) {
        if first_merged(&log.checkpoint_lengths(), true).is_none() {
            self.give_up_merge();
        }
    }

    /// Checkpoints were merged, or why not.
    pub(crate) fn merged(&mut self, result: &Result<(), JobError>) {
        assert!(self.is_running, "a merge ends once");
        self.is_running = false;
        self.merge = None;
        self.wants_base |= matches!(result, Err(JobError::Unreadable(_)));
    }

    /// The checkpoint was written, or failed.
    pub(crate) fn done(&mut self) {
        assert!(self.is_running, "a checkpoint ends once");
        self.is_running = false;
        self.too_large = None;
    }

    /// The checkpoint that is done failed at `now_ns`; `was_full` if it did not fit on the disk. One that takes the
    /// place of a damaged one is tried again, also when nothing is written.
    pub(crate) fn failed(&mut self, now_ns: u64, was_full: bool) {
        self.too_large = self.begun.filter(|_| was_full);
        self.wants_base |= self.has_damaged;
        self.retry_ns = self.has_damaged.then_some(now_ns + RETRY_DAMAGED_NS);
    }
}

/// The first checkpoint that is to be merged with all that follow it, given the length of each, base first; `None` if
/// none is.
fn first_merged(lengths: &[u64], is_space_low: bool) -> Option<usize> {
    let (base, deltas) = lengths.split_first()?;
    if is_space_low && deltas.len() < MAX_DELTAS_WHILE_LOW {
        return None;
    }
    let sum: u64 = deltas.iter().sum();
    if sum >= base.saturating_mul(DELTAS_TO_BASE) {
        return (!deltas.is_empty()).then_some(0);
    }
    if deltas.len() < MAX_DELTAS {
        return None;
    }
    // Sizes that decline slowly would never be merged if none might be larger.
    [1, 2].into_iter().find_map(|factor| {
        let mut newer = 0;
        let is_small = |length: &&u64| {
            let is_small = newer == 0 || **length <= newer * factor;
            newer += **length;
            is_small
        };
        let merged = deltas.iter().rev().take_while(is_small).count();
        (merged > 1).then(|| lengths.len() - merged)
    })
}
