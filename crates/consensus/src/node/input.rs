//! What consensus takes: ticks, messages, reads, conf changes, transfers and reports.

use raft::{GetEntriesContext, SnapshotStatus, StateRole};

use crate::entry::{Entry, EntryKind};
use crate::error::{ProposeError, Rejected};
use crate::membership::{ConfChange, ConfState, conf_change_to_raft};
use crate::message::{Body, Message, entries_from_raft, message_to_raft};
use crate::node::consensus::Consensus;
use crate::node::guard::{self, Verdict};
use crate::read_index::ReadIndexRounds;
use crate::replication::{
    StalledDiskAction, peers, probe_after_heartbeat, resume_after_probe, transfer_target,
};

impl Consensus {
    /// A tick of the clock passed.
    pub fn tick(&mut self) {
        self.ticks += 1;
        let would_abort =
            self.node.raft.promotable() && !guard::may_campaign(&self.node, self.writes.changes_log());
        if !self.is_leader() && would_abort {
            // Time passes all the same: a leader that is no longer heard must not keep our vote from others.
            self.node.raft.election_elapsed += 1;
        } else {
            self.node.tick();
        }
        self.windows.reconcile(&mut self.node);
        if self.node.store().has_fetched() {
            let next_indexes: Vec<u64> = peers(&self.node).iter().map(|peer| peer.next).collect();
            self.node.mut_store().keep_fetched_for(&next_indexes);
        }
        match self.stalled_disk.tick(self.stalled_write(), self.ticks, self.election_tick as u64) {
            StalledDiskAction::Wait => {}
            StalledDiskAction::Transfer => {
                if let Some(target) = transfer_target(&self.node, |_| true) {
                    self.node.transfer_leader(target);
                }
            }
            StalledDiskAction::StepDown => self.step_down(),
        }
        self.settle();
    }

    /// Takes a message that came over the connection to `from`. An error means that no sound member sends this message:
    /// count it and disconnect.
    pub fn step(&mut self, from: u64, message: Message) -> Result<(), Rejected> {
        let verdict = guard::check(&self.node, from, &message, self.writes.changes_log())?;
        if verdict == Verdict::Ignore {
            return Ok(());
        }
        self.notice_restarted_leader(&message);
        match message.body {
            Body::LeadershipCheck { round } => {
                self.outbox.extend(ReadIndexRounds::respond(&self.node, from, message.term, round));
            }
            Body::LeadershipCheckResponse { round } => {
                self.rounds.take_response(&self.node, from, message.term, round);
            }
            _ => self.step_library(message),
        }
        self.settle();
        Ok(())
    }

    /// If our leader asks for pre-votes in a later term, it leads no more: it was restarted, or stepped down. Waiting
    /// for its heartbeats would only delay our vote for it.
    fn notice_restarted_leader(&mut self, message: &Message) {
        let raft = &mut self.node.raft;
        let asks = matches!(message.body, Body::Vote { pre: true, .. });
        if asks && message.term > raft.term && raft.leader_id == message.from {
            let term = raft.term;
            raft.become_follower(term, raft::INVALID_ID);
        }
    }

    fn step_library(&mut self, message: Message) {
        let (peer, is_ours) = (message.from, self.leading == Some(message.term));
        match message.body {
            Body::AppendAccepted { index, .. } if is_ours => {
                self.windows.accepted(&mut self.node, peer, index);
                resume_after_probe(&mut self.node, peer, index);
            }
            Body::HeartbeatResponse { commit }
                if is_ours && probe_after_heartbeat(&mut self.node, peer, commit) =>
            {
                return;
            }
            _ => {}
        }
        let message = message_to_raft(message).expect("leadership checks do not come here");
        // The raft library's errors are about proposals and unknown members; neither comes here.
        let _ = self.node.step(message);
    }

    /// Starts a ReadIndex round for the reads that the owner joined under its number `owner_round`, which comes back in
    /// [`crate::Ready::rounds_won`] or [`crate::Ready::rounds_dropped`]. A sole voter needs no responses.
    ///
    /// # Errors
    /// This member does not lead, has not committed in its term, or has a round in flight.
    pub fn start_round(&mut self, owner_round: u64) -> Result<(), ProposeError> {
        self.check_leader()?;
        if !self.rounds.can_start(&self.node) {
            return Err(ProposeError::Overloaded);
        }
        let checks = self.rounds.start(&self.node, owner_round);
        self.outbox.extend(checks);
        self.settle();
        Ok(())
    }

