//! When a checkpoint is written, and which kind.
//!
//! A base holds the whole index, a delta what changed since the checkpoint before. A base is due when the deltas have
//! grown to [`DELTAS_TO_BASE`] times its size, or are [`MAX_DELTAS`] in number:
//!
//! ```text
//! base 100 MB | delta 5 MB | delta 5 MB | ... 40 deltas later: 200 MB of deltas | base 100 MB | delta ...
//! ```
//!
//! While space is low a delta is written instead: space is only freed by a checkpoint, and a delta is small. If it did
//! not fit (much was deleted), a base is tried, and so on in turn.

use consensus::ConfState;
use log::{Log, LogId, Space};
use store::{CheckpointKind, Store};

use crate::conf_state;
use crate::jobs::{CheckpointJob, Job};

/// A base is written when the deltas have grown to so many times its size. A larger factor writes fewer bytes for a
/// growing index (all bases together are half of the last one, not as much again as with 1), and makes a restart merge
/// more.
const DELTAS_TO_BASE: u64 = 2;

/// Deltas after which a base is written whatever their size. A few keys that change for ever make small deltas, and
/// what a restart reads, their list, and the history that only purging knew would grow without end.
const MAX_DELTAS: usize = 256;

/// The same while space is low.
const MAX_DELTAS_WHILE_LOW: usize = 4 * MAX_DELTAS;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct CheckpointSchedule {
    commands_since: u64,
    is_running: bool,
    /// A checkpoint is wanted at or behind this entry.
    wanted: Option<u64>,
    /// The last one, if it did not fit on the disk: the next is of the other kind, which may be smaller.
    too_large: Option<CheckpointKind>,
    begun: Option<CheckpointKind>,
}

impl CheckpointSchedule {
    /// Commands were applied.
    pub(crate) fn applied(&mut self, commands: u64) {
        self.commands_since += commands;
    }

    /// The state was replaced by that of a snapshot, which is a checkpoint.
    pub(crate) fn installed(&mut self) {
        self.commands_since = 0;
    }

    /// A checkpoint shall be written at or behind this entry.
    pub(crate) fn want(&mut self, index: u64) {
        self.wanted = Some(index);
    }

    /// Whether a checkpoint is being written.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Whether commands were applied since the last checkpoint began.
    pub(crate) fn has_changes(&self) -> bool {
        self.commands_since > 0
    }

    /// Whether a checkpoint should begin: none is running, and enough commands were applied or one is wanted.
    pub(crate) fn is_due(&self, applied: u64, every_commands: u64) -> bool {
        let is_wanted = self.wanted.is_some_and(|index| index <= applied);
        !self.is_running && (self.commands_since >= every_commands || is_wanted)
    }

    /// Begins a checkpoint of the state at `id`.
    pub(crate) fn begin(&mut self, id: LogId, conf: &ConfState, log: &mut Log, store: &mut Store) -> Job {
        assert!(!self.is_running, "one checkpoint at a time");
        let (base, deltas) = log.checkpoint_bytes();
        // Without a base the deltas have nothing to grow to, so a base is due.
        let is_base_due =
            deltas >= base.saturating_mul(DELTAS_TO_BASE) || log.checkpoint_deltas() >= MAX_DELTAS;
        // On a nearly full disk what must be written to free space should be little.
        let is_base = match self.too_large {
            Some(kind) => kind == CheckpointKind::Delta,
            None if log.space() == Space::Low => log.checkpoint_deltas() >= MAX_DELTAS_WHILE_LOW,
            None => is_base_due,
        };
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
        self.wanted.take_if(|index| *index <= id.index);
        self.commands_since = 0;
        Job::Checkpoint(Box::new(CheckpointJob { id, writer, head, source }))
    }

    /// The checkpoint was written, or failed.
    pub(crate) fn done(&mut self) {
        assert!(self.is_running, "a checkpoint ends once");
        self.is_running = false;
        self.too_large = None;
    }

    /// The checkpoint that is done failed; `was_full` if it did not fit on the disk.
    pub(crate) fn failed(&mut self, was_full: bool) {
        self.too_large = self.begun.filter(|_| was_full);
    }
}

#[cfg(test)]
mod tests {
    //! When a checkpoint is due, and when it is a base.
    use super::*;
    use crate::tests::LogAndStore;

    /// Writes a checkpoint of the present state. Returns whether it is a base.
    fn write(schedule: &mut CheckpointSchedule, state: &mut LogAndStore) -> bool {
        let (id, conf) = (state.applied(), ConfState::of_voters([1]));
        let Job::Checkpoint(job) = schedule.begin(id, &conf, &mut state.log, &mut state.store) else {
            unreachable!("a checkpoint is begun")
        };
        let kind = job.source.kind();
        state.log.checkpoint_done(job.write()).expect("the disk is intact");
        schedule.done();
        kind == CheckpointKind::Base
    }

    fn filled(keys: usize) -> LogAndStore {
        let mut state = LogAndStore::new(&[1]);
        (0..keys).for_each(|number| state.put(&format!("key{number}"), "value"));
        state
    }

    #[test]
    fn one_is_due_after_so_many_commands_and_none_while_another_is_written() {
        let mut state = filled(1);
        let mut schedule = CheckpointSchedule::default();
        schedule.applied(9);
        assert!(!schedule.is_due(2, 10));
        schedule.applied(1);
        assert!(schedule.is_due(2, 10));
        schedule.begin(state.applied(), &ConfState::of_voters([1]), &mut state.log, &mut state.store);
        assert!(!schedule.has_changes(), "they are counted from its beginning");
        schedule.applied(10);
        assert!(schedule.is_running() && !schedule.is_due(2, 10));
        schedule.done();
        assert!(schedule.is_due(2, 10));
        schedule.installed();
        assert!(!schedule.is_due(2, 10), "a snapshot is a checkpoint");
    }

    #[test]
    fn a_wanted_one_is_due_from_its_entry_on_until_one_there_has_begun() {
        let mut state = filled(3);
        let mut schedule = CheckpointSchedule::default();
        schedule.want(5);
        assert_eq!(state.applied().index, 4);
        assert!(!schedule.is_due(4, 10));
        assert!(schedule.is_due(5, 10));
        write(&mut schedule, &mut state);
        assert!(schedule.is_due(5, 10), "one before the entry is not the wanted one");
        state.put("key", "value");
        write(&mut schedule, &mut state);
        assert!(!schedule.is_due(5, 10));
    }

    #[test]
    fn a_base_follows_when_the_deltas_are_twice_its_size() {
        let mut state = filled(30);
        let mut schedule = CheckpointSchedule::default();
        assert!(write(&mut schedule, &mut state), "the first is a base");
        let (base, _) = state.log.checkpoint_bytes();
        let mut deltas = 0;
        while deltas < 2 * base {
            (0..10).for_each(|number| state.put(&format!("key{number}"), "other"));
            assert!(!write(&mut schedule, &mut state), "{deltas} bytes of deltas, {base} of the base");
            deltas = state.log.checkpoint_bytes().1;
        }
        assert!(write(&mut schedule, &mut state));
    }

    #[test]
    fn a_base_follows_when_the_deltas_are_many_however_small() {
        let mut state = filled(4_000);
        let mut schedule = CheckpointSchedule::default();
        let bases: Vec<bool> = (0..MAX_DELTAS + 3).map(|_| write(&mut schedule, &mut state)).collect();
        let written = bases.iter().enumerate().filter(|(_, is_base)| **is_base);
        assert_eq!(written.map(|(at, _)| at).collect::<Vec<_>>(), [0, MAX_DELTAS + 1]);
    }
}
