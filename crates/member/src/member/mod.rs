//! The member: one step, one order.
//!
//! [`Member::handle`] takes in what happened; [`Member::drive`] then decides everything that follows from it, always in
//! the same order. `Member` composes components that own their state; no component knows `Member`. The files of this
//! folder hold what ties components together:
//!
//! | file | what |
//! |---|---|
//! | `requests` | requests of this process's callers, from input to component |
//! | `frames` | messages from peers, from frame to component |
//! | `ready_loop` | what consensus wants done: writes, messages, committed entries, changes of leadership |
//! | `applying` | committed batches into the store, then watchers, leases and callers |
//! | `reads` | ReadIndex rounds and lease questions |
//! | `space` | checkpoints, relocation, truncation: what must be kept and for whom |
//! | `jobs_done` | results of background jobs |
//!
//! ```text
//! handle(inputs) -> drive:  time, callers' deadlines
//!                           loop: propose or forward; begin rounds; take a ready; apply; answer reads
//!                           snapshot installation; lease answers; lease expiry
//!                           purge, seal, checkpoint, repair, relocation
//!                           check() -> Output
//! ```

mod applying;
mod frames;
mod jobs_done;
mod reads;
mod ready_loop;
mod requests;
mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consensus::Consensus;
use log::LogId;
use store::Store;
use store::watch::Hub;

use crate::apply::ApplyQueue;
use crate::callers::{Callers, Progress};
use crate::config::MemberConfig;
use crate::io::{Answer, Input, MemberFatal, Notice, Now, Output};
use crate::jobs::Job;
use crate::leadership::startup_election::{self, StartupElection};
use crate::leadership::{TermState, Transfer};
use crate::maintenance::alarms::AlarmProposals;
use crate::maintenance::checkpoints::CheckpointSchedule;
use crate::maintenance::publication::Publication;
use crate::maintenance::purge::Purge;
use crate::maintenance::seal::Sealing;
use crate::maintenance::state_hashes::StateHashes;
use crate::peer_message::{LeaseAnswer, PeerMessage};
use crate::proposals::Proposals;
use crate::proposals::batch::{CommandKind, Origin};
use crate::read_index::ReadIndex;
use crate::relocation::Relocator;
use crate::repair::entries::EntryRepairs;
use crate::repair::serving::RepairServer;
use crate::repair::values::{RepairContext, ValueRepairs};
use crate::snapshot::{SnapshotInstalling, SnapshotReceiving, SnapshotSending};
use crate::status::MemberStatus;
use crate::values::LogValues;
use crate::write_positions::WritePositions;

/// One member. See the module.
pub struct Member {
    config: MemberConfig,
    status: Arc<MemberStatus>,
    next_tick_ns: u64,
    /// A graceful stop was asked for: a last checkpoint, then the end.
    is_stopping: bool,

    // The three crates that it ties together, and handles into them.
    log: log::Log,
    consensus: Consensus,
    store: Store,
    reader: store::Reader,
    values: Arc<LogValues>,
    hub: Hub,

    // Who waits, who is connected, who leads.
    callers: Callers,
    connected: BTreeSet<u64>,
    leadership: TermState,
    startup_election: Option<StartupElection>,
    transfer: Option<Transfer>,

    // From a request to its answer.
    proposals: Proposals,
    read_index: ReadIndex,
    /// Answers to lease questions of peers. They leave together at the end of the step.
    lease_answers: BTreeMap<Origin, Vec<(u64, LeaseAnswer)>>,
    write_positions: WritePositions,
    apply_queue: ApplyQueue,

    // Periodic work.
    checkpoints: CheckpointSchedule,
    purge: Purge,
    sealing: Sealing,
    state_hashes: StateHashes,
    alarms: AlarmProposals,
    publication: Publication,
    relocation: Relocator,

    // Repair and snapshots.
    value_repairs: ValueRepairs,
    entry_repairs: EntryRepairs,
    repair_server: RepairServer,
    sending: SnapshotSending,
    receiving: SnapshotReceiving,
    installing: SnapshotInstalling,
}

/// What [`crate::open()`] has prepared for a member.
pub(crate) struct Parts {
    pub(crate) config: MemberConfig,
    pub(crate) status: Arc<MemberStatus>,
    pub(crate) log: log::Log,
    pub(crate) consensus: Consensus,
    pub(crate) store: Store,
    pub(crate) reader: store::Reader,
    pub(crate) values: Arc<LogValues>,
    pub(crate) hub: Hub,
    pub(crate) applied: LogId,
}

