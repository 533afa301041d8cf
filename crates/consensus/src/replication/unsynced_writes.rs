//! The ordering rule: persist, then send, then reply. This file states the rule and implements its first half, persist,
//! then send; the raft library implements the second.
//!
//! A crash loses what is not synced. So a message that states to another member what is on this member's disk must not
//! leave before the disk has it, and a client must not get a reply for what a crash could take back. The owner hands a
//! write to the log and goes on; [`UnsyncedWrites`] holds back the messages that have to wait for it:
//!
//! | message | waits for |
//! |---|---|
//! | append accepted, append rejected | every write handed out before or with it: it states what this member's log holds |
//! | vote, vote response (pre-votes too) | the same: it states which term and vote this member has recorded |
//! | append, heartbeat, heartbeat response, timeout now, snapshot, leadership check and its response | nothing, unless an unsynced write changes term or vote: then the same |
//!
//! The exception in the last row is for messages of a term that a crash could take back. It matters for leaders too: a
//! sole voter wins its election before its own vote is on disk, and must not append to learners in a term that it could
//! win twice. The rest of the row keeps a slow disk from delaying heartbeats and ReadIndex rounds.
//!
//! Replies need no code here: the raft library hands out an entry as committed only after this member has persisted it,
//! and the owner replies when it has applied it.
//!
//! ```text
//! time  input                    handed to the log            sent at once           held
//!  1    append 5..7              write 1: entries 5..7                               accepted 7, for write 1
//!  2    append 8..9              write 2: entries 8..9                               accepted 9, for write 2
//!  3    heartbeat                                             heartbeat response
//!  4    write 1 synced                                        accepted 7
//!  5    vote request, term 4     write 3: term 4, vote 3                             vote response, for write 3
//!  6    leadership check                                                             its response, for write 3
//!  7    write 3 synced (and so 2)                             accepted 9, vote response, check response
//! ```
//!
//! *What the raft library learns.* A report that write `n` is persisted covers all writes before it. The report is
//! delayed while a later unsynced write replaces entries of `n`: the library compares terms, and could take the
//! replaced entries for the ones that are still being written. Both are then reported together.

use std::collections::VecDeque;

use crate::entry::{Entry, HardState};
use crate::message::{Body, Message, SnapshotMeta};

/// What a [`crate::Ready`] wants on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// For [`crate::Consensus::synced`]. Rises from write to write.
    pub number: u64,
    /// The hard state, if it changed.
    pub hard_state: Option<HardState>,
    /// A snapshot to install first: the log restarts after it. Persisted means installed.
    pub snapshot: Option<SnapshotMeta>,
    /// Consecutive entries. They replace those that the log has from the first one's index on.
    pub entries: Vec<Entry>,
    /// Whether it must be synced and reported. If not, only `commit` changed: write it at any time, or never.
    pub must_sync: bool,
}

/// A write that was handed to the log and is not known to be synced.
struct UnsyncedWrite {
    number: u64,
    /// Whether its hard state has another term or vote than the one before.
    changes_vote: bool,
    /// First and last index of its entries.
    entries: Option<(u64, u64)>,
    /// Index of its snapshot.
    snapshot: Option<u64>,
    /// The tick at which it was handed out.
    since_tick: u64,
    /// Messages that wait for it and for all writes before it.
    held: Vec<Message>,
}

/// The unsynced writes, oldest first, and the messages that wait for them.
pub(crate) struct UnsyncedWrites {
    writes: VecDeque<UnsyncedWrite>,
    /// The newest synced number that is not reported to the library yet, and the last index of what it wrote.
    unreported: Option<(u64, u64)>,
    /// The hard state handed out last.
    hard_state: HardState,
    /// A snapshot that is on disk and not reported to the library yet.
    installed: Option<u64>,
    /// The tick at which the disk last synced anything.
    synced_tick: u64,
}

/// What follows from a sync.
pub(crate) struct SyncedWrites {
    /// Report to the library that all writes up to this number are persisted.
    pub(crate) report: Option<u64>,
    /// These messages may leave now.
    pub(crate) released: Vec<Message>,
}

impl UnsyncedWrites {
    /// No writes yet; `hard_state` is on disk.
    pub(crate) fn new(hard_state: HardState) -> UnsyncedWrites {
        UnsyncedWrites {
            writes: VecDeque::new(),
            unreported: None,
            hard_state,
            installed: None,
            synced_tick: 0,
        }
    }

    /// Notes a write that is handed out at `tick`.
    pub(crate) fn begin(&mut self, write: &Write, tick: u64) {
        let old = self.hard_state;
        let new = write.hard_state.unwrap_or(old);
        let changes_vote = (new.term, new.vote) != (old.term, old.vote);
        self.hard_state = new;
        let changes_log = !write.entries.is_empty() || write.snapshot.is_some();
        assert!(write.must_sync || !(changes_vote || changes_log), "only a commit index need not be synced");
        if write.must_sync {
            assert!(self.newest() < write.number, "write {} after write {}", write.number, self.newest());
            let ends = |entries: &[Entry]| Some((entries.first()?.index, entries.last()?.index));
            self.writes.push_back(UnsyncedWrite {
                number: write.number,
                changes_vote,
                entries: ends(&write.entries),
                snapshot: write.snapshot.as_ref().map(|meta| meta.index),
                since_tick: tick,
                held: Vec::new(),
            });
        }
    }

