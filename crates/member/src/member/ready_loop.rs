//! The ready loop: carries out what consensus wants done, one ready after another.
//!
//! Consensus keeps the ordering rule (persist, then send, then reply; see
//! `crates/consensus/src/replication/unsynced_writes.rs`): a message in a ready may leave now, and one that promises
//! something about a write is held back until that write is reported synced. What is left to do here is to turn each
//! write into one write job, to report it when it is synced, and to send what is then released.
//!
//! ```text
//! ready:  messages  -> Output::frames, at once
//!         write 7   -> one job of the log; synced later: synced(7) -> more messages
//!         committed -> the apply queue
//!         rounds    -> the waiters of a ReadIndex round that was won
//! ```

use bytes::Bytes;
use consensus::{Body, Message, Ready, Role, Write};

use super::Member;
use super::reads::answer_read;
use crate::io::{Answer, MemberFatal, Notice, Now, Output};
use crate::leadership::{FollowerState, LeaderState, RoleState, TermState};
use crate::lease::LeaderLeases;
use crate::peer_message::{LeaseAnswer, PeerMessage};
use crate::proposals::ProposalTargets;
use crate::read_index::Waiter;
use crate::repair::serving::fetch_entries;

impl Member {
    /// Proposes (leader) or forwards (follower) the commands that wait, unless a transfer is under way. A leader that
    /// has too much to apply proposes nothing.
    pub(super) fn start_commands(&mut self, now: Now, out: &mut Output) {
        let is_held = self.transfer.is_some() || self.leadership.leads() && self.has_too_much_to_apply();
        self.proposals.hold(is_held);
        if is_held {
            return;
        }
        let leader = self.leadership.leader;
        match &mut self.leadership.role {
            RoleState::Leader(state) => {
                let (consensus, room, log) = (&mut self.consensus, &mut self.room, &mut self.log);
                let targets = ProposalTargets { consensus, room, log, out };
                self.proposals.propose_batches(now, &mut state.batches, &mut self.callers, targets);
            }
            RoleState::Follower(_) if leader != 0 && self.connected.contains(&leader) => {
                self.proposals.forward_batches(now, leader, &mut self.callers, out);
            }
            RoleState::Follower(_) => {}
        }
    }

    /// Reports synced writes to consensus and carries out one ready. Returns false when there is none.
    pub(super) fn take_ready(&mut self, now: Now, out: &mut Output) -> Result<bool, MemberFatal> {
        if let Some(number) = self.write_positions.take_synced() {
            self.own_syncs.synced(number, now.monotonic_ns);
            let released = self.consensus.synced(number);
            self.send_messages(released, out);
        }
        let Some(ready) = self.consensus.ready() else { return Ok(false) };
        self.carry_out(now, ready, out);
        Ok(true)
    }

    fn carry_out(&mut self, now: Now, ready: Ready, out: &mut Output) {
        if let Some(leadership) = ready.leadership {
            self.follow_leadership(now, leadership, out);
        }
        self.send_messages(ready.messages, out);
        if let Some(write) = ready.write {
            self.plan_write(now, write, out);
            self.room.planned();
        }
        for entry in ready.committed {
            if let Some(leader) = self.leadership.as_leader_mut() {
                leader.batches.committed(entry.index);
            }
            self.apply_queue.push(entry);
        }
        for won in ready.rounds_won {
            self.read_index.round_won(won.owner_round, won.index);
        }
        for round in ready.rounds_dropped {
            // Its ready told the lost leadership, too, at which the waiters went back to the queue or to their peers.
            assert!(!self.read_index.waits_for_round(round), "round {round} was dropped with its leadership");
        }
        fetch_entries(ready.fetches, &self.log, &mut self.consensus, out);
        for peer in ready.snapshots_wanted {
            let is_busy = self.installing.is_running() || self.store.is_applying();
            if self.sending.may_prepare(now.monotonic_ns, peer) && !is_busy {
                let applied = self.apply_queue.applied_id();
                let (consensus, store) = (&mut self.consensus, &mut self.store);
                self.sending.prepare(peer, applied, consensus, &self.log, store, self.values.clone());
            }
        }
    }

    /// Turns a write into a job of the log. During a snapshot installation writes wait for it, and otherwise for room
    /// in the log.
    pub(super) fn plan_write(&mut self, now: Now, write: Write, out: &mut Output) {
        if self.installing.is_running() {
            return self.installing.hold(write);
        }
        if let Some(meta) = write.snapshot.clone() {
            // What waits is in the snapshot, or replaced by it: only the newest hard state counts.
            let superseded = self.room.take_superseded();
            superseded.iter().for_each(|write| self.write_positions.superseded(write));
            return self.installing.want(&meta, write);
        }
        if write.must_sync && !self.room.has_room(&write, &mut self.log) {
            return self.room.wait(write);
        }
        self.append(now, write, out);
    }

