//! The proposal queue: commands that wait to be proposed (on the leader) or forwarded (on a follower).
//!
//! ```text
//! push_own(A)                 own:      A                 proposed first: they keep the cluster running
//! push(1) push(2) push(3)     commands: 1 2 3             in order of arrival, up to the limits below
//! push(L)                     urgent:   L                 leases, compactions, alarms: ahead of other commands
//! take_batch() -> A L 1 2 3   at most MAX_COMMANDS commands, MAX_BYTES bytes and MAX_ORIGINS origins
//! give_back(L 1 2 3)          urgent: L  commands: 1 2 3  consensus was busy: same order, before what came since
//! ```
//!
//! Commands that wait together are concurrent: none has been answered, so any order of them is linearizable. At most
//! half of a batch is urgent while others wait: a flood of leases does not stop puts.
//!
//! While a leader removes members, the commands of their callers stand aside: proposed after the removal, they would be
//! applied where no caller waits for them any more. What was proposed before is applied before, by those members too.
//! The commands of members themselves have no callers and do not stand aside.
//!
//! ```text
//! commands: 1 of 7, 2 of 9    set_aside([7])              commands: 2     aside: 1
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

/// Whether a client's command goes ahead of others: leases keep locks and sessions alive, compactions free space, and
/// alarms end what stops writes.
fn is_urgent(kind: CommandKind) -> bool {
    use CommandKind::{Alarm, Compaction, LeaseGrant, LeaseRevoke};
    matches!(kind, LeaseGrant | LeaseRevoke | Compaction | Alarm)
}

/// How much may wait, and how much a batch may have. Members may differ in it.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Commands that may wait.
    pub waiting_commands: usize,
    /// Bytes that may wait.
    pub waiting_bytes: usize,
    /// Commands of a batch, at most [`MAX_COMMANDS`].
    pub batch_commands: usize,
    /// Bytes at which a batch is closed, at most [`MAX_BYTES`].
    pub batch_bytes: usize,
}

impl QueueLimits {
    /// Urgent commands of a batch while other commands wait: half of it.
    fn max_urgent_commands(&self) -> usize {
        self.batch_commands.div_ceil(2)
    }
}

impl Default for QueueLimits {
    fn default() -> QueueLimits {
        QueueLimits {
            waiting_commands: MAX_WAITING_COMMANDS,
            waiting_bytes: MAX_WAITING_BYTES,
            batch_commands: MAX_COMMANDS,
            batch_bytes: MAX_BYTES,
        }
    }
}

/// Commands that wait; see the module.
#[derive(Debug, Default)]
pub struct ProposalQueue {
    limits: QueueLimits,
    /// The member's own, in order: they keep the cluster running and go first.
    own: VecDeque<LogCommand>,
    /// Those of clients that go ahead of others.
    urgent: VecDeque<LogCommand>,
    commands: VecDeque<LogCommand>,
    bytes: usize,
    aside: Option<Aside>,
}

/// The commands of members that are being removed.
#[derive(Debug)]
struct Aside {
    members: BTreeSet<u64>,
    commands: VecDeque<LogCommand>,
    bytes: usize,
}

impl Aside {
    /// Whether a command belongs here: that of a caller of these members.
    fn takes(members: &BTreeSet<u64>, command: &LogCommand) -> bool {
        command.sequence & OWN_COMMAND == 0 && members.contains(&command.origin.member)
    }
}

/// Sequence numbers of the member's own commands have this bit; tokens of callers do not.
pub const OWN_COMMAND: u64 = 1 << 63;

impl ProposalQueue {
    /// An empty queue.
    ///
    /// # Panics
    /// When a batch within the limits may have no command, or more than its format allows.
    pub fn new(limits: QueueLimits) -> ProposalQueue {
        let QueueLimits { batch_commands, batch_bytes, .. } = limits;
        let fits = (1..=MAX_COMMANDS).contains(&batch_commands) && batch_bytes <= MAX_BYTES;
        assert!(fits, "a batch of {batch_commands} commands or {batch_bytes} bytes does not fit its format");
        ProposalQueue { limits, ..ProposalQueue::default() }
    }

