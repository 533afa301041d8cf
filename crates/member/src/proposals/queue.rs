//! The proposal queue: commands that wait to be proposed (on the leader) or forwarded (on a follower).
//!
//! ```text
//! push_own(A)                 own:      A                 proposed first: they keep the cluster running
//! push(1) push(2) push(3)     commands: 1 2 3             in order of arrival, up to the limits below
//! take_batch() -> A 1 2 3     at most MAX_COMMANDS commands, MAX_BYTES bytes and MAX_ORIGINS origins
//! give_back(1 2 3)            commands: 1 2 3             consensus was busy: same order, before what came since
//! ```
//!
//! While a leader removes a member, the commands of that member stand aside: proposed after the removal, they would be
//! applied where nobody waits for them any more. What was proposed before is applied before, by that member too.
//!
//! ```text
//! commands: 1 of 7, 2 of 9    set_aside(7)                commands: 2     aside: 1
//! push(3 of 7)                                            commands: 2     aside: 1 3
//! take_aside() -> 1 3         7 is removed: refused; it is not: given back
//! ```

use std::collections::{BTreeSet, VecDeque};

use super::batch::{CommandKind, LogCommand, MAX_BYTES, MAX_COMMANDS, MAX_ORIGINS, Origin};
use super::group_commit::Waiting;

/// Commands that may wait: six times the clients of our largest benchmark; beyond it the answer is "too many
/// requests".
pub const MAX_WAITING_COMMANDS: usize = 100_000;

/// Bytes that may wait: what a leader may be asked to hold for clients that send large values all at once.
pub const MAX_WAITING_BYTES: usize = 512 << 20;

/// Commands that wait; see the module.
#[derive(Debug, Default)]
pub struct ProposalQueue {
    /// The member's own, in order: they keep the cluster running and go first.
    own: VecDeque<LogCommand>,
    commands: VecDeque<LogCommand>,
    bytes: usize,
    aside: Option<Aside>,
}

/// The commands of a member that is being removed.
#[derive(Debug)]
struct Aside {
    member: u64,
    commands: VecDeque<LogCommand>,
    bytes: usize,
}

/// Sequence numbers of the member's own commands have this bit; tokens of callers do not.
pub const OWN_COMMAND: u64 = 1 << 63;

impl ProposalQueue {
    /// Queues a command.
    ///
    /// # Errors
    /// Gives the command back when a limit is reached.
    pub fn push(&mut self, command: LogCommand) -> Result<(), LogCommand> {
        let len = command.encoded_len();
        let aside = self.aside.as_ref().map_or((0, 0), |aside| (aside.commands.len(), aside.bytes));
        if self.commands.len() + aside.0 >= MAX_WAITING_COMMANDS
            || self.bytes + aside.1 + len > MAX_WAITING_BYTES
        {
            return Err(command);
        }
        if let Some(aside) = self.aside.as_mut().filter(|aside| aside.member == command.origin.member) {
            aside.bytes += len;
            aside.commands.push_back(command);
            return Ok(());
        }
        self.bytes += len;
        self.commands.push_back(command);
        Ok(())
    }

    /// Queues a command of this member's own: before those of clients, and not subject to the limits.
    pub fn push_own(&mut self, command: LogCommand) {
        self.bytes += command.encoded_len();
        self.own.push_back(command);
    }

    /// Puts back commands that were taken and not proposed: in the order given, before all that wait.
    pub fn give_back(&mut self, commands: impl DoubleEndedIterator<Item = LogCommand>) {
        for command in commands.rev() {
            self.bytes += command.encoded_len();
            let is_own = command.sequence & OWN_COMMAND != 0;
            if is_own { self.own.push_front(command) } else { self.commands.push_front(command) }
        }
    }

    /// Drops this member's own commands of one kind. What a former leader knew of leases must not be proposed later.
    pub fn drop_own(&mut self, kind: CommandKind) {
        self.bytes -= drop_unless(&mut self.own, |command| command.kind != kind);
    }

