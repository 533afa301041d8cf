//! The member: one loop, one order.
//!
//! [`Member::handle`] takes in what happened; [`Member::drive`] then decides everything that follows from it, in this
//! order: time, commands and reads that may start, what consensus made of it (persist, send, apply), upkeep. Each duty
//! has a file of its own, as an `impl Member` over the state it needs:
//!
//! | file | duty |
//! |---|---|
//! | `propose` | commands from clients and followers into batches, forwarding, back-pressure |
//! | `agree` | the ready loop: persist before send, what leadership changes mean |
//! | `apply` | committed batches into the store, answers, watch events |
//! | `comeback` | the first election after a start |
//! | `confirm` | linearizable reads and the lease clock's use of them |
//! | `upkeep` | checkpoints, truncation, purging, seals, state hashes |
//! | `reclaim` | live values out of files that hold little else |
//! | `repair` | damaged values fetched from peers |
//! | `snapshot` | state for peers that are too far behind, and from them |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use consensus::Consensus;
use store::Store;
use store::watch::Hub;

use crate::agree::Writes;
use crate::apply::Backlog;
use crate::batch::{Command, Kind};
use crate::comeback::Comeback;
use crate::config::Config;
use crate::confirm::{Asked, LeaseDuty};
use crate::io::{Answer, Fatal, Input, Notice, Now, Output};
use crate::peer_message::{LeaseAnswer, PeerMessage};
use crate::proposal_queue::{GroupCommitDelay, OWN_COMMAND, ProposalQueue};
use crate::reads::Reads;
use crate::reclaim::Reclaim;
use crate::repair::Repairs;
use crate::snapshot::Snapshots;
use crate::status::Status;
use crate::upkeep::Upkeep;
use crate::values::LogValues;
use crate::waiting::{Stage, Waiting};

/// One member. See the module.
pub struct Member {
    pub(crate) config: Config,
    pub(crate) log: log::Log,
    pub(crate) consensus: Consensus,
    pub(crate) store: Store,
    pub(crate) reader: store::Reader,
    pub(crate) hub: Hub,
    pub(crate) values: Arc<LogValues>,
    pub(crate) status: Arc<Status>,
    pub(crate) waiting: Waiting,
    pub(crate) inbox: ProposalQueue,
    /// Commands sent to a leader, until they are answered or come back.
    pub(crate) forwarded: BTreeMap<u64, Command>,
    pub(crate) pace: GroupCommitDelay,
    /// Commands could not leave when it was last tried; the next tick tries again.
    pub(crate) commands_held: bool,
    /// Indexes of the batches proposed here in this term and not yet committed.
    pub(crate) own_batches: VecDeque<u64>,
    pub(crate) writes: Writes,
    pub(crate) backlog: Backlog,
    pub(crate) reads: Reads,
    /// Lease questions sent to a leader.
    pub(crate) asked_leases: BTreeMap<u64, Asked>,
    /// Answers to lease questions of peers; they leave together at the end of [`Member::drive`].
    pub(crate) lease_answers: BTreeMap<u64, Vec<(u64, LeaseAnswer)>>,
    pub(crate) leases: LeaseDuty,
    pub(crate) upkeep: Upkeep,
    pub(crate) snapshots: Snapshots,
    pub(crate) reclaim: Reclaim,
    pub(crate) repair: Repairs,
    /// Peers whose streams are up.
    pub(crate) up: BTreeSet<u64>,
    pub(crate) leadership: Leadership,
    /// Until a leader has been heard of.
    pub(crate) comeback: Option<Comeback>,
    pub(crate) next_tick_ns: u64,
    pub(crate) own_sequence: u64,
    /// A leadership transfer under way: commands wait for its end.
    pub(crate) transfer: Option<Transfer>,
}

/// A leadership transfer that a client asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// Who waits for it.
    pub(crate) token: u64,
    /// When it is given up.
    pub(crate) until_ns: u64,
}

/// Term and leader as last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leadership {
    pub(crate) term: u64,
    pub(crate) leader: u64,
    pub(crate) leading: bool,
    pub(crate) since_ns: u64,
}