    /// Plans the writes that waited for room, as far as there is some now.
    pub(super) fn plan_waiting(&mut self, now: Now, out: &mut Output) {
        while !self.installing.is_running()
            && let Some(write) = self.room.take_waiting(&mut self.log)
        {
            self.append(now, write, out);
        }
    }

    fn append(&mut self, now: Now, write: Write, out: &mut Output) {
        let hard_state = self.write_positions.hard_state_for(&write);
        if !write.must_sync {
            return;
        }
        self.own_syncs.written(write.number, &write.entries, now.monotonic_ns);
        let append = self.log.append(hard_state.map(to_log_hard_state), to_log_entries(write.entries));
        self.note_write(now, write.number, append.position);
        self.scrub.log_grew(append.job.bytes());
        out.writes.push(append.job);
    }

    /// The write of this number is synced when the log is durable up to `position`.
    pub(super) fn note_write(&mut self, now: Now, number: u64, position: u64) {
        self.write_positions.push(number, position);
        self.sealing.wrote(now.monotonic_ns);
    }

    fn send_messages(&mut self, messages: Vec<Message>, out: &mut Output) {
        for message in messages {
            let Body::Snapshot(meta) = &message.body else {
                let buffers: Vec<Bytes> = PeerMessage::of_consensus(message.encode());
                out.frames.push((message.to, message.class(), buffers));
                continue;
            };
            if !self.sending.start(message.to, meta, self.config.process_run, &message.encode(), out) {
                self.consensus.report_snapshot(message.to, false);
            }
        }
    }

    /// Term, leader or role changed: shows it, and replaces the state of the role.
    fn follow_leadership(&mut self, now: Now, seen: consensus::Leadership, out: &mut Output) {
        let leads = seen.role == Role::Leader;
        self.status.set_term(seen.term);
        self.status.set_leader(seen.leader);
        if (seen.leader, seen.term, leads)
            == (self.leadership.leader, self.leadership.term, self.leadership.leads())
        {
            return;
        }
        if seen.leader != 0 && seen.leader != self.leadership.leader {
            self.status.set_leader_changes(self.status.leader_changes() + 1);
        }
        out.notices.push(Notice::Leadership { term: seen.term, leader: seen.leader, leading: leads });
        let role = match leads {
            true => RoleState::Leader(LeaderState::default()),
            false => RoleState::Follower(FollowerState::default()),
        };
        let (term, leader, since_ns) = (seen.term, seen.leader, now.monotonic_ns);
        let former = std::mem::replace(&mut self.leadership, TermState { term, leader, since_ns, role });
        self.leave_role(former.role, out);
    }

    /// What a former role leaves behind: waiters start again, waiters of peers are refused.
    fn leave_role(&mut self, former: RoleState, out: &mut Output) {
        let mut held = Vec::new();
        match former {
            RoleState::Leader(leader) => {
                held = leader.leases.map(LeaderLeases::into_held).unwrap_or_default();
            }
            RoleState::Follower(mut follower) => {
                let questions = follower.lease_questions.take_all();
                questions.into_iter().for_each(|question| self.read_index.arrive(Waiter::Lease(question)));
            }
        }
        self.proposals.leadership_changed();
        self.alarms.settled();
        self.sending.leadership_changed();
        let refused = self.read_index.leadership_changed().into_iter();
        for waiter in refused.chain(held.into_iter().map(Waiter::Lease)) {
            match waiter {
                Waiter::Follower { peer, question } => {
                    answer_read(peer, question, None, out);
                }
                Waiter::Lease(lease) if lease.peer.is_some() => {
                    self.answer_lease(lease.peer, lease.sequence, LeaseAnswer::NotLeader, out);
                }
                local => self.read_index.arrive(local),
            }
        }
        if self.leadership.leads() {
            self.hold_commands_by_log();
        } else {
            self.return_foreign_commands(out);
            self.return_foreign_changes(out);
        }
        self.finish_transfer(out);
    }

    /// A transfer ends when another member leads.
    fn finish_transfer(&mut self, out: &mut Output) {
        let leader = self.leadership.leader;
        if leader == 0 || leader == self.config.member_id {
            return;
        }
        if let Some(token) = self.transfer.take().and_then(|transfer| transfer.token) {
            self.callers.answer(token, Answer::LeaderMoved, out);
        }
    }
}

fn to_log_entries(entries: Vec<consensus::Entry>) -> Vec<log::Entry> {
    let to_log = |entry: consensus::Entry| log::Entry {
        term: entry.term,
        index: entry.index,
        kind: entry.kind as u8,
        payload: entry.payload,
    };
    entries.into_iter().map(to_log).collect()
}

pub(super) fn to_log_hard_state(state: consensus::HardState) -> log::HardState {
    log::HardState { term: state.term, vote: state.vote, commit: state.commit }
}