    /// Drops commands of this process whose callers got a time-out: they must not be proposed later.
    pub fn drop_expired(&mut self, own: Origin, expired: &BTreeSet<u64>) {
        let keep = |command: &LogCommand| command.origin != own || !expired.contains(&command.sequence);
        self.bytes -= drop_unless(&mut self.commands, keep);
    }

    /// Whether no command waits.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.commands.is_empty()
    }

    /// Bytes of the commands that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of commands that wait.
    pub fn len(&self) -> usize {
        self.own.len() + self.commands.len()
    }

    /// How much waits. A batch is full when the next one cannot become larger.
    pub fn waiting(&self) -> Waiting {
        Waiting { commands: self.len(), is_full: self.len() >= MAX_COMMANDS || self.bytes >= MAX_BYTES }
    }

    /// Sets the commands of a member aside, also those that are pushed from now on.
    pub fn set_aside(&mut self, member: u64) {
        let waiting = self.take_those(|command| command.origin.member == member);
        let mut commands = self.take_aside();
        commands.extend(waiting);
        let bytes = commands.iter().map(LogCommand::encoded_len).sum();
        self.aside = Some(Aside { member, commands, bytes });
    }

    /// Takes the commands that stand aside, in order. Those that are pushed from now on do not.
    pub fn take_aside(&mut self) -> VecDeque<LogCommand> {
        self.aside.take().map(|aside| aside.commands).unwrap_or_default()
    }

    /// Removes and returns the commands of other members.
    pub fn take_foreign(&mut self, own: Origin) -> VecDeque<LogCommand> {
        let mut foreign = self.take_those(|command| command.origin.member != own.member);
        foreign.extend(self.take_aside());
        foreign
    }

    /// A peer's own command that was given back stands among ours.
    fn take_those(&mut self, is_wanted: impl Fn(&LogCommand) -> bool) -> VecDeque<LogCommand> {
        let mut taken = VecDeque::new();
        for queue in [&mut self.own, &mut self.commands] {
            let all = std::mem::take(queue).into_iter();
            let (wanted, others): (VecDeque<_>, VecDeque<_>) = all.partition(&is_wanted);
            *queue = others;
            taken.extend(wanted);
        }
        self.bytes -= taken.iter().map(LogCommand::encoded_len).sum::<usize>();
        taken
    }

    /// Takes the next batch: commands in order, at least one, up to the limits of a batch.
    pub fn take_batch(&mut self) -> Vec<LogCommand> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut origins: Vec<Origin> = Vec::new();
        while let Some(queue) =
            [&mut self.own, &mut self.commands].into_iter().find(|queue| !queue.is_empty())
        {
            let len = queue.front().map_or(0, LogCommand::encoded_len);
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
fn drop_unless(queue: &mut VecDeque<LogCommand>, keep: impl Fn(&LogCommand) -> bool) -> usize {
    let mut dropped = 0;
    queue.retain(|command| {
        let kept = keep(command);
        dropped += if kept { 0 } else { command.encoded_len() };
        kept
    });
    dropped
}

#[cfg(test)]
mod tests {
    //! Limits and order.
    use super::*;
    use bytes::Bytes;

    fn command(sequence: u64, body: usize) -> LogCommand {
        LogCommand {
            origin: Origin { member: 1, run: 1 },
            sequence,
            kind: CommandKind::Put,
            auth: Bytes::new(),
            body: vec![0; body].into(),
        }
    }

    #[test]
    fn a_batch_is_closed_by_count_or_bytes_and_a_giant_travels_alone() {
        let mut queue = ProposalQueue::default();
        for sequence in 0..1500 {
            queue.push(command(sequence, 8)).expect("room");
        }
        assert!(queue.waiting().is_full);
        assert_eq!(queue.take_batch().len(), MAX_COMMANDS);
        assert!(!queue.waiting().is_full, "500 are left");
        queue.push(command(1500, 2 * MAX_BYTES)).expect("room");
        queue.push(command(1501, 8)).expect("room");
        assert!(queue.waiting().is_full, "by bytes");
        assert_eq!(queue.take_batch().len(), 500);
        let giant = queue.take_batch();
        assert_eq!((giant.len(), giant[0].sequence), (1, 1500));
        queue.give_back(giant.into_iter());
        assert_eq!(queue.take_batch()[0].sequence, 1500);
        assert_eq!(queue.take_batch()[0].sequence, 1501);
        assert!(queue.is_empty() && queue.bytes == 0);
    }

    #[test]
    fn own_commands_go_first_also_after_they_were_given_back() {
        let mut queue = ProposalQueue::default();
        queue.push(command(1, 8)).expect("room");
        queue.push_own(command(OWN_COMMAND | 2, 8));
        queue.push_own(command(OWN_COMMAND | 3, 8));
        let expected = [OWN_COMMAND | 2, OWN_COMMAND | 3, 1];
        let batch = queue.take_batch();
        assert_eq!(batch.iter().map(|c| c.sequence).collect::<Vec<_>>(), expected);
        queue.push_own(command(OWN_COMMAND | 4, 8));
        queue.give_back(batch.into_iter());
        queue.drop_own(CommandKind::Txn);
        let order: Vec<u64> = queue.take_batch().iter().map(|c| c.sequence).collect();
        assert_eq!(order, [OWN_COMMAND | 2, OWN_COMMAND | 3, OWN_COMMAND | 4, 1]);
        queue.push_own(command(OWN_COMMAND | 5, 8));
        queue.drop_own(CommandKind::Put);
        assert!(queue.is_empty() && queue.bytes == 0);
    }

    #[test]
    fn a_batch_names_no_more_origins_than_its_format_can() {
        let mut queue = ProposalQueue::default();
        for run in 0..300 {
            let origin = Origin { member: 1, run };
            queue.push(LogCommand { origin, ..command(run, 8) }).expect("room");
        }
        assert_eq!(queue.take_batch().len(), MAX_ORIGINS);
        assert_eq!(queue.take_batch().len(), 45);
    }

    #[test]
    fn expired_commands_are_dropped_and_no_others() {
        let mut queue = ProposalQueue::default();
        (0..4).for_each(|sequence| queue.push(command(sequence, 8)).expect("room"));
        queue.drop_expired(command(0, 0).origin, &BTreeSet::from([1, 3]));
        assert_eq!(queue.take_batch().iter().map(|c| c.sequence).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn commands_of_a_member_that_is_removed_stand_aside() {
        let of = |member, sequence| LogCommand { origin: Origin { member, run: 1 }, ..command(sequence, 8) };
        let sequences = |commands: &[LogCommand]| commands.iter().map(|c| c.sequence).collect::<Vec<_>>();
        let mut queue = ProposalQueue::default();
        [of(7, 1), of(9, 2)].into_iter().for_each(|command| queue.push(command).expect("room"));
        queue.set_aside(7);
        [of(7, 3), of(9, 4)].into_iter().for_each(|command| queue.push(command).expect("room"));
        assert_eq!(sequences(&queue.take_batch()), [2, 4]);
        assert!(queue.is_empty() && queue.bytes == 0);
        let aside = queue.take_aside();
        queue.give_back(aside.into_iter());
        queue.push(of(7, 5)).expect("room");
        assert_eq!(sequences(&queue.take_batch()), [1, 3, 5], "it was not removed");
        queue.set_aside(7);
        queue.push(of(7, 6)).expect("room");
        let foreign = queue.take_foreign(Origin { member: 9, run: 1 });
        assert_eq!(sequences(&foreign.into_iter().collect::<Vec<_>>()), [6]);
        assert!(queue.take_aside().is_empty());
    }

    #[test]
    fn what_stands_aside_counts_to_the_limits() {
        let mut queue = ProposalQueue::default();
        queue.set_aside(1);
        for sequence in 0..MAX_WAITING_COMMANDS as u64 {
            queue.push(command(sequence, 0)).expect("room");
        }
        assert_eq!(queue.push(command(0, 0)).expect_err("full").sequence, 0);
    }

    #[test]
    fn a_full_queue_gives_the_command_back() {
        let mut queue = ProposalQueue::default();
        for sequence in 0..MAX_WAITING_COMMANDS as u64 {
            queue.push(command(sequence, 0)).expect("room");
        }
        assert_eq!(queue.push(command(0, 0)).expect_err("full").sequence, 0);
    }
}
