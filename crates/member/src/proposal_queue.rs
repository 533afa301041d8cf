//! The leader's inbox: commands that wait to be proposed, their limits and how they are drained into batches.
//!
//! One entry is proposed per drained batch. With nothing in flight a command leaves at once; otherwise at most
//! [`MAX_IN_FLIGHT`] batches are under way, and the second starts no sooner than [`pace_ns`] after the first: at high
//! rates an unpaced log would flush a handful of commands at a time and pay a sync for each handful.
//!
//! A *crowd* is told by the size of its batches. Its answers come in bulk and its next commands one by one, so what
//! leaves at once would be a handful again, and a handful again behind it: its batches keep their distance also when
//! nothing is in flight.

use std::collections::{BTreeSet, VecDeque};

use crate::batch::{Command, Kind, MAX_BYTES, MAX_COMMANDS, MAX_ORIGINS, Origin};

/// Batches proposed and not yet committed. One being written while the next one collects keeps the disk busy; more
/// would only make each smaller.
pub const MAX_IN_FLIGHT: usize = 2;

/// Least time between two flushes while others are in flight, in nanoseconds: about three syncs of a prepared file.
pub const PACE_NS: u64 = 300_000;

/// Each command of a flush adds this to the time until the next, in nanoseconds: what a flush costs beside its commands
/// is then a small part of what they cost.
const PACE_EACH_NS: u64 = 20_000;

/// Commands of a batch that tell of a crowd: more than some dozens of clients ever send at once.
const CROWD: usize = 64;

/// Least time between two flushes of a crowd, in nanoseconds: well below what it waits anyway.
const CROWD_NS: u64 = 3_000_000;

/// After each batch this part of the largest one lately is forgotten: a dozen batches after it left, even the largest
/// crowd is.
const FORGOTTEN_PART: usize = 4;

/// Least time between a flush shared by `sharers` and the next, in nanoseconds.
pub fn pace_ns(sharers: usize) -> u64 {
    if sharers < CROWD { (sharers as u64 * PACE_EACH_NS).max(PACE_NS) } else { CROWD_NS }
}

/// Commands that may wait: six times the clients of our largest benchmark; beyond it the answer is "too many
/// requests".
pub const MAX_WAITING_COMMANDS: usize = 100_000;

/// Bytes that may wait: what a leader may be asked to hold for clients that send large values all at once.
pub const MAX_WAITING_BYTES: usize = 512 << 20;

/// Commands on their way to consensus (or, on a follower, to the leader).
#[derive(Debug, Default)]
pub struct ProposalQueue {
    /// The member's own, in order: they keep the cluster running and go first.
    own: VecDeque<Command>,
    commands: VecDeque<Command>,
    bytes: usize,
}

/// Sequence numbers of the member's own commands have this bit; tokens of callers do not.
pub const OWN_COMMAND: u64 = 1 << 63;

impl ProposalQueue {
    /// Queues a command.
    ///
    /// # Errors
    /// Gives the command back when a limit is reached.
    pub fn push(&mut self, command: Command) -> Result<(), Command> {
        let len = command.encoded_len();
        if self.commands.len() >= MAX_WAITING_COMMANDS || self.bytes + len > MAX_WAITING_BYTES {
            return Err(command);
        }
        self.bytes += len;
        self.commands.push_back(command);
        Ok(())
    }

    /// Queues a command of the member's own, before those of clients and past the limits.
    pub fn push_own(&mut self, command: Command) {
        self.bytes += command.encoded_len();
        self.own.push_back(command);
    }

    /// Puts commands back that were taken and not proposed, before all that wait, in the order given.
    pub fn give_back(&mut self, commands: impl DoubleEndedIterator<Item = Command>) {
        for command in commands.rev() {
            self.bytes += command.encoded_len();
            let is_own = command.sequence & OWN_COMMAND != 0;
            if is_own { self.own.push_front(command) } else { self.commands.push_front(command) }
        }
    }

    /// Drops the member's own commands of this kind: what a leader knew of leases is void once it leads no more.
    pub fn drop_own(&mut self, kind: Kind) {
        self.bytes -= drop_unless(&mut self.own, |command| command.kind != kind);
    }

    /// Drops commands of this process whose callers were told that their time ran out: they must not be proposed
    /// later.
    pub fn drop_expired(&mut self, own: Origin, expired: &BTreeSet<u64>) {
        let keep = |command: &Command| command.origin != own || !expired.contains(&command.sequence);
        self.bytes -= drop_unless(&mut self.commands, keep);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.commands.is_empty()
    }

