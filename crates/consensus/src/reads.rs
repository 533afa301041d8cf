//! The node's side of confirm rounds (see `confirm` for why they are sound).

use crate::{Body, Consensus, Message, ProposeError};

impl Consensus {
    /// Asks for a linearizable read. It joins the next round; `token` comes back in [`crate::Ready::reads`] or
    /// [`crate::Ready::reads_dropped`]. A sole voter needs no round.
    pub fn read(&mut self, token: u64) -> Result<(), ProposeError> {
        if !self.is_leader() {
            return Err(ProposeError::NotLeader { leader: self.node.raft.leader_id });
        }
        if !self.rounds.join(token) {
            return Err(ProposeError::Overloaded);
        }
        self.settle();
        Ok(())
    }

    /// Whether reads wait and a round may start: none is in flight, and this leader has committed in its term.
    pub fn can_start_round(&self) -> bool {
        self.is_leader() && self.rounds.can_start() && self.node.raft.commit_to_current_term()
    }

    /// Whether a round is in flight.
    pub fn round_in_flight(&self) -> bool {
        self.rounds.in_flight().is_some()
    }

    /// Starts a round for all waiting reads, if one may start; says whether it did.
    pub fn start_round(&mut self) -> bool {
        if !self.can_start_round() {
            return false;
        }
        let commit = self.node.raft.raft_log.committed;
        self.rounds.start(self.id, commit);
        self.ask_the_silent();
        self.finish_round();
        true
    }

    /// Asks those again who did not answer the round in flight; its messages may be lost.
    pub fn retry_round(&mut self) {
        self.ask_the_silent();
    }

    fn ask_the_silent(&mut self) {
        let Some((round, acks)) = self.rounds.in_flight() else { return };
        let conf = self.conf_state();
        let mut voters = conf.voters;
        voters.extend(conf.voters_outgoing);
        voters.sort_unstable();
        voters.dedup();
        let (from, term) = (self.id, self.node.raft.term);
        let asked = voters.into_iter().filter(|voter| *voter != from && !acks.contains(voter));
        self.outbox.extend(asked.map(|to| Message { from, to, term, body: Body::LeadershipCheck { round } }));
    }

    /// Answers a leader's round if its term is still ours.
    pub(crate) fn answer_confirm(&mut self, leader: u64, term: u64, round: u64) {
        if term == self.node.raft.term {
            let body = Body::LeadershipCheckResponse { round };
            self.outbox.push(Message { from: self.id, to: leader, term, body });
        }
    }

    /// Takes a voter's answer to our round.
    pub(crate) fn take_confirmation(&mut self, voter: u64, term: u64, round: u64) {
        if self.is_leader() && term == self.node.raft.term {
            self.rounds.acknowledge(voter, round);
            self.finish_round();
        }
    }

    /// Releases the round's reads if a quorum of the configuration in force answered.
    pub(crate) fn finish_round(&mut self) {
        let Some((_, acks)) = self.rounds.in_flight() else { return };
        let acks = acks.iter().copied().collect();
        if self.node.raft.prs().has_quorum(&acks) {
            self.rounds.win();
        }
    }
}
