//! What was handed to the disk and is not known written yet, and the messages that wait for it.
//!
//! This is the one place that says what may leave when:
//!
//! 1. A message that promises something about our disk (append responses, votes, pre-votes and their responses)
//!    leaves when every write handed out before or with it is synced.
//! 2. Every other message leaves at once, unless a write under way changes term or vote: then it waits as well, since
//!    it speaks for a term that a crash could take back. This holds for leaders too: a sole voter wins its
//!    election before its own vote is on disk, and must not append to learners in a term it could win twice.
//!
//! So a slow disk delays commits, not heartbeats and confirm rounds.

use std::collections::VecDeque;

use crate::{Message, Write};

/// A write under way.
struct Pending {
    number: u64,
    changes_vote: bool,
    /// First and last index of its entries.
    entries: Option<(u64, u64)>,
    snapshot: Option<u64>,
    since_tick: u64,
    held: Vec<Message>,
}

/// The writes under way, oldest first.
#[derive(Default)]
pub(crate) struct Writes {
    pending: VecDeque<Pending>,
    /// The newest written number the library has not been told of, and the last index of what it wrote.
    untold: Option<(u64, u64)>,
}

/// What became of a completed write.
pub(crate) struct Written {
    /// Tell the library that all up to this number is written.
    pub(crate) tell: Option<u64>,
    /// A snapshot was installed up to this index.
    pub(crate) snapshot: Option<u64>,
    /// These may leave now.
    pub(crate) released: Vec<Message>,
}

impl Writes {
    /// Notes a write that must be synced. `changes_vote`: its hard state has a new term or vote.
    pub(crate) fn begin(&mut self, write: &Write, changes_vote: bool, tick: u64) {
        let ends = |entries: &[crate::Entry]| Some((entries.first()?.index, entries.last()?.index));
        self.pending.push_back(Pending {
            number: write.number,
            changes_vote,
            entries: ends(&write.entries),
            snapshot: write.snapshot.as_ref().map(|meta| meta.index),
            since_tick: tick,
            held: Vec::new(),
        });
    }

    /// Keeps back those of `messages` that must wait; the rest are returned and leave now.
    pub(crate) fn hold_back(&mut self, messages: Vec<Message>) -> Vec<Message> {
        let vote_at_stake = self.pending.iter().any(|write| write.changes_vote);
        let Some(newest) = self.pending.back_mut() else { return messages };
        let (held, now): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| vote_at_stake || message.promises_disk());
        newest.held.extend(held);
        now
    }

    /// The write of this number, and so all before it, is synced.
    ///
    /// The library is not told while a later write under way replaces entries of this one: it would take the
    /// replaced ones' places for written if the later ones happen to be equal in term. It learns of both together.
    pub(crate) fn complete(&mut self, number: u64) -> Written {
        let mut written = Written { tell: None, snapshot: None, released: Vec::new() };
        let (mut told, mut last) = self.untold.take().unwrap_or_default();
        while self.pending.front().is_some_and(|write| write.number <= number) {
            let write = self.pending.pop_front().expect("there is a front");
            told = write.number;
            last = last.max(write.entries.map_or(0, |(_, last)| last));
            written.snapshot = write.snapshot.or(written.snapshot);
            written.released.extend(write.held);
        }
        let replaced = |write: &Pending| write.entries.is_some_and(|(first, _)| first <= last);
        if self.pending.iter().any(replaced) {
            self.untold = Some((told, last));
        } else if told != 0 {
            written.tell = Some(told);
        }
        written
    }

    /// Whether entries or a snapshot are under way.
    pub(crate) fn log_under_way(&self) -> bool {
        self.untold.is_some()
            || self.pending.iter().any(|write| write.entries.is_some() || write.snapshot.is_some())
    }

    /// The oldest write under way: its number, the last index of its entries, and the tick it began at.
    pub(crate) fn oldest(&self) -> Option<(u64, Option<u64>, u64)> {
        self.pending
            .front()
            .map(|write| (write.number, write.entries.map(|(_, last)| last), write.since_tick))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Entry, EntryKind};

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
    fn promises_wait_for_the_disk_and_the_rest_does_not() {
        let mut writes = Writes::default();
        let heartbeat = message(Body::Heartbeat { commit: 1 });
        let accepted = message(Body::AppendAccepted { index: 1, commit: 1 });
        let both = || vec![accepted.clone(), heartbeat.clone()];
        assert_eq!(writes.hold_back(both()), both(), "nothing is under way");
        writes.begin(&write(1, 1..2), false, 0);
        assert_eq!(writes.hold_back(both()), vec![heartbeat.clone()]);
        writes.begin(&write(2, 2..3), true, 0);
        assert!(writes.hold_back(both()).is_empty(), "a vote is at stake");
        assert_eq!(writes.complete(1).released, vec![accepted.clone()]);
        assert_eq!(writes.complete(2).released, both());
    }

    #[test]
    fn a_write_that_is_being_replaced_is_not_told() {
        let mut writes = Writes::default();
        writes.begin(&write(1, 5..8), false, 0);
        writes.begin(&write(2, 6..7), false, 0);
        writes.begin(&write(3, 7..8), false, 0);
        assert_eq!(writes.complete(1).tell, None);
        assert!(writes.log_under_way());
        assert_eq!(writes.complete(2).tell, None, "the first write's last entry is still being replaced");
        assert_eq!(writes.complete(3).tell, Some(3));
        assert!(!writes.log_under_way());
    }
}
