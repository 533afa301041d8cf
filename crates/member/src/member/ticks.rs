//! What follows from time alone: the work of each tick, the startup election, and callers' deadlines.

use std::collections::BTreeSet;

use super::Member;
use crate::callers::Progress;
use crate::io::{Answer, Notice, Now, Output};
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
        self.consensus.retry_round();
        self.give_up_transfer(now, out);
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
        self.tick_command_set(now);
        self.tick_memory(now, out);
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
    pub(super) fn expire_callers(&mut self, now: Now, out: &mut Output) {
        self.read_index.expire_question(now.monotonic_ns);
        if let Some(follower) = self.leadership.as_follower_mut() {
            follower.lease_questions.expire_wait(now.monotonic_ns);
        }
        let mut queued = BTreeSet::new();
        while let Some((token, progress)) = self.callers.take_expired(now.monotonic_ns) {
            self.proposals.expire_forwarded(token);
            self.expire_change(token);
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

    pub(super) fn could_win_election(&self) -> bool {
        let status = self.consensus.status();
        self.config.pre_vote && startup_election::could_win(&status, self.config.member_id, &self.connected)
    }
}
