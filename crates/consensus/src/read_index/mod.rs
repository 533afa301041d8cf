//! ReadIndex rounds: how a leader proves, before it answers a linearizable read, that it still was the leader after the
//! read arrived.
//!
//! A round notes the commit index and sends a *leadership check* with its number to every voter. A voter responds if
//! the leader's term is still its own. The round is won when a quorum has responded (two quorums, in a joint
//! configuration). Its reads may be served once the noted index is applied.
//!
//! ```text
//! member 1 leads term 4, commit index 90             2                     3
//! read A arrives; no round in flight
//! round 1 = {A}, index 90      check(1) ------------>  --------------------->
//! read B, read C arrive; they wait for the next round
//!                              <------- response(1)
//! quorum {1, 2}: A may be served at index 90
//! round 2 = {B, C}, index 95   check(2) ------------>  --------------------->
//! ```
//!
//! *Why it is sound.* A leader of a later term was elected by a quorum that shares a voter with the quorum that
//! responded. That voter had not left term 4 when it responded. So when the round began, nothing was committed beyond
//! what this leader knew. A read waits for the first round that begins *after* it arrived, which is why B does not join
//! round 1.
//!
//! - One round is in flight at a time, so a thousand reads cost as much as one. The owner decides when to start a round
//!   and when to repeat the checks of voters that have not responded (messages may be lost).
//! - A process never uses a round number twice, and after a restart it can lead only in a later term. So a late
//!   response is never taken for one of another round.
//! - A round needs a leader that has committed in its own term: before, its commit index may be behind.
//! - A lost leadership drops the round in flight.
//! - The owner has the queue of waiting reads. When it starts a round, it gathers all that wait under one number of
//!   its own.
//!
//! The raft library's own ReadIndex is not used: it drops equal contexts, loses requests, and its heartbeat responses
//! free flow control (etcd#20418).

use std::collections::BTreeSet;

use raft::{RawNode, StateRole};

use crate::log_view::LogView;
use crate::membership::conf_state_from_raft;
use crate::message::{Body, Message};

/// A round that was won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundWon {
    /// The owner's number of it, from [`crate::Consensus::start_round`].
    pub owner_round: u64,
    /// Serve its reads when this index is applied.
    pub index: u64,
}

/// The round in flight.
struct Round {
    number: u64,
    /// The commit index when the round began.
    index: u64,
    /// Voters that responded, and this leader.
    responded: BTreeSet<u64>,
    /// The number under which the owner keeps the reads of the round.
    owner_round: u64,
}

/// The round in flight, and the rounds whose outcome is known. The reads that wait for a round wait at the owner.
#[derive(Default)]
pub(crate) struct ReadIndexRounds {
    last_number: u64,
    in_flight: Option<Round>,
    won: Vec<RoundWon>,
    dropped: Vec<u64>,
}

impl ReadIndexRounds {
    /// Whether no round is in flight, and `node` leads and has committed in its term.
    pub(crate) fn can_start(&self, node: &RawNode<LogView>) -> bool {
        self.in_flight.is_none() && node.raft.state == StateRole::Leader && node.raft.commit_to_current_term()
    }

    /// Starts a round. Returns the leadership checks to send.
    pub(crate) fn start(&mut self, node: &RawNode<LogView>, owner_round: u64) -> Vec<Message> {
        assert!(self.can_start(node), "one round in flight, and only on an established leader");
        self.last_number += 1;
        self.in_flight = Some(Round {
            number: self.last_number,
            index: node.raft.raft_log.committed,
            responded: BTreeSet::from([node.raft.id]),
            owner_round,
        });
        let checks = self.missing_checks(node);
        self.finish_if_won(node);
        checks
    }

    /// The leadership checks of the round in flight for the voters that have not responded.
    pub(crate) fn missing_checks(&self, node: &RawNode<LogView>) -> Vec<Message> {
        let Some(round) = &self.in_flight else { return Vec::new() };
        let conf = conf_state_from_raft(&node.raft.prs().conf().to_conf_state());
        let voters: BTreeSet<u64> = conf.voters.into_iter().chain(conf.voters_outgoing).collect();
        let body = Body::LeadershipCheck { round: round.number };
        let check = |to| Message { from: node.raft.id, to, term: node.raft.term, body: body.clone() };
        voters.difference(&round.responded).copied().map(check).collect()
    }

    /// A follower's part: the response to the leadership check of `leader`, unless the term has changed since.
    pub(crate) fn respond(node: &RawNode<LogView>, leader: u64, term: u64, round: u64) -> Option<Message> {
        let body = Body::LeadershipCheckResponse { round };
        (term == node.raft.term).then_some(Message { from: node.raft.id, to: leader, term, body })
    }

    /// A voter responded to a leadership check of `round` in `term`.
    pub(crate) fn take_response(&mut self, node: &RawNode<LogView>, voter: u64, term: u64, round: u64) {
        let is_ours = node.raft.state == StateRole::Leader && term == node.raft.term;
        let in_flight = self.in_flight.as_mut().filter(|in_flight| is_ours && in_flight.number == round);
        if let Some(in_flight) = in_flight {
            in_flight.responded.insert(voter);
            self.finish_if_won(node);
        }
    }