    /// Queues a command.
    ///
    /// # Errors
    /// Gives the command back when a limit is reached.
    pub fn push(&mut self, command: LogCommand) -> Result<(), LogCommand> {
        let len = command.encoded_len();
        let aside = self.aside.as_ref().map_or((0, 0), |aside| (aside.commands.len(), aside.bytes));
        if self.urgent.len() + self.commands.len() + aside.0 >= self.limits.waiting_commands
            || self.bytes + aside.1 + len > self.limits.waiting_bytes
        {
            return Err(command);
        }
        if let Some(aside) = self.aside.as_mut().filter(|aside| Aside::takes(&aside.members, &command)) {
            aside.bytes += len;
            aside.commands.push_back(command);
            return Ok(());
        }
        self.bytes += len;
        self.queue_of(&command).push_back(command);
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
            self.queue_of(&command).push_front(command);
        }
    }

    fn queue_of(&mut self, command: &LogCommand) -> &mut VecDeque<LogCommand> {
        match command.kind {
            _ if command.sequence & OWN_COMMAND != 0 => &mut self.own,
            kind if is_urgent(kind) => &mut self.urgent,
            _ => &mut self.commands,
        }
    }

    /// Drops this member's own commands of one kind. What a former leader knew of leases must not be proposed later.
    pub fn drop_own(&mut self, kind: CommandKind) {
        self.bytes -= drop_unless(&mut self.own, |command| command.kind != kind);
    }

    /// Drops commands of this process whose callers got a time-out: they must not be proposed later.
    pub fn drop_expired(&mut self, own: Origin, expired: &BTreeSet<u64>) {
        let keep = |command: &LogCommand| command.origin != own || !expired.contains(&command.sequence);
        for queue in [&mut self.urgent, &mut self.commands] {
            self.bytes -= drop_unless(queue, keep);
        }
        if let Some(aside) = &mut self.aside {
            aside.bytes -= drop_unless(&mut aside.commands, keep);
        }
    }

    /// Whether no command waits.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.urgent.is_empty() && self.commands.is_empty()
    }

    /// Bytes of the commands that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of commands that wait.
    pub fn len(&self) -> usize {
        self.own.len() + self.urgent.len() + self.commands.len()
    }

    /// How much waits. A batch is full when the next one cannot become larger.
    pub fn waiting(&self) -> Waiting {
        let QueueLimits { batch_commands, batch_bytes, .. } = self.limits;
        Waiting { commands: self.len(), is_full: self.len() >= batch_commands || self.bytes >= batch_bytes }
    }

    /// Sets the commands of these members' callers aside, also those that are pushed from now on. Until they are taken,
    /// this is called once.
    pub fn set_aside(&mut self, members: BTreeSet<u64>) {
        assert!(self.aside.is_none(), "what stands aside for other removals was not taken");
        let commands = self.take_those(|command| Aside::takes(&members, command));
        let bytes = commands.iter().map(LogCommand::encoded_len).sum();
        self.aside = Some(Aside { members, commands, bytes });
    }

    /// Takes the commands that stand aside, in order. Those that are pushed from now on do not.
    pub fn take_aside(&mut self) -> VecDeque<LogCommand> {
        self.aside.take().map(|aside| aside.commands).unwrap_or_default()
    }

    /// Removes and returns the commands of other members. Nothing stands aside any more.
    pub fn take_foreign(&mut self, own: Origin) -> VecDeque<LogCommand> {
        let aside = self.take_aside();
        self.give_back(aside.into_iter());
        self.take_those(|command| command.origin.member != own.member)
    }

    /// A peer's own command that was given back stands among ours.
    fn take_those(&mut self, is_wanted: impl Fn(&LogCommand) -> bool) -> VecDeque<LogCommand> {
        let mut taken = VecDeque::new();
        for queue in [&mut self.own, &mut self.urgent, &mut self.commands] {
            let all = std::mem::take(queue).into_iter();
            let (wanted, others): (VecDeque<_>, VecDeque<_>) = all.partition(&is_wanted);
            *queue = others;
            taken.extend(wanted);
        }
        self.bytes -= taken.iter().map(LogCommand::encoded_len).sum::<usize>();
        taken
    }

    /// The queue whose first command goes next into a batch that has so many urgent ones already.
    fn next_queue(&mut self, urgent: usize) -> Option<&mut VecDeque<LogCommand>> {
        let has_urgent_half = urgent >= self.limits.max_urgent_commands() && !self.commands.is_empty();
        let queues = match has_urgent_half {
            true => [&mut self.own, &mut self.commands, &mut self.urgent],
            false => [&mut self.own, &mut self.urgent, &mut self.commands],
        };
        queues.into_iter().find(|queue| !queue.is_empty())
    }

    /// Takes the next batch: commands in order, at least one, up to the limits of a batch.
    pub fn take_batch(&mut self) -> Vec<LogCommand> {
        let QueueLimits { batch_commands, batch_bytes, .. } = self.limits;
        let mut batch = Vec::new();
        let (mut bytes, mut urgent) = (0, 0);
        let mut origins: Vec<Origin> = Vec::new();
        while let Some(queue) = self.next_queue(urgent) {
            let len = queue.front().map_or(0, LogCommand::encoded_len);
            if batch.len() == batch_commands || (!batch.is_empty() && bytes + len > batch_bytes) {
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
            let taken = queue.pop_front();
            urgent += usize::from(taken.as_ref().is_some_and(|command| is_urgent(command.kind)));
            batch.extend(taken);
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
mod tests;
