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
    assert_eq!(rounds.take_outcome(), (vec![ReadReady { token: 10, index: 1 }], vec![]));
    assert_eq!(checks(&rounds.start(&node, 11)), [(2, 2), (3, 2)]);
    rounds.take_response(&node, 2, 1, 1);
    assert!(!rounds.has_outcome(), "a late response of round 1");
    rounds.take_response(&node, 2, 1, 2);
    assert_eq!(rounds.take_outcome(), (vec![ReadReady { token: 11, index: 1 }], vec![]));
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
