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
//! | `membership` | requests about members, and what follows from an applied one |
//! | `leaving` | what a member does before and after its own removal |
//! | `ticks` | the work of each tick, and callers' deadlines |
//! | `space` | checkpoints, relocation, truncation: what must be kept and for whom |
//! | `recovering` | a start with a damaged log, which is repaired before anything else |
//! | `memory` | the memory limit: what all components take together |
//! | `jobs_done` | results of background jobs |
//!
//! ```text
//! handle(inputs) -> drive:  time, callers' deadlines, writes that waited for room in the log
//!                           loop: propose or forward; begin rounds; take a ready; apply a slice; answer reads
//!                           snapshot installation; lease answers; commands for expired leases
//!                           purge, seal, checkpoint, repair, relocation
//!                           check() -> Output
//! ```

mod applying;
mod frames;
mod jobs_done;
mod leaving;
mod membership;
mod memory;
mod reads;
mod ready_loop;
mod recovering;
mod requests;
mod space;
mod ticks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consensus::Consensus;
use log::LogId;
use store::Store;
use store::watch::Hub;

use crate::apply::backpressure::Backpressure;
use crate::apply::{ApplyQueue, BatchBeingApplied};
use crate::callers::Callers;
use crate::config::MemberConfig;
use crate::io::{Answer, Input, MemberFatal, Notice, Now, Output};
use crate::jobs::{Done, Job};
use crate::leadership::failover_election::FailoverElection;
use crate::leadership::startup_election::StartupElection;
use crate::leadership::{TermState, Transfer};
use crate::maintenance::activity::Activity;
use crate::maintenance::alarms::AlarmProposals;
use crate::maintenance::backup_reads::BackupReads;
use crate::maintenance::checkpoints::CheckpointSchedule;
use crate::maintenance::cluster_version::ClusterVersions;
use crate::maintenance::log_room::LogRoom;
use crate::maintenance::memory::MemoryLimit;
use crate::maintenance::publication::Publication;
use crate::maintenance::purge::Purge;
use crate::maintenance::seal::Sealing;
use crate::maintenance::state_hashes::StateHashes;
use crate::membership::state::MembershipState;
use crate::own_syncs::OwnSyncs;
use crate::peer_message::LeaseAnswer;
use crate::proposals::Proposals;
use crate::proposals::batch::Origin;
use crate::read_index::ReadIndex;
use crate::relocation::Relocator;
use crate::repair::entries::EntryRepairs;
use crate::repair::recovery::UnfinishedStart;
use crate::repair::scrub::Scrub;
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
    /// The log is not whole: it is repaired first.
    unfinished_start: Option<UnfinishedStart>,

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
    failover_election: Option<FailoverElection>,
    transfer: Option<Transfer>,

    // From a request to its answer.
    proposals: Proposals,
    read_index: ReadIndex,
    /// Answers to lease questions of peers. They leave together at the end of the step.
    lease_answers: BTreeMap<Origin, Vec<(u64, LeaseAnswer)>>,
    write_positions: WritePositions,
    own_syncs: OwnSyncs,
    room: LogRoom,
    apply_queue: ApplyQueue,
    backpressure: Backpressure,
    /// The batch of the queue's first entry, once it has begun.
    applying: Option<BatchBeingApplied>,
    /// Results of jobs that would switch references during a command: handled at its end.
    held_jobs: Vec<Done>,

    membership: MembershipState,

    // Periodic work.
    checkpoints: CheckpointSchedule,
    purge: Purge,
    sealing: Sealing,
    state_hashes: StateHashes,
    alarms: AlarmProposals,
    backup_reads: BackupReads,
    memory_limit: MemoryLimit,
    activity: Activity,
    publication: Publication,
    cluster_versions: ClusterVersions,
    relocation: Relocator,

    // Repair and snapshots.
    value_repairs: ValueRepairs,
    entry_repairs: EntryRepairs,
    repair_server: RepairServer,
    scrub: Scrub,
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
    /// The entry after it, if it is applied in part.
    pub(crate) applying: Option<BatchBeingApplied>,
    pub(crate) unfinished_start: Option<UnfinishedStart>,
}