impl Member {
    pub(crate) fn new(parts: Parts) -> Member {
        let Parts { config, status, log, consensus, store, reader, values, hub, applied } = parts;
        let leadership = TermState::at_start(consensus.status().term);
        let startup_election = StartupElection::new(config.member_id, log.hard_state().vote);
        status.set_term(leadership.term);
        status.set_applied_index(applied.index);
        Member {
            proposals: Proposals::new(config.origin()),
            config,
            status,
            next_tick_ns: 0,
            is_stopping: false,
            log,
            consensus,
            store,
            reader,
            values,
            hub,
            callers: Callers::default(),
            connected: BTreeSet::new(),
            leadership,
            startup_election: Some(startup_election),
            transfer: None,
            read_index: ReadIndex::default(),
            lease_answers: BTreeMap::new(),
            write_positions: WritePositions::default(),
            apply_queue: ApplyQueue::at(applied),
            checkpoints: CheckpointSchedule::default(),
            purge: Purge::default(),
            sealing: Sealing::default(),
            state_hashes: StateHashes::default(),
            alarms: AlarmProposals::default(),
            publication: Publication::default(),
            relocation: Relocator::default(),
            value_repairs: ValueRepairs::default(),
            entry_repairs: EntryRepairs::default(),
            repair_server: RepairServer::default(),
            sending: SnapshotSending::default(),
            receiving: SnapshotReceiving::default(),
            installing: SnapshotInstalling::default(),
        }
    }