    /// Commands that wait.
    pub fn len(&self) -> usize {
        self.own.len() + self.commands.len()
    }

    /// Takes out the commands of other members.
    pub fn take_foreign(&mut self, own: Origin) -> VecDeque<Command> {
        let mut foreign = VecDeque::new();
        // A peer's own command that was given back stands among ours.
        for queue in [&mut self.own, &mut self.commands] {
            let all = std::mem::take(queue).into_iter();
            let (theirs, ours): (VecDeque<_>, VecDeque<_>) =
                all.partition(|command| command.origin.member != own.member);
            *queue = ours;
            foreign.extend(theirs);
        }
        self.bytes -= foreign.iter().map(Command::encoded_len).sum::<usize>();
        foreign
    }

    /// Takes the next batch: commands in order up to the limits of a batch, at least one.
    pub fn take_batch(&mut self) -> Vec<Command> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut origins: Vec<Origin> = Vec::new();
        while let Some(queue) =
            [&mut self.own, &mut self.commands].into_iter().find(|queue| !queue.is_empty())
        {
            let len = queue.front().map_or(0, Command::encoded_len);
            if batch.len() == MAX_COMMANDS || (!batch.is_empty() && bytes + len > MAX_BYTES) {
                break;
            }
            let origin = queue.front().map(|command| command.origin);
            if let Some(origin) = origin.filter(|origin| !origins.contains(origin)) {
                if origins.len() == MAX_ORIGINS {
                    break;
                }
                origins.push(origin);
            }
            bytes += len;
            batch.extend(queue.pop_front());
        }
        self.bytes -= bytes;
        batch
    }
}

/// Drops the commands of a queue that are not to be kept; returns their bytes.
fn drop_unless(queue: &mut VecDeque<Command>, keep: impl Fn(&Command) -> bool) -> usize {
    let mut dropped = 0;
    queue.retain(|command| {
        let kept = keep(command);
        dropped += if kept { 0 } else { command.encoded_len() };
        kept
    });
    dropped
}

/// Decides when the next batch may leave.
#[derive(Debug, Default)]
pub struct GroupCommitDelay {
    in_flight: usize,
    last_ns: u64,
    /// Commands of the last batch.
    last_size: usize,
    /// Commands of the largest batch lately.
    peak: usize,
}

impl GroupCommitDelay {
    /// Whether a batch may leave now.
    pub fn ready(&self, now_ns: u64) -> bool {
        self.ready_at_ns().is_some_and(|at_ns| now_ns >= at_ns)
    }

    /// When a batch may leave, if time alone decides it.
    pub fn ready_at_ns(&self) -> Option<u64> {
        match self.in_flight {
            _ if self.in_flight >= MAX_IN_FLIGHT => None,
            _ if self.peak >= CROWD => Some(self.last_ns + CROWD_NS),
            0 => Some(0),
            _ => Some(self.last_ns + pace_ns(self.last_size)),
        }
    }

    /// A batch of `size` commands left.
    pub fn started(&mut self, now_ns: u64, size: usize) {
        self.in_flight += 1;
        self.last_ns = now_ns;
        self.last_size = size;
        self.peak = size.max(self.peak - self.peak / FORGOTTEN_PART);
    }

    /// A batch that left from here was committed.
    pub fn finished(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The leader changed: what was in flight is no longer ours to wait for.
    pub fn reset(&mut self) {
        *self = GroupCommitDelay::default();
    }
}

#[cfg(test)]
mod tests {
    //! Limits, order and pacing.
    use super::*;
    use bytes::Bytes;

    fn command(sequence: u64, body: usize) -> Command {
        Command {
            origin: Origin { member: 1, start: 1 },
            sequence,
            kind: Kind::Put,
            auth: Bytes::new(),
            body: vec![0; body].into(),
        }
    }

    #[test]
    fn a_batch_is_closed_by_count_or_bytes_and_a_giant_travels_alone() {
        let mut inbox = ProposalQueue::default();
        for sequence in 0..1500 {
            inbox.push(command(sequence, 8)).expect("room");
        }
        assert_eq!(inbox.take_batch().len(), MAX_COMMANDS);
        inbox.push(command(1500, 2 * MAX_BYTES)).expect("room");
        inbox.push(command(1501, 8)).expect("room");
        assert_eq!(inbox.take_batch().len(), 500);
        let giant = inbox.take_batch();
        assert_eq!((giant.len(), giant[0].sequence), (1, 1500));
        inbox.give_back(giant.into_iter());
        assert_eq!(inbox.take_batch()[0].sequence, 1500);
        assert_eq!(inbox.take_batch()[0].sequence, 1501);
        assert!(inbox.is_empty() && inbox.bytes == 0);
    }