    /// Ends the round in flight if a quorum of the configuration in force has responded: it is won.
    pub(crate) fn finish_if_won(&mut self, node: &RawNode<LogView>) {
        let has_quorum = |round: &mut Round| {
            let responded = round.responded.iter().copied().collect();
            node.raft.prs().has_quorum(&responded)
        };
        if let Some(round) = self.in_flight.take_if(has_quorum) {
            self.won.push(RoundWon { owner_round: round.owner_round, index: round.index });
        }
    }

    /// Drops the round in flight: the leadership is lost.
    pub(crate) fn drop_round(&mut self) {
        self.dropped.extend(self.in_flight.take().map(|round| round.owner_round));
    }

    pub(crate) fn has_outcome(&self) -> bool {
        !self.won.is_empty() || !self.dropped.is_empty()
    }

    /// Takes the rounds that were won, and the owner's numbers of those that were dropped.
    pub(crate) fn take_outcome(&mut self) -> (Vec<RoundWon>, Vec<u64>) {
        (std::mem::take(&mut self.won), std::mem::take(&mut self.dropped))
    }

    /// Asserts that only a leader has a round in flight, and that it is its newest.
    pub(crate) fn check(&self, node: &RawNode<LogView>) {
        let is_leader = node.raft.state == StateRole::Leader;
        if let Some(round) = &self.in_flight {
            assert!(is_leader, "only a leader has a round in flight");
            assert!(round.number == self.last_number, "the round in flight is the newest");
            assert!(round.index <= node.raft.raft_log.committed, "a read index is committed");
        }
    }
}

#[cfg(test)]
mod tests {
    //! ReadIndex rounds of a leader: which reads a round serves, and what ends it.

    use raft::{RaftState, RawNode};
    use slog::o;

    use super::*;
    use crate::log_view::Terms;
    use crate::membership::{ConfState, conf_state_to_raft};

    /// Member 1 of voters 1, 2 and 3, as the leader of term 1, which has committed in its term.
    fn leader() -> RawNode<LogView> {
        let conf = conf_state_to_raft(&ConfState::of_voters([1, 2, 3]));
        let initial = RaftState::new(raft::eraftpb::HardState::default(), conf);
        let view = LogView::new(initial, Terms::starting_after((0, 0)), Vec::new(), 0);
        let logger = slog::Logger::root(slog::Discard, o!());
        let mut node = RawNode::new(&raft::Config::new(1), view, &logger).unwrap();
        node.raft.become_candidate();
        node.raft.become_leader();
        node.raft.raft_log.committed = node.raft.raft_log.last_index();
        node
    }

    /// The receivers and the round of leadership checks.
    fn checks(messages: &[Message]) -> Vec<(u64, u64)> {
        let check = |message: &Message| match message.body {
            Body::LeadershipCheck { round } => (message.to, round),
            _ => panic!("{message:?} is no leadership check"),
        };
        messages.iter().map(check).collect()
    }

    #[test]
    fn a_late_response_wins_no_later_round() {
        let node = leader();
        let mut rounds = ReadIndexRounds::default();
        assert_eq!(checks(&rounds.start(&node, 10)), [(2, 1), (3, 1)]);
        assert!(!rounds.can_start(&node), "one round is in flight at a time");
        rounds.take_response(&node, 3, 1, 1);
        assert_eq!(rounds.take_outcome(), (vec![RoundWon { owner_round: 10, index: 1 }], vec![]));
        assert_eq!(checks(&rounds.start(&node, 11)), [(2, 2), (3, 2)]);
        rounds.take_response(&node, 2, 1, 1);
        assert!(!rounds.has_outcome(), "a late response of round 1");
        rounds.take_response(&node, 2, 1, 2);
        assert_eq!(rounds.take_outcome(), (vec![RoundWon { owner_round: 11, index: 1 }], vec![]));
        rounds.check(&node);
    }

    #[test]
    fn checks_are_repeated_for_the_voters_that_have_not_responded() {
        let mut node = leader();
        let add = |id| raft::eraftpb::ConfChangeSingle { node_id: id, ..Default::default() };
        for id in [4, 5] {
            let change = raft::eraftpb::ConfChangeV2 { changes: vec![add(id)].into(), ..Default::default() };
            node.apply_conf_change(&change).unwrap();
        }
        let mut rounds = ReadIndexRounds::default();
        assert_eq!(checks(&rounds.start(&node, 10)), [(2, 1), (3, 1), (4, 1), (5, 1)]);
        rounds.take_response(&node, 4, 1, 1);
        assert_eq!(checks(&rounds.missing_checks(&node)), [(2, 1), (3, 1), (5, 1)]);
    }

    #[test]
    fn a_lost_leadership_drops_the_round_in_flight() {
        let mut node = leader();
        let mut rounds = ReadIndexRounds::default();
        rounds.start(&node, 10);
        node.raft.become_follower(2, 0);
        rounds.take_response(&node, 2, 1, 1);
        rounds.drop_round();
        rounds.check(&node);
        assert_eq!(rounds.take_outcome(), (vec![], vec![10]));
    }

    #[test]
    fn a_follower_responds_in_its_own_term_only() {
        let mut node = leader();
        node.raft.become_follower(2, 3);
        assert!(ReadIndexRounds::respond(&node, 3, 1, 7).is_none());
        let response = ReadIndexRounds::respond(&node, 3, 2, 7).unwrap();
        assert_eq!((response.to, response.body), (3, Body::LeadershipCheckResponse { round: 7 }));
    }
}