impl Member {
    pub(crate) fn new(parts: Parts) -> Member {
        let Parts { config, status, log, consensus, store, reader, values, hub, .. } = parts;
        let Parts { applied, applying, unfinished_start, .. } = parts;
        let leadership = TermState::at_start(consensus.status().term);
        let startup_election = StartupElection::new(config.member_id, log.hard_state().vote);
        status.set_term(leadership.term);
        status.set_applied_index(applied.index);
        status.set_memory_limit_bytes(config.memory_limit_bytes);
        Member {
            proposals: Proposals::new(config.origin(), config.queue_limits),
            memory_limit: MemoryLimit::new(config.memory_limit_bytes),
            sending: SnapshotSending::new(config.snapshot_log_bytes),
            config,
            status,
            next_tick_ns: 0,
            is_stopping: false,
            unfinished_start,
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
            failover_election: None,
            transfer: None,
            read_index: ReadIndex::default(),
            lease_answers: BTreeMap::new(),
            write_positions: WritePositions::default(),
            own_syncs: OwnSyncs::default(),
            room: LogRoom::default(),
            apply_queue: ApplyQueue::at(applied),
            backpressure: Backpressure::default(),
            applying,
            held_jobs: Vec::new(),
            membership: MembershipState::default(),
            checkpoints: CheckpointSchedule::default(),
            purge: Purge::default(),
            sealing: Sealing::default(),
            state_hashes: StateHashes::default(),
            alarms: AlarmProposals::default(),
            backup_reads: BackupReads::default(),
            activity: Activity::default(),
            publication: Publication::default(),
            cluster_versions: ClusterVersions::default(),
            relocation: Relocator::default(),
            value_repairs: ValueRepairs::default(),
            entry_repairs: EntryRepairs::default(),
            repair_server: RepairServer::default(),
            scrub: Scrub::default(),
            receiving: SnapshotReceiving::default(),
            installing: SnapshotInstalling::default(),
        }
    }

