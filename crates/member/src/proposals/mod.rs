//! Commands on their way to agreement: the queue, batching, forwarding to the leader.
//!
//! A command is proposed at most once. It waits in the queue until this member leads (then it goes into a batch) or
//! knows a connected leader (then it is forwarded, in one frame with others that wait). After it left the queue its
//! outcome is unknown, and it is never sent again unless the leader refused it.
//!
//! ```text
//!            push              propose_batches              committed: LeaderState::batches
//! client ----------> queue ------------------> consensus
//!                      |  ^
//!       forward_batches|  | refused (not leader): back to the front of the queue
//!                      v  |
//!                   forwarded ---- applied here, or refused (no space, too many requests): answered
//! ```

pub(crate) mod auth_command;
pub mod batch;
pub(crate) mod caller;
pub mod group_commit;
pub(crate) mod growth;
pub mod queue;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use consensus::Consensus;
use log::{Log, Space};

use crate::callers::Callers;
use crate::io::{Answer, Now, Output, Proposal};
use crate::maintenance::log_room::{Admission, LogRoom};
use crate::peer_message::{PeerMessage, Reason};
use crate::status::step_counts::ProposedBatch;
use batch::{CommandKind, LogCommand, Origin};
use group_commit::GroupCommitDelay;
use growth::RoomUse;
use queue::{OWN_COMMAND, ProposalQueue, QueueLimits};

/// The commands of this member's clients and, on a leader, those its followers forwarded.
pub(crate) struct Proposals {
    /// Names this process in the commands of its clients.
    origin: Origin,
    queue: ProposalQueue,
    /// Commands sent to a leader and neither applied nor refused yet, by sequence number; each with the leader.
    forwarded: BTreeMap<u64, (u64, LogCommand)>,
    /// Commands stay in the queue for the rest of this step: a transfer is under way, too much waits to be applied,
    /// consensus refused a batch, or the log has no room for it yet.
    held: bool,
    /// The peer that gave commands back, until the next tick or until the leader changes: nothing is forwarded there
    /// meanwhile. It does not lead any more, or it has removed this member, which both are news that are on their way.
    returned_by: Option<u64>,
    own_sequence: u64,
    /// Since when what waits could have left, but for the group-commit delay and batches in flight.
    waiting_since_ns: Option<u64>,
}

/// Where a leader's batches go.
pub(crate) struct ProposalTargets<'a> {
    pub(crate) consensus: &'a mut Consensus,
    pub(crate) room: &'a mut LogRoom,
    pub(crate) log: &'a mut Log,
    pub(crate) out: &'a mut Output,
}

/// The batches that a leader has proposed in its term. Dropped with the leadership.
#[derive(Debug, Default)]
pub(crate) struct ProposedBatches {
    delay: GroupCommitDelay,
    /// Entry indexes of the batches in flight, ascending.
    in_flight: VecDeque<u64>,
}

impl ProposedBatches {
    /// Entries up to `index` are committed.
    pub(crate) fn committed(&mut self, index: u64) {
        while self.in_flight.pop_front_if(|own| *own <= index).is_some() {
            self.delay.finished();
        }
    }
}

impl Proposals {
    pub(crate) fn new(origin: Origin, limits: QueueLimits) -> Proposals {
        Proposals {
            origin,
            queue: ProposalQueue::new(limits),
            forwarded: BTreeMap::new(),
            held: false,
            returned_by: None,
            own_sequence: 0,
            waiting_since_ns: None,
        }
    }

    /// Queues a client's command.
    ///
    /// # Errors
    /// [`api::Error::TooManyRequests`] when the queue is full; [`api::Error::RequestTooLarge`] if the caller's name is
    /// too long.
    pub(crate) fn push(&mut self, proposal: Proposal) -> Result<(), api::Error> {
        let Proposal { token, kind, caller, body } = proposal;
        let auth = caller::context(&caller)?;
        let command = LogCommand { origin: self.origin, sequence: token, kind, auth, body };
        self.queue.push(command).map_err(|_| api::Error::TooManyRequests)
    }

    /// Queues a command of the member's own, before those of clients. It has no caller.
    pub(crate) fn push_own(&mut self, kind: CommandKind, body: Bytes) {
        self.own_sequence += 1;
        self.queue.push_own(LogCommand {
            origin: self.origin,
            sequence: OWN_COMMAND | self.own_sequence,
            kind,
            auth: Bytes::new(),
            body,
        });
    }