impl Member {
    /// Takes in one input. What follows from it is decided by the next [`Member::drive`].
    ///
    /// # Errors
    /// [`Fatal`] when the process must stop.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Output) -> Result<(), Fatal> {
        match input {
            Input::Propose(proposal) => self.on_propose(now, proposal, out),
            Input::Read { token } => self.on_read(now, token, out),
            Input::Lease { token, lease, renew } => self.on_lease(now, token, lease, renew, out),
            Input::MoveLeader { token, to } => self.on_move_leader(now, token, to, out),
            Input::Repair { token, address } => self.on_repair(now, token, address, out),
            Input::Defragment => self.defragment(),
            Input::Frame { from, bytes } => self.on_frame(now, from, bytes, out),
            Input::PeerUp(peer) => {
                self.up.insert(peer);
                self.consensus.ping();
                self.come_back();
            }
            Input::PeerDown(peer) => {
                self.up.remove(&peer);
                self.take_back_leases();
                self.consensus.report_unreachable(peer);
            }
            Input::Written(done) => self.on_written(done)?,
            Input::Background(done) => self.on_background(now, *done, out)?,
            Input::SnapshotOffered { token, from, header } => {
                self.on_snapshot_offered(from, header, token, out);
            }
            Input::SnapshotBroken(receiver) => self.on_snapshot_broken(now, receiver, out),
            Input::SnapshotWhole { token, receiver } => self.on_snapshot_whole(receiver, token, out),
            Input::SnapshotSent { sent, result } => self.on_snapshot_sent(sent, result, out),
            Input::Stop => self.on_stop(out),
        }
        Ok(())
    }

    /// Decides all that follows from the inputs so far.
    ///
    /// # Errors
    /// [`Fatal`] when the process must stop.
    pub fn drive(&mut self, now: Now, out: &mut Output) -> Result<(), Fatal> {
        self.advance_clock(now, out);
        loop {
            self.start_commands(now, out);
            self.start_reads(now, out);
            let moved = self.take_ready(now, out)?;
            let applied = self.apply_committed(now, out)?;
            self.release_reads(now, out);
            if !moved && !applied {
                break;
            }
        }
        self.drive_install(out);
        self.send_lease_answers(out);
        self.watch_leases(now);
        self.keep_up(now, out);
        self.show_status();
        Ok(())
    }

    /// When [`Member::drive`] must run next although nothing happens.
    pub fn next_due_ns(&self) -> Option<u64> {
        // What waits for a leader, or for the end of a transfer, waits for a message or a tick, not for time alone.
        let leads = self.leadership.leading && self.transfer.is_none();
        let may_propose = leads && !self.commands_held && !self.inbox.is_empty();
        let pace = may_propose.then(|| self.pace.ready_at_ns()).flatten();
        let reads = self.reads.next_due_ns(self.leadership.leading && self.leases.active);
        let lease = if self.transfer.is_none() { self.leases.next_due_ns() } else { None };
        let may_reclaim = !self.snapshots.is_installing() && !self.upkeep.is_stopping();
        let reclaim = if may_reclaim { self.reclaim.next_due_ns() } else { None };
        let duties = [self.upkeep.next_due_ns(), reclaim, self.repair.next_due_ns()];
        [Some(self.next_tick_ns), pace, reads, lease].into_iter().chain(duties).flatten().min()
    }

    /// The numbers others may look at.
    pub fn status(&self) -> Arc<Status> {
        self.status.clone()
    }

    fn advance_clock(&mut self, now: Now, out: &mut Output) {
        if now.monotonic_ns >= self.next_tick_ns {
            let late_ns = now.monotonic_ns - self.next_tick_ns;
            // After a pause of the process one tick is enough: time that nobody lived through elects nobody.
            if late_ns > self.config.tick_ns {
                out.notices.push(Notice::TickLate(late_ns));
                self.next_tick_ns = now.monotonic_ns + self.config.tick_ns;
            } else {
                self.next_tick_ns += self.config.tick_ns;
            }
            self.consensus.tick();
            self.tick_duties(now, out);
        }
        self.reads.expire_question(now.monotonic_ns);
        let mut queued = BTreeSet::new();
        while let Some((token, stage)) = self.waiting.take_expired(now.monotonic_ns) {
            self.forwarded.remove(&token);
            self.asked_leases.remove(&token);
            if stage == Stage::Queued {
                queued.insert(token);
            }
            self.status.set_failed(self.status.failed() + 1);
            out.answers.push((token, Answer::Failed(self.timeout_error(now, stage))));
        }
        if !queued.is_empty() {
            self.inbox.drop_expired(self.config.origin(), &queued);
        }
    }

    /// What is looked at once a tick.
    fn tick_duties(&mut self, now: Now, out: &mut Output) {
        self.come_back_later();
        self.consensus.retry_round();
        self.give_up_transfer(now, out);
        self.ask_leases_again(now);
        self.forget_expired_readers();
        self.retry_space();
        self.expire_received(now, out);
        // A pin that was in the way may be gone.
        if self.reader.purged() < self.reader.compacted() {
            self.upkeep.purge_again();
        }
        self.send_state_hash(out);
        self.publish_self(now);
    }

    /// The error that tells a caller best why no agreement was reached in time; etcd's choice among its texts.
    fn timeout_error(&self, now: Now, stage: Stage) -> api::Error {
        let waited_since = now.monotonic_ns.saturating_sub(self.config.request_timeout_ns());
        let link_lost = !self.leadership.leading && !self.up.contains(&self.leadership.leader);
        match stage {
            Stage::Underway if self.leadership.since_ns >= waited_since => api::Error::TimeoutLeaderFailed,
            _ if self.leadership.leader != 0 && link_lost => api::Error::TimeoutConnectionLost,
            _ => api::Error::Timeout,
        }
    }

    fn on_frame(&mut self, now: Now, from: u64, bytes: bytes::Bytes, out: &mut Output) {
        let Some(frame) = PeerMessage::decode(bytes) else {
            return self.bad_frame(from, "it does not decode", out);
        };
        match frame {
            PeerMessage::Consensus(bytes) => self.on_consensus_message(from, bytes, out),
            PeerMessage::Forward(batch) => self.on_forward(from, &batch, out),
            PeerMessage::Refused(reason, sequences) => self.on_refused(reason, &sequences, out),
            PeerMessage::ReadAsk(round) => self.on_read_ask(from, round, out),
            PeerMessage::ReadAnswer(round, index) => self.reads.answered(round, index),
            PeerMessage::LeaseAsks(asks) => self.on_lease_asks(from, asks),
            PeerMessage::LeaseAnswers(answers) => self.on_lease_answers(answers, out),
            PeerMessage::StateHash { index, hash } => self.on_state_hash(from, index, hash, out),
            PeerMessage::ValueAsk(name) => self.on_value_ask(from, name, out),
            PeerMessage::ValueAnswer(name, value) => self.on_value_answer(now, &name, value, out),
            PeerMessage::EntryAsk { index, term } => self.on_entry_ask(from, index, term, out),
            PeerMessage::EntryAnswer { index, term, entry } => {
                self.on_entry_answer(now, index, term, entry, out)
            }
        }
    }

    pub(crate) fn bad_frame(&mut self, from: u64, reason: impl ToString, out: &mut Output) {
        out.notices.push(Notice::BadFrame { from, reason: reason.to_string() });
        out.disconnect.push(from);
    }

    pub(crate) fn send(&self, to: u64, frame: &PeerMessage, out: &mut Output) {
        out.frames.push((to, frame.class(), frame.encode()));
    }

    pub(crate) fn answer(&mut self, token: u64, answer: Answer, out: &mut Output) {
        if self.waiting.remove(token) {
            out.answers.push((token, answer));
        }
    }

    pub(crate) fn answer_lease(
        &mut self,
        peer: Option<u64>,
        sequence: u64,
        answer: LeaseAnswer,
        out: &mut Output,
    ) {
        match peer {
            Some(peer) => self.lease_answers.entry(peer).or_default().push((sequence, answer)),
            None => self.answer(sequence, Answer::Lease(answer), out),
        }
    }

    /// Queues a command of the member's own, before those of clients; nobody waits for its answer.
    pub(crate) fn propose_own(&mut self, kind: Kind, body: bytes::Bytes) {
        self.own_sequence += 1;
        self.inbox.push_own(Command {
            origin: self.config.origin(),
            sequence: OWN_COMMAND | self.own_sequence,
            kind,
            auth: bytes::Bytes::new(),
            body,
        });
    }

    fn show_status(&self) {
        self.status.set_pending(self.waiting.len() as u64);
        self.status.set_applied_index(self.backlog.applied());
        self.status.set_committed_index(self.backlog.committed());
        self.status.set_snapshots_installing(u64::from(self.snapshots.is_installing()));
        self.status.set_file_bytes(self.log.reader().file_bytes());
    }
}