    /// Keeps those of `messages` that must wait, and returns the others, which leave now.
    pub(crate) fn hold_back(&mut self, messages: Vec<Message>) -> Vec<Message> {
        let vote_at_stake = self.writes.iter().any(|write| write.changes_vote);
        let Some(newest) = self.writes.back_mut() else { return messages };
        let (held, now): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| vote_at_stake || states_disk(&message.body));
        newest.held.extend(held);
        now
    }

    /// At `tick` the disk ended a sync, of a write or of something else that went before the writes that are left.
    pub(crate) fn disk_synced(&mut self, tick: u64) {
        self.synced_tick = tick;
    }

    /// The write of this number is synced, and so are all before it.
    pub(crate) fn complete(&mut self, number: u64) -> SyncedWrites {
        let mut synced = SyncedWrites { report: None, released: Vec::new() };
        let (mut newest, mut last) = self.unreported.take().unwrap_or_default();
        while self.writes.front().is_some_and(|write| write.number <= number) {
            let write = self.writes.pop_front().expect("there is a front");
            newest = write.number;
            last = last.max(write.entries.map_or(0, |(_, last)| last));
            self.installed = write.snapshot.or(self.installed);
            synced.released.extend(write.held);
        }
        let is_replaced = |write: &UnsyncedWrite| write.entries.is_some_and(|(first, _)| first <= last);
        if self.writes.iter().any(is_replaced) {
            self.unreported = Some((newest, last));
        } else if newest != 0 {
            synced.report = Some(newest);
        }
        synced
    }

    /// The index of a snapshot that is installed, once the library has `persisted` it.
    pub(crate) fn take_installed(&mut self, persisted: u64) -> Option<u64> {
        self.installed.take_if(|index| *index <= persisted)
    }

    /// Whether entries or a snapshot are on their way to the disk, or are there but not reported to the library yet.
    pub(crate) fn changes_log(&self) -> bool {
        self.unreported.is_some()
            || self.writes.iter().any(|write| write.entries.is_some() || write.snapshot.is_some())
    }

    /// The oldest unsynced write: its number, the last index of its entries, and the tick since which the disk has had
    /// nothing else to sync: that at which it was handed out, or at which the disk last ended a sync, if that is later.
    pub(crate) fn oldest(&self) -> Option<(u64, Option<u64>, u64)> {
        let write = self.writes.front()?;
        Some((write.number, write.entries.map(|(_, last)| last), write.since_tick.max(self.synced_tick)))
    }

    /// Asserts that numbers and ticks ascend.
    pub(crate) fn check(&self) {
        let mut previous = (self.unreported.map_or(0, |(number, _)| number), 0);
        for write in &self.writes {
            assert!(previous.0 < write.number, "write {} after write {}", write.number, previous.0);
            assert!(previous.1 <= write.since_tick, "write {} is older than the one before", write.number);
            previous = (write.number, write.since_tick);
        }
    }

    fn newest(&self) -> u64 {
        self.writes.back().map_or(0, |write| write.number)
    }
}

/// Whether a message states what is on this member's disk: the first two rows of the table.
fn states_disk(body: &Body) -> bool {
    matches!(
        body,
        Body::AppendAccepted { .. }
            | Body::AppendRejected { .. }
            | Body::Vote { .. }
            | Body::VoteResponse { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryKind;

    fn write(number: u64, indexes: std::ops::Range<u64>) -> Write {
        let entry =
            |index| Entry { term: number, index, kind: EntryKind::Empty, payload: Default::default() };
        let entries = indexes.map(entry).collect();
        Write { number, hard_state: None, snapshot: None, entries, must_sync: true }
    }

    fn message(body: Body) -> Message {
        Message { from: 1, to: 2, term: 1, body }
    }

    #[test]
    fn statements_about_the_disk_wait_and_the_rest_does_not() {
        let mut writes = UnsyncedWrites::new(HardState::default());
        let heartbeat = message(Body::Heartbeat { commit: 1 });
        let accepted = message(Body::AppendAccepted { index: 1, commit: 1 });
        let both = || vec![accepted.clone(), heartbeat.clone()];
        assert_eq!(writes.hold_back(both()), both(), "nothing is under way");
        writes.begin(&write(1, 1..2), 0);
        assert_eq!(writes.hold_back(both()), vec![heartbeat.clone()]);
        let vote = Some(HardState { term: 2, vote: 3, commit: 0 });
        writes.begin(&Write { hard_state: vote, ..write(2, 2..3) }, 0);
        assert!(writes.hold_back(both()).is_empty(), "a vote is at stake");
        assert_eq!(writes.complete(1).released, vec![accepted.clone()]);
        assert_eq!(writes.complete(2).released, both());
    }

    #[test]
    fn a_write_that_is_being_replaced_is_not_reported() {
        let mut writes = UnsyncedWrites::new(HardState::default());
        writes.begin(&write(1, 5..8), 0);
        writes.begin(&write(2, 6..7), 0);
        writes.begin(&write(3, 7..8), 0);
        assert_eq!(writes.complete(1).report, None);
        assert!(writes.changes_log());
        assert_eq!(writes.complete(2).report, None, "the first write's last entry is still being replaced");
        assert_eq!(writes.complete(3).report, Some(3));
        assert!(!writes.changes_log());
    }

    #[test]
    fn a_write_is_as_old_as_the_disk_has_had_time_for_it() {
        let mut writes = UnsyncedWrites::new(HardState::default());
        writes.begin(&write(1, 1..2), 3);
        writes.begin(&write(2, 2..3), 4);
        assert_eq!(writes.oldest(), Some((1, Some(1), 3)));
        writes.complete(1);
        writes.disk_synced(9);
        assert_eq!(writes.oldest(), Some((2, Some(2), 9)), "the first write took the disk until then");
        writes.complete(2);
        writes.disk_synced(12);
        writes.begin(&write(3, 3..4), 20);
        assert_eq!(writes.oldest(), Some((3, Some(3), 20)));
        writes.disk_synced(26);
        assert_eq!(writes.oldest(), Some((3, Some(3), 26)), "the log was sealed in between");
    }
}