    /// Queues the commands of a follower's frame; `shortage` is the error for those that grow the store, if it may not
    /// grow. Returns the sequence numbers refused for lack of space, and those refused because too much waits.
    pub(crate) fn push_forwarded(
        &mut self,
        commands: Vec<LogCommand>,
        shortage: Option<api::Error>,
    ) -> [(Reason, Vec<u64>); 2] {
        let (mut no_space, mut too_many) = (Vec::new(), Vec::new());
        for command in commands {
            let is_refused = shortage.is_some() && growth::grows(command.kind, &command.body);
            if is_refused && shortage == Some(api::Error::NoSpace) {
                no_space.push(command.sequence);
            } else if is_refused {
                too_many.push(command.sequence);
            } else if let Err(command) = self.queue.push(command) {
                too_many.push(command.sequence);
            }
        }
        [(Reason::NoSpace, no_space), (Reason::TooManyRequests, too_many)]
    }

    /// The peer `from` refused commands that this process forwarded to it: certainly not proposed. Those sent to a
    /// member that does not lead return to the queue; the others are answered. What was sent to another peer stays.
    pub(crate) fn refused(
        &mut self,
        from: u64,
        reason: Reason,
        sequences: &[u64],
        callers: &mut Callers,
        out: &mut Output,
    ) {
        for sequence in sequences {
            let sent = self.forwarded.extract_if(sequence..=sequence, |_, (to, _)| *to == from).next();
            let Some((_, (_, command))) = sent else { continue };
            let error = match reason {
                Reason::NotLeader => {
                    callers.mark_queued(*sequence);
                    self.queue.give_back(std::iter::once(command));
                    self.returned_by = Some(from);
                    continue;
                }
                Reason::TooManyRequests => api::Error::TooManyRequests,
                Reason::NoSpace => api::Error::NoSpace,
            };
            callers.answer(*sequence, Answer::Failed(error), out);
        }
    }