    /// Takes in one input. The next [`Member::drive`] decides what follows from it.
    ///
    /// # Errors
    /// [`MemberFatal`] when the process must stop.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Output) -> Result<(), MemberFatal> {
        match input {
            Input::Propose(proposal) => self.on_propose(now, proposal, out),
            Input::Read { token } => self.on_read(now, token, out),
            Input::Lease { token, lease, renew } => self.on_lease(now, token, lease, renew, out),
            Input::MoveLeader { token, to } => self.on_move_leader(now, token, to, out),
            Input::Repair { token, address, key } => self.on_repair(now, token, (address, key), out),
            Input::Defragment => self.on_defragment(),
            Input::Frame { from, bytes } => self.on_frame(now, from, bytes, out),
            Input::PeerUp(peer) => self.on_peer_up(peer),
            Input::PeerDown(peer) => self.on_peer_down(peer),
            Input::WritesSynced(done) => self.write_positions.log_synced(self.log.complete(done)?.position),
            Input::Background(done) => self.on_job_done(now, *done, out)?,
            Input::SnapshotOffered { token, from, header } => {
                self.on_snapshot_offered(from, header, token, out);
            }
            Input::SnapshotBroken(receiver) => self.receiving.broken(now.monotonic_ns, receiver, out),
            Input::SnapshotWhole { token, receiver } => self.on_snapshot_whole(receiver, token, out),
            Input::SnapshotSent { sent, result } => self.on_snapshot_sent(sent, &result, out),
            Input::Stop => self.on_stop(out),
        }
        Ok(())
    }

    /// Decides all that follows from the inputs so far.
    ///
    /// # Errors
    /// [`MemberFatal`] when the process must stop.
    pub fn drive(&mut self, now: Now, out: &mut Output) -> Result<(), MemberFatal> {
        let applied_before = self.apply_queue.applied();
        if now.monotonic_ns >= self.next_tick_ns {
            self.advance_clock(now, out);
        }
        self.expire_callers(now, out);
        loop {
            self.start_commands(now, out);
            self.start_rounds(now, out);
            let moved = self.take_ready(now, out)?;
            let applied = self.apply_committed(now, out)?;
            self.answer_released(now, out);
            if !moved && !applied {
                break;
            }
        }
        self.drive_install(out);
        self.send_lease_answers(out);
        self.propose_lease_commands(now);
        self.maintain(now, out);
        self.show_status();
        self.check(self.apply_queue.applied() != applied_before);
        Ok(())
    }

    /// Periodic work, each part if it is due.
    fn maintain(&mut self, now: Now, out: &mut Output) {
        if self.purge.is_due(now.monotonic_ns) {
            for (token, outcome) in self.purge.step(now.monotonic_ns, &mut self.store) {
                out.answers.push((token, Answer::Applied(outcome)));
            }
        }
        if self.sealing.next_due_ns().is_some_and(|due_ns| now.monotonic_ns >= due_ns) {
            out.writes.extend(self.sealing.seal(now.monotonic_ns, &mut self.log));
        }
        if self.checkpoints.is_due(self.apply_queue.applied(), self.config.checkpoint_commands)
            && !self.installing.is_running()
        {
            self.begin_checkpoint(out);
        }
        self.drive_repair(now, out);
        if self.may_relocate() && self.relocation.is_step_due(now.monotonic_ns) {
            self.relocate(out, |relocation, context| relocation.step(now.monotonic_ns, context));
        }
        if self.may_relocate() && self.relocation.is_look_due(now.monotonic_ns) {
            self.look_for_space(now, out);
        }
        while let Some(job) = self.log.next_job() {
            out.background.push(Job::Log(job));
        }
    }

    fn may_relocate(&self) -> bool {
        !self.installing.is_running() && !self.is_stopping
    }

    /// When [`Member::drive`] must run next although nothing happens.
    pub fn next_due_ns(&self) -> Option<u64> {
        // Commands that wait for a leader or for the end of a transfer wait for a message or a tick.
        let leader = self.leadership.as_leader().filter(|_| self.transfer.is_none());
        let proposals = leader.and_then(|leader| self.proposals.next_due_ns(&leader.batches));
        let leases = leader.and_then(|leader| leader.leases.as_ref()).and_then(|leases| leases.next_due_ns());
        let relocation = if self.may_relocate() { self.relocation.next_due_ns() } else { None };
        let lease_questions =
            self.leadership.as_follower().and_then(|follower| follower.lease_questions.next_due_ns());
        let reads = self.read_index.next_due_ns(self.leadership.is_established());
        let maintenance = [self.sealing.next_due_ns(), self.purge.next_due_ns(), relocation];
        let repair = [self.value_repairs.next_due_ns(), self.entry_repairs.next_due_ns()];
        let requests = [proposals, leases, lease_questions, reads];
        let due = [Some(self.next_tick_ns)].into_iter().chain(requests).chain(maintenance).chain(repair);
        due.flatten().min()
    }

    /// The numbers others may look at.
    pub fn status(&self) -> Arc<MemberStatus> {
        self.status.clone()
    }

    /// Checks the invariants of each part, and those that hold between parts, after every step. Cheap. The store is
    /// checked only in a step that applied something: its lock is shared with the readers, which would pay for it.
    fn check(&self, has_applied: bool) {
        let (applied, committed) = (self.apply_queue.applied(), self.apply_queue.committed());
        assert!(applied <= committed, "applied {applied} is ahead of committed {committed}");
        assert!(
            self.installing.is_running() || committed <= self.log.last_index(),
            "committed {committed}, but the log ends at {}",
            self.log.last_index()
        );
        let checkpoint = self.log.checkpoint_id().map_or(0, |id| id.index);
        assert!(
            self.installing.is_running() || checkpoint <= applied,
            "the checkpoint holds entry {checkpoint}, but only {applied} is applied"
        );
        self.read_index.check(self.leadership.leads());
        self.log.check();
        if has_applied {
            self.store.check();
        }
    }

    /// Checks all invariants at a cost that grows with the state: for the simulator and tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check_all(&self) {
        self.check(true);
        self.log.check_all();
        self.store.check_all();
    }

    /// A tick is due: counts it, and does the work of each tick.
    fn advance_clock(&mut self, now: Now, out: &mut Output) {
        let late_ns = now.monotonic_ns - self.next_tick_ns;
        // After a process pause, count one tick only: time in which no member ran must not trigger an election.
        if late_ns > self.config.tick_ns {
            out.notices.push(Notice::TickLate(late_ns));
            self.next_tick_ns = now.monotonic_ns + self.config.tick_ns;
        } else {
            self.next_tick_ns += self.config.tick_ns;
        }
        self.consensus.tick();
        self.tick(now, out);
    }

    /// Work of each tick.
    fn tick(&mut self, now: Now, out: &mut Output) {
        self.tick_startup_election();
        self.consensus.retry_round();
        self.give_up_transfer(now, out);
        self.repeat_lease_questions(now);
        self.forget_expired_waiters();
        self.alarms.tick();
        if self.log.space() != log::Space::Ok {
            self.log.retry_space();
        }
        self.receiving.expire(now.monotonic_ns, out);
        // A pin that kept compacted history may be gone.
        if self.reader.purged() < self.reader.compacted() || self.purge.is_awaited() {
            self.purge.start();
        }
        if let Some((index, hash)) = self.state_hashes.take_unsent() {
            self.connected.iter().for_each(|peer| out.send(*peer, &PeerMessage::StateHash { index, hash }));
        }
        if self.leadership.leader != 0
            && self.publication.is_due(now.monotonic_ns, &self.config, &self.reader)
        {
            let body = self.publication.propose(now.monotonic_ns, &self.config);
            self.proposals.push_own(CommandKind::Publish, body);
        }
    }

    /// Answers callers whose deadline has passed.
    fn expire_callers(&mut self, now: Now, out: &mut Output) {
        self.read_index.expire_question(now.monotonic_ns);
        if let Some(follower) = self.leadership.as_follower_mut() {
            follower.lease_questions.expire_wait(now.monotonic_ns);
        }
        let mut queued = BTreeSet::new();
        while let Some((token, progress)) = self.callers.take_expired(now.monotonic_ns) {
            self.proposals.expire_forwarded(token);
            if let Some(follower) = self.leadership.as_follower_mut() {
                follower.lease_questions.take(token);
            }
            if progress == Progress::Queued {
                queued.insert(token);
            }
            self.status.set_failed(self.status.failed() + 1);
            out.answers.push((token, Answer::Failed(self.timeout_error(now, progress))));
        }
        if !queued.is_empty() {
            self.proposals.expire_queued(&queued);
        }
    }

    /// The error that best tells a caller why no agreement was reached in time; etcd's choice among its texts.
    fn timeout_error(&self, now: Now, progress: Progress) -> api::Error {
        let waited_since = now.monotonic_ns.saturating_sub(self.config.request_timeout_ns());
        let link_lost = !self.leadership.leads() && !self.connected.contains(&self.leadership.leader);
        match progress {
            Progress::Sent if self.leadership.since_ns >= waited_since => api::Error::TimeoutLeaderFailed,
            _ if self.leadership.leader != 0 && link_lost => api::Error::TimeoutConnectionLost,
            _ => api::Error::Timeout,
        }
    }

    fn on_peer_up(&mut self, peer: u64) {
        self.connected.insert(peer);
        self.consensus.ping();
        if self.startup_election.is_some_and(|election| election.asks_at_once()) && self.could_win_election()
        {
            self.consensus.campaign();
        }
    }

    fn on_peer_down(&mut self, peer: u64) {
        self.connected.remove(&peer);
        self.take_back_lease_questions();
        self.consensus.report_unreachable(peer);
    }

    /// The startup election ends when a leader is known, or when an election could be won for an election timeout.
    /// Other ticks do not count.
    fn tick_startup_election(&mut self) {
        let is_over = |election: &mut StartupElection| {
            self.leadership.leader != 0 || election.is_over(self.config.election_ticks)
        };
        self.startup_election.take_if(is_over);
        if self.startup_election.is_none() || !self.could_win_election() {
            return;
        }
        let Some(election) = &mut self.startup_election else { return };
        if election.tick(&self.consensus.conf_state().voters, self.config.member_id) {
            self.consensus.campaign();
        }
    }

    fn could_win_election(&self) -> bool {
        let status = self.consensus.status();
        self.config.pre_vote && startup_election::could_win(&status, self.config.member_id, &self.connected)
    }

    fn drive_repair(&mut self, now: Now, out: &mut Output) {
        let has_look_up = self.value_repairs.has_look_up(now.monotonic_ns);
        self.repair(now, out, |repairs, context| {
            if has_look_up {
                repairs.look_up(context);
            }
            repairs.ask_late(context);
        });
        for index in self.entry_repairs.ask_late(now.monotonic_ns, &self.connected, out) {
            self.give_up_entry(index);
        }
        if self.value_repairs.has_values_to_write() && !self.installing.is_running() {
            out.background.push(self.value_repairs.write_fetched(&mut self.log));
        }
    }

    /// Runs a step of value repair; apply goes on if the step ends what it waits for.
    fn repair<R>(
        &mut self,
        now: Now,
        out: &mut Output,
        step: impl FnOnce(&mut ValueRepairs, &mut RepairContext<'_>) -> R,
    ) -> R {
        let mut context = RepairContext {
            now_ns: now.monotonic_ns,
            connected: &self.connected,
            reader: &self.reader,
            log: &mut self.log,
            store: &mut self.store,
            values: &self.values,
            callers: &mut self.callers,
            out,
            unblocks_apply: false,
        };
        let result = step(&mut self.value_repairs, &mut context);
        if context.unblocks_apply {
            self.apply_queue.unblock();
        }
        result
    }

    /// Begins what may begin of a snapshot installation.
    fn drive_install(&mut self, out: &mut Output) {
        self.installing.abandon_unwanted(out);
        // A checkpoint of the old state must not be under way when the state is replaced.
        if !self.checkpoints.is_running() {
            self.installing.begin(out);
        }
    }

    fn show_status(&self) {
        self.status.set_pending(self.callers.len() as u64);
        self.status.set_applied_index(self.apply_queue.applied());
        self.status.set_committed_index(self.apply_queue.committed());
        self.status.set_snapshots_installing(u64::from(self.installing.is_running()));
        let (base, deltas) = self.log.checkpoint_bytes();
        self.status.set_file_bytes(self.log.reader().file_bytes() + base + deltas);
    }
}