    /// Sends the leadership checks of the round in flight again to the voters that have not responded; messages may be
    /// lost.
    pub fn retry_round(&mut self) {
        self.outbox.extend(self.rounds.missing_checks(&self.node));
    }

    /// A committed conf change is applied: returns the configuration now in force. An error means that the change does
    /// not fit the configuration before it, on any member, and has no effect. Call it before [`Consensus::applied`] and
    /// before applying what follows.
    pub fn apply_conf_change(&mut self, change: &ConfChange) -> Result<ConfState, String> {
        self.node.apply_conf_change(&conf_change_to_raft(change)).map_err(|error| error.to_string())?;
        let raft = &mut self.node.raft;
        if !raft.promotable() && raft.state != StateRole::Follower {
            let term = raft.term;
            raft.become_follower(term, raft::INVALID_ID);
        }
        self.settle();
        self.rounds.finish_if_won(&self.node);
        Ok(self.conf_state())
    }

    /// Whether a conf change may be in the log and not applied yet: no other is taken.
    pub fn has_pending_conf_change(&self) -> bool {
        self.node.raft.has_pending_conf()
    }

    /// The conf changes that are in the log and not applied yet, whether they are committed or not, in order. A member
    /// that has just been elected does not know of them otherwise.
    pub fn unapplied_conf_changes(&self) -> Vec<Entry> {
        let log = &self.node.raft.raft_log;
        let (low, high) = (log.applied.max(log.first_index() - 1) + 1, log.last_index() + 1);
        if low >= high {
            return Vec::new();
        }
        let unapplied = log.slice(low, high, None, GetEntriesContext::empty(false));
        let unapplied = unapplied.expect("entries that are not applied are in memory");
        entries_from_raft(unapplied).into_iter().filter(|entry| entry.kind == EntryKind::ConfChange).collect()
    }

    /// The voter with the longest log among those that `is_reachable`, if this node leads and there is one.
    pub fn transfer_target(&self, is_reachable: impl Fn(u64) -> bool) -> Option<u64> {
        if self.is_leader() { transfer_target(&self.node, is_reachable) } else { None }
    }

    /// Transfers the leadership to the voter `to`, which takes at most an election timeout. Until then nothing can be
    /// proposed.
    pub fn transfer_leader(&mut self, to: u64) -> Result<(), ProposeError> {
        self.check_leader()?;
        if !self.conf_state().voters.contains(&to) {
            return Err(ProposeError::NotAVoter { id: to });
        }
        self.node.transfer_leader(to);
        self.settle();
        Ok(())
    }

    /// If this node leads, it becomes a follower of the same term, without a successor.
    pub fn step_down(&mut self) {
        if self.is_leader() {
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, raft::INVALID_ID);
            self.settle();
        }
    }

    /// Nothing runs any more where `leader` ran. If this node follows it, it knows no leader from now on: it may grant
    /// its vote to others, and an election may begin sooner. The ordinary election begins when it would have begun.
    pub fn forget_leader(&mut self, leader: u64) {
        let raft = &mut self.node.raft;
        if raft.state == StateRole::Follower && raft.leader_id == leader && leader != raft::INVALID_ID {
            let (term, elapsed) = (raft.term, raft.election_elapsed);
            raft.become_follower(term, raft::INVALID_ID);
            raft.election_elapsed = elapsed;
            self.settle();
        }
    }

    /// As a leader, sends every member a heartbeat now. Call it when a connection to a peer was established.
    pub fn ping(&mut self) {
        self.node.ping();
        self.settle();
    }

    /// A message to `peer` was lost.
    pub fn report_unreachable(&mut self, peer: u64) {
        self.node.report_unreachable(peer);
        self.settle();
    }

    /// The outcome of a snapshot that was sent to `peer`. Always report it: until then nothing else is sent to the
    /// peer.
    pub fn report_snapshot(&mut self, peer: u64, ok: bool) {
        let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.node.report_snapshot(peer, status);
        self.settle();
    }

    /// The owner's log no longer holds the entries up to `index`, which must be applied.
    pub fn truncate(&mut self, index: u64) {
        if index >= self.node.store().first() {
            self.node.mut_store().truncate_to(index);
        }
    }
}