    /// Takes in one input. The next [`Member::drive`] decides what follows from it.
    ///
    /// # Errors
    /// [`MemberFatal`] when the process must stop.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Output) -> Result<(), MemberFatal> {
        if self.unfinished_start.is_some() {
            return self.handle_recovering(now, input, out);
        }
        let Some(input) = self.take_unless_leaving(input, out) else { return Ok(()) };
        match input {
            Input::Propose(proposal) => self.on_propose(now, proposal, out),
            Input::Read { token } => self.on_read(now, token, out),
            Input::Lease { token, lease, renew } => self.on_lease(now, token, lease, renew, out),
            Input::MoveLeader { token, to } => self.on_move_leader(now, token, to, out),
            Input::Repair { token, address, key } => self.on_repair(now, token, (address, key), out),
            Input::ReadEntries(wanted) => self.on_read_entries(now, wanted, out),
            Input::Defragment => self.on_defragment(),
            Input::SetQuota { bytes } => self.config.quota_bytes = bytes,
            Input::SetMemoryLimit { bytes } => self.set_memory_limit(bytes),
            Input::Frame { from, bytes } => self.on_frame(now, from, bytes, out),
            Input::ChangeMembers { token, request } => self.on_change_members(now, token, request, out),
            Input::GiveUpLeadership { token } => self.on_give_up_leadership(now, token, out),
            Input::PeerAnnounced { peer, command_set } => self.on_peer_announced(peer, command_set),
            Input::PeerUp(peer) => self.on_peer_up(now, peer, out),
            Input::PeerDown(peer) => self.on_peer_down(peer),
            Input::PeerNotListening(peer) => self.on_peer_not_listening(now, peer),
            Input::WritesSynced(done) => {
                self.write_positions.log_synced(self.log.complete(done)?.position);
                self.consensus.disk_synced();
            }
            Input::Background(done) => self.on_job_done(now, *done, out)?,
            Input::SnapshotOffered { token, from, header } => {
                self.on_snapshot_offered(now, (from, header), token, out);
            }
            Input::SnapshotBroken(receiver) => self.receiving.broken(now.monotonic_ns, receiver, out),
            Input::SnapshotWhole { token, receiver } => self.on_snapshot_whole(receiver, token, out),
            Input::SnapshotSent { sent, result } => self.on_snapshot_sent(now, sent, &result, out),
            Input::Stop => self.on_stop(out),
        }
        Ok(())
    }

    /// Decides all that follows from the inputs so far.
    ///
    /// # Errors
    /// [`MemberFatal`] when the process must stop.
    pub fn drive(&mut self, now: Now, out: &mut Output) -> Result<(), MemberFatal> {
        if self.unfinished_start.is_some() {
            return self.drive_recovering(now, out);
        }
        self.apply_queue.begin_step();
        let mut spent = 0;
        if now.monotonic_ns >= self.next_tick_ns {
            self.advance_clock(now, out);
        }
        self.drive_failover_election(now);
        self.expire_callers(now, out);
        self.plan_waiting(now, out);
        loop {
            self.start_commands(now, out);
            self.start_membership_changes(now, out);
            self.start_rounds(now, out);
            let moved = self.take_ready(now, out)?;
            let applied = self.apply_committed(now, &mut spent, out)?;
            self.answer_released(now, out);
            if !moved && !applied {
                break;
            }
        }
        self.room.planned();
        self.drive_install(now, out)?;
        self.send_lease_answers(out);
        self.propose_lease_commands(now);
        self.maintain(now, out);
        self.show_status();
        self.show_membership(out);
        out.counts.keys_applied = spent;
        if spent > 0 {
            self.account_memory(out);
        }
        self.check(spent > 0);
        Ok(())
    }

    /// Periodic work, each part if it is due.
    fn maintain(&mut self, now: Now, out: &mut Output) {
        let is_applying = self.store.is_applying();
        if self.purge.is_due(now.monotonic_ns) && !is_applying {
            for (token, outcome) in self.purge.step(now.monotonic_ns, &mut self.store) {
                out.answers.push((token, Answer::Applied(outcome)));
            }
            if let Some(ns) = self.purge.take_finished(now.monotonic_ns) {
                out.counts.purged_ns = Some(ns);
                self.status.set_compacted_at_s(now.wall_ms / 1_000);
            }
            let hashes_large = self.config.hashes_large_compactions;
            out.background.extend(self.purge.begin_hash(&mut self.store, hashes_large));
        }
        if self.sealing.next_due_ns().is_some_and(|due_ns| now.monotonic_ns >= due_ns) {
            out.writes.extend(self.sealing.seal(now.monotonic_ns, &mut self.log));
        }
        if self.checkpoints.is_due(
            now.monotonic_ns,
            self.apply_queue.applied(),
            self.config.checkpoint_commands,
        ) && !self.installing.is_running()
            && !is_applying
        {
            self.begin_checkpoint(out);
        }
        self.drive_repair(now, out);
        self.drive_scrub(now, out);
        if self.may_relocate() && self.relocation.is_step_due(now.monotonic_ns) {
            self.relocate(out, |relocation, context| relocation.step(now.monotonic_ns, context));
        }
        if self.may_relocate() && self.relocation.is_look_due(now.monotonic_ns) {
            self.look_for_space(now, out);
        }
        while let Some(job) = self.log.next_job() {
            out.background.push(Job::Log(job));
        }
        out.notices.extend(self.room.take_news(self.log.space()).map(|is_low| Notice::Space { is_low }));
    }

    /// Whether relocation may go on.
    fn may_relocate(&self) -> bool {
        !self.installing.is_running() && !self.is_stopping && !self.store.is_applying()
    }

    /// When [`Member::drive`] must run next although nothing happens.
    pub fn next_due_ns(&self) -> Option<u64> {
        if let Some(start) = &self.unfinished_start {
            return start.recovery.next_due_ns();
        }
        if self.apply_queue.is_ready() {
            return Some(0);
        }
        // Commands that wait for a leader or for the end of a transfer wait for a message or a tick.
        let leader = self.leadership.as_leader().filter(|_| self.transfer.is_none());
        let proposals = leader.and_then(|leader| self.proposals.next_due_ns(&leader.batches));
        let leases = leader.and_then(|leader| leader.leases.as_ref()).and_then(|leases| leases.next_due_ns());
        let relocation = if self.may_relocate() { self.relocation.next_due_ns() } else { None };
        let purge = if self.store.is_applying() { None } else { self.purge.next_due_ns() };
        let lease_questions =
            self.leadership.as_follower().and_then(|follower| follower.lease_questions.next_due_ns());
        let reads = self.read_index.next_due_ns(self.leadership.is_established());
        let maintenance = [self.sealing.next_due_ns(), purge, relocation];
        let scrub = if self.may_scrub() { self.scrub.next_due_ns() } else { None };
        let repair = [self.value_repairs.next_due_ns(), self.entry_repairs.next_due_ns(), scrub];
        let failover = self.failover_election.as_ref().map(FailoverElection::next_due_ns);
        let requests = [proposals, leases, lease_questions, reads, failover];
        let due = [Some(self.next_tick_ns)].into_iter().chain(requests).chain(maintenance).chain(repair);
        due.flatten().min()
    }

    /// Whether this member was removed from its cluster.
    pub fn is_removed(&self) -> bool {
        self.reader.was_removed(self.config.member_id)
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

    fn on_peer_up(&mut self, now: Now, peer: u64, out: &mut Output) {
        // A report about a peer that was removed meanwhile comes late.
        if self.reader.was_removed(peer) {
            return;
        }
        self.connected.insert(peer);
        self.note_peer_up(now, peer);
        self.introduce(peer, out);
        self.consensus.ping();
        if self.startup_election.is_some_and(|election| election.asks_at_once()) && self.could_win_election()
        {
            self.consensus.campaign();
        }
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

    fn show_status(&self) {
        self.status.set_pending(self.callers.proposals() as u64);
        self.status.set_pending_reads(self.callers.reads() as u64);
        self.status.set_applied_index(self.apply_queue.applied());
        self.status.set_committed_index(self.apply_queue.committed());
        self.status.set_snapshots_installing(u64::from(self.installing.is_running()));
        let (base, deltas) = self.log.checkpoint_bytes();
        self.status.set_file_bytes(self.log.reader().file_bytes() + base + deltas);
        self.status.set_waiting_commands(self.proposals.len() as u64);
        self.status.set_waiting_reads(self.read_index.len() as u64);
        self.status.set_failed_rounds(self.read_index.failed());
        self.status.set_repairs(self.value_repairs.len() as u64 + self.entry_repairs.len() as u64);
    }
}
