//! What follows from time alone: the work of each tick, the startup and the failover election, and callers' deadlines.

use std::collections::BTreeSet;

use api::etcdserverpb::AlarmType;
use consensus::Role;

use super::Member;
use crate::callers::{CallerKind, ExpiredCaller, Progress};
use crate::io::{Answer, Notice, Now, Output};
use crate::leadership::failover_election::FailoverElection;
use crate::leadership::startup_election::{self, StartupElection};
use crate::peer_message::PeerMessage;
use crate::proposals::batch::CommandKind;

impl Member {
    /// A tick is due: counts it, and does the work of each tick.
    pub(super) fn advance_clock(&mut self, now: Now, out: &mut Output) {
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
        self.proposals.tick();
        self.membership.queue.tick();
        self.consensus.retry_round();
        self.give_up_transfer(now, out);
        self.hand_over_if_behind(now);
        self.repeat_lease_questions(now);
        self.forget_expired_waiters();
        if self.log.space() != log::Space::Ok {
            self.log.retry_space();
        }
        if self.is_space_low() {
            self.make_space();
        }
        self.receiving.expire(now.monotonic_ns, out);
        self.installing.tick(out);
        if self.sending.has_catching_up() {
            self.note_catching_up(now);
        }
        self.alarms.tick();
        self.backup_reads.tick(now.monotonic_ns);
        self.tick_leaving(out);
        self.tick_command_set(now);
        self.propose_cluster_version(now);
        self.tick_memory(now, out);
        self.resume_purging();
        if let Some((index, hash)) = self.state_hashes.take_unsent() {
            self.connected.iter().for_each(|peer| out.send(*peer, &PeerMessage::StateHash { index, hash }));
        }
        for (peer, index) in self.state_hashes.compare_early() {
            out.notices.push(Notice::Diverged { peer, index });
        }
        if self.state_hashes.has_unjudged() {
            self.judge_differences();
        }
        if self.leadership.leader != 0
            && self.publication.is_due(now.monotonic_ns, &self.config, &self.reader)
        {
            let body = self.publication.propose(now.monotonic_ns, &self.config);
            self.proposals.push_own(CommandKind::Publish, body);
        }
    }

    /// Raises the alarm for the members whose state differs from that of a quorum.
    fn judge_differences(&mut self) {
        let members = self.reader.members();
        let voters = members.iter().filter(|member| !member.learner).map(|member| member.id).collect();
        let alarms = self.reader.alarms();
        let corrupt = alarms.iter().filter(|raised| raised.alarm == AlarmType::Corrupt as i32);
        let raised = corrupt.map(|raised| raised.member_id).collect();
        let (own_id, leads) = (self.config.member_id, self.leadership.leads());
        for member_id in self.state_hashes.judge(own_id, &voters, leads, &raised) {
            self.raise_alarm(AlarmType::Corrupt, member_id);
        }
    }

    /// Answers callers whose deadline has passed.
    pub(super) fn expire_callers(&mut self, now: Now, out: &mut Output) {
        self.read_index.expire_question(now.monotonic_ns);
        if let Some(follower) = self.leadership.as_follower_mut() {
            follower.lease_questions.expire_wait(now.monotonic_ns);
        }
        let mut queued = BTreeSet::new();
        while let Some(expired) = self.callers.take_expired(now.monotonic_ns) {
            let ExpiredCaller { token, kind, progress } = expired;
            self.proposals.expire_forwarded(token);
            self.expire_change(token);
            if let Some(follower) = self.leadership.as_follower_mut() {
                follower.lease_questions.take(token);
            }
            if progress == Progress::Queued {
                queued.insert(token);
            }
            match kind {
                CallerKind::Proposal => self.status.set_failed(self.status.failed() + 1),
                CallerKind::Read => self.status.set_late_reads(self.status.late_reads() + 1),
                CallerKind::Other => {}
            }
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

    /// The scrub reads some more, if it is due.
    pub(super) fn drive_scrub(&mut self, now: Now, out: &mut Output) {
        if !self.may_scrub() {
            return;
        }
        let (rate, applied) = (self.config.scrub, self.apply_queue.applied());
        let job = self.scrub.next_job(now.monotonic_ns, rate, &self.log, &self.reader, applied);
        out.background.extend(job);
    }

    /// Not while the state is being replaced, whose files come and go.
    pub(super) fn may_scrub(&self) -> bool {
        !self.installing.is_running() && !self.is_stopping
    }

    /// Nothing listens where a peer listened. If it led, an election follows at once instead of after a timeout.
    pub(super) fn on_peer_not_listening(&mut self, now: Now, peer: u64) {
        let status = self.consensus.status();
        if !self.config.pre_vote || status.leader != peer || status.role != Role::Follower {
            return;
        }
        self.consensus.forget_leader(peer);
        let others = status.conf_state.voters.iter().filter(|id| **id != peer);
        let rank = others.filter(|id| **id < self.config.member_id).count();
        let election_ns = self.config.election_ns();
        self.failover_election = Some(FailoverElection::new(now.monotonic_ns, rank, election_ns));
    }

    /// Asks for votes when it is time, until a leader is known or the ordinary election takes over.
    pub(super) fn drive_failover_election(&mut self, now: Now) {
        let Some(election) = &mut self.failover_election else { return };
        if election.is_over(now.monotonic_ns) || self.consensus.status().leader != 0 {
            self.failover_election = None;
        } else if election.take_due(now.monotonic_ns) && self.could_win_election() {
            self.consensus.campaign();
        }
    }

    pub(super) fn could_win_election(&self) -> bool {
        let status = self.consensus.status();
        self.config.pre_vote && startup_election::could_win(&status, self.config.member_id, &self.connected)
    }
}