    /// Bytes of the commands that wait to leave.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// The number of commands that wait to leave.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Begins a step: commands may leave, or (`held`) wait for the end of a leadership transfer, or until more is
    /// applied. That time is no delay of a batch.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
        if held {
            self.waiting_since_ns = None;
        }
    }

    /// Leader: proposes as many batches as the group-commit delay and the room in the log allow.
    pub(crate) fn propose_batches(
        &mut self,
        now: Now,
        batches: &mut ProposedBatches,
        callers: &mut Callers,
        parts: ProposalTargets<'_>,
    ) {
        let ProposalTargets { consensus, room, log, out } = parts;
        let is_due = |queue: &ProposalQueue, delay: &GroupCommitDelay| {
            !queue.is_empty() && delay.ready(now.monotonic_ns, queue.waiting())
        };
        batches.delay.observe(now.monotonic_ns, self.queue.len());
        let waits = !self.queue.is_empty();
        self.waiting_since_ns = waits.then(|| self.waiting_since_ns.unwrap_or(now.monotonic_ns));
        while !self.held && is_due(&self.queue, &batches.delay) {
            let commands = self.queue.take_batch();
            let is_low = log.space() != Space::Ok;
            let uses = commands.iter().map(|command| growth::room_use(command, is_low));
            let Some(least_urgent) = uses.min() else { return };
            let len = batch::max_encoded_len(&commands);
            match room.admit(std::iter::once(len), least_urgent, log) {
                Admission::Admitted => {}
                Admission::Refused if least_urgent != RoomUse::Maintains => {
                    let is_refused = |command: &LogCommand| growth::room_use(command, is_low) == least_urgent;
                    let reason = match log.space() {
                        Space::OutOfDescriptors => Reason::TooManyRequests,
                        Space::Low | Space::Ok => Reason::NoSpace,
                    };
                    self.refuse(commands, is_refused, reason, callers, out);
                    continue;
                }
                Admission::Refused | Admission::Waits => {
                    self.hold(true);
                    return self.queue.give_back(commands.into_iter());
                }
            }
            let payload = batch::encode(now.wall_ms, &commands);
            let bytes = payload.len();
            let Ok((index, _)) = consensus.propose(payload) else {
                // Not proposed: consensus no longer leads, which its next ready says, or its limits are reached.
                self.hold(true);
                return self.queue.give_back(commands.into_iter());
            };
            assert!(
                batches.in_flight.back().is_none_or(|last| *last < index),
                "entry {index} is proposed after one with a higher index"
            );
            batches.delay.started(now.monotonic_ns, commands.len(), self.queue.len());
            let since_ns = self.waiting_since_ns.take().unwrap_or(now.monotonic_ns);
            self.waiting_since_ns = (!self.queue.is_empty()).then_some(now.monotonic_ns);
            let delay_ns = now.monotonic_ns.saturating_sub(since_ns);
            out.counts.proposed.push(ProposedBatch { commands: commands.len(), bytes, delay_ns });
            batches.in_flight.push_back(index);
            let own = commands.iter().filter(|command| command.origin == self.origin);
            own.for_each(|command| callers.mark_sent(command.sequence));
        }
    }

    /// Answers those of `commands` that are refused for this reason; the others return to the queue.
    fn refuse(
        &mut self,
        commands: Vec<LogCommand>,
        is_refused: impl Fn(&LogCommand) -> bool,
        reason: Reason,
        callers: &mut Callers,
        out: &mut Output,
    ) {
        let (refused, kept): (Vec<_>, Vec<_>) = commands.into_iter().partition(is_refused);
        self.queue.give_back(kept.into_iter());
        let error = match reason {
            Reason::TooManyRequests => api::Error::TooManyRequests,
            Reason::NoSpace | Reason::NotLeader => api::Error::NoSpace,
        };
        let mut of_peers: BTreeMap<Origin, Vec<u64>> = BTreeMap::new();
        for command in refused {
            match command.origin.member == self.origin.member {
                true => callers.answer(command.sequence, Answer::Failed(error), out),
                false => of_peers.entry(command.origin).or_default().push(command.sequence),
            }
        }
        for (Origin { member, run }, sequences) in of_peers {
            out.send(member, &PeerMessage::Refused { reason, run, sequences });
        }
    }

    /// Follower: sends all commands that wait to the leader.
    pub(crate) fn forward_batches(&mut self, now: Now, leader: u64, callers: &mut Callers, out: &mut Output) {
        while !self.queue.is_empty() && self.returned_by != Some(leader) {
            let commands = self.queue.take_batch();
            out.send(leader, &PeerMessage::Forward(batch::encode(now.wall_ms, &commands)));
            for command in commands {
                callers.mark_sent(command.sequence);
                self.forwarded.insert(command.sequence, (leader, command));
            }
        }
    }

    /// When a leader may propose what waits, if time alone decides it.
    pub(crate) fn next_due_ns(&self, batches: &ProposedBatches) -> Option<u64> {
        let may_propose = !self.held && !self.queue.is_empty();
        may_propose.then(|| batches.delay.ready_at_ns(self.queue.waiting())).flatten()
    }

    /// A command of this process was applied: it is no longer under way.
    pub(crate) fn applied(&mut self, sequence: u64) {
        self.forwarded.remove(&sequence);
    }

    /// The caller of a forwarded command got a time-out.
    pub(crate) fn expire_forwarded(&mut self, token: u64) {
        self.forwarded.remove(&token);
    }

    /// The callers of these queued commands got a time-out: the commands must not be proposed later.
    pub(crate) fn expire_queued(&mut self, tokens: &BTreeSet<u64>) {
        self.queue.drop_expired(self.origin, tokens);
    }

    /// A tick passed: what a peer gave back may be forwarded to it again.
    pub(crate) fn tick(&mut self) {
        self.returned_by = None;
    }

    /// Leader: sets the commands of members aside whose removals are in the log, also those that come from now on.
    pub(crate) fn set_aside(&mut self, members: BTreeSet<u64>) {
        self.queue.set_aside(members);
    }

    /// Takes the commands that stand aside.
    pub(crate) fn take_aside(&mut self) -> VecDeque<LogCommand> {
        self.queue.take_aside()
    }

    /// Queues commands again, before those that wait.
    pub(crate) fn give_back(&mut self, commands: VecDeque<LogCommand>) {
        self.queue.give_back(commands.into_iter());
    }

    /// Term, leader or role changed. What a former leader knew of leases and members must not be proposed in another
    /// term.
    pub(crate) fn leadership_changed(&mut self) {
        self.waiting_since_ns = None;
        self.returned_by = None;
        self.queue.drop_own(CommandKind::LeaseCheckpoint);
        self.queue.drop_own(CommandKind::LeaseExpire);
        // A leader of an older release would not know it.
        self.queue.drop_own(CommandKind::CommandSet);
        // The member's own commands have no caller, so no deadline would remove these.
        self.forwarded.retain(|sequence, _| sequence & OWN_COMMAND == 0);
    }

    /// Takes the commands of other members out of the queue, when this member stops leading.
    pub(crate) fn take_foreign(&mut self) -> VecDeque<LogCommand> {
        self.queue.take_foreign(self.origin)
    }
}