    #[test]
    fn own_commands_go_first_in_order_also_after_they_came_back() {
        let mut inbox = ProposalQueue::default();
        inbox.push(command(1, 8)).expect("room");
        inbox.push_own(command(OWN_COMMAND | 2, 8));
        inbox.push_own(command(OWN_COMMAND | 3, 8));
        let expected = [OWN_COMMAND | 2, OWN_COMMAND | 3, 1];
        let batch = inbox.take_batch();
        assert_eq!(batch.iter().map(|c| c.sequence).collect::<Vec<_>>(), expected);
        inbox.push_own(command(OWN_COMMAND | 4, 8));
        inbox.give_back(batch.into_iter());
        inbox.drop_own(Kind::Txn);
        let order: Vec<u64> = inbox.take_batch().iter().map(|c| c.sequence).collect();
        assert_eq!(order, [OWN_COMMAND | 2, OWN_COMMAND | 3, OWN_COMMAND | 4, 1]);
        inbox.push_own(command(OWN_COMMAND | 5, 8));
        inbox.drop_own(Kind::Put);
        assert!(inbox.is_empty() && inbox.bytes == 0);
    }

    #[test]
    fn a_batch_names_no_more_origins_than_its_format_can() {
        let mut inbox = ProposalQueue::default();
        for start in 0..300 {
            let origin = Origin { member: 1, start };
            inbox.push(Command { origin, ..command(start, 8) }).expect("room");
        }
        assert_eq!(inbox.take_batch().len(), MAX_ORIGINS);
        assert_eq!(inbox.take_batch().len(), 45);
    }

    #[test]
    fn what_expired_is_dropped_and_nothing_else() {
        let mut inbox = ProposalQueue::default();
        (0..4).for_each(|sequence| inbox.push(command(sequence, 8)).expect("room"));
        inbox.drop_expired(command(0, 0).origin, &BTreeSet::from([1, 3]));
        assert_eq!(inbox.take_batch().iter().map(|c| c.sequence).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(inbox.bytes, 0);
    }

    #[test]
    fn a_full_inbox_gives_the_command_back() {
        let mut inbox = ProposalQueue::default();
        for sequence in 0..MAX_WAITING_COMMANDS as u64 {
            inbox.push(command(sequence, 0)).expect("room");
        }
        assert_eq!(inbox.push(command(0, 0)).expect_err("full").sequence, 0);
    }

    #[test]
    fn a_lone_batch_leaves_at_once_the_second_waits_its_time_the_third_for_a_commit() {
        let mut pace = GroupCommitDelay::default();
        assert!(pace.ready(5));
        pace.started(5, 1);
        assert!(!pace.ready(5 + PACE_NS - 1));
        assert_eq!(pace.ready_at_ns(), Some(5 + PACE_NS));
        assert!(pace.ready(5 + PACE_NS));
        pace.started(5 + PACE_NS, 1);
        assert!(!pace.ready(u64::MAX));
        assert_eq!(pace.ready_at_ns(), None);
        pace.finished();
        pace.finished();
        assert!(pace.ready(0));
    }

    #[test]
    fn the_more_share_a_flush_the_longer_until_the_next() {
        assert_eq!(pace_ns(1), PACE_NS);
        assert_eq!(pace_ns(50), 50 * PACE_EACH_NS);
        assert_eq!(pace_ns(usize::MAX), CROWD_NS);
        let mut pace = GroupCommitDelay::default();
        pace.started(0, 50);
        assert_eq!(pace.ready_at_ns(), Some(50 * PACE_EACH_NS));
        pace.finished();
        assert_eq!(pace.ready_at_ns(), Some(0), "some dozens of clients do not wait for each other");
    }

    #[test]
    fn a_crowd_keeps_its_distance_until_it_is_gone() {
        let mut pace = GroupCommitDelay::default();
        pace.started(0, MAX_COMMANDS);
        pace.finished();
        let mut now = 0;
        let mut batches = 0;
        while pace.ready_at_ns() == Some(now + CROWD_NS) {
            now += CROWD_NS;
            pace.started(now, 1);
            pace.finished();
            batches += 1;
        }
        assert_eq!(pace.ready_at_ns(), Some(0));
        assert!((1..=12).contains(&batches), "{batches} batches were held");
    }
}
