//! Role, leader and progress of a node, as data.

use raft::{RawNode, StateRole};

use crate::log_view::LogView;
use crate::membership::{ConfState, conf_state_from_raft};
use crate::replication::{PeerStatus, peers};

/// The part a node has in its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Follows a leader, or waits for one; learners always do.
    #[default]
    Follower,
    /// Asks for pre-votes.
    PreCandidate,
    /// Asks for votes.
    Candidate,
    /// Leads its term.
    Leader,
}

impl From<StateRole> for Role {
    fn from(role: StateRole) -> Role {
        match role {
            StateRole::Follower => Role::Follower,
            StateRole::PreCandidate => Role::PreCandidate,
            StateRole::Candidate => Role::Candidate,
            StateRole::Leader => Role::Leader,
        }
    }
}

/// Who leads, as far as this node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leadership {
    /// This node's role.
    pub role: Role,
    /// The leader, 0 if none is known.
    pub leader: u64,
    /// The term.
    pub term: u64,
}

impl Leadership {
    pub(crate) fn of(node: &RawNode<LogView>) -> Leadership {
        let raft = &node.raft;
        Leadership { role: raft.state.into(), leader: raft.leader_id, term: raft.term }
    }
}

/// The state of a node at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// This member.
    pub id: u64,
    /// Its term.
    pub term: u64,
    /// The candidate it voted for in the term; 0 for none.
    pub vote: u64,
    /// Its role.
    pub role: Role,
    /// The leader it knows; 0 for none.
    pub leader: u64,
    /// The target of a leadership transfer under way.
    pub transferee: Option<u64>,
    /// The first index in the log.
    pub first_index: u64,
    /// The last index in the log, written or not.
    pub last_index: u64,
    /// The last index on its disk.
    pub persisted: u64,
    /// Its commit index.
    pub commit: u64,
    /// The last index applied.
    pub applied: u64,
    /// The configuration in force.
    pub conf_state: ConfState,
    /// For a leader, all members by id; else empty.
    pub peers: Vec<PeerStatus>,
}

impl Status {
    pub(crate) fn of(node: &RawNode<LogView>) -> Status {
        let raft = &node.raft;
        Status {
            id: raft.id,
            term: raft.term,
            vote: raft.vote,
            role: raft.state.into(),
            leader: raft.leader_id,
            transferee: raft.lead_transferee,
            first_index: raft.raft_log.first_index(),
            last_index: raft.raft_log.last_index(),
            persisted: raft.raft_log.persisted,
            commit: raft.raft_log.committed,
            applied: raft.raft_log.applied,
            conf_state: conf_state_from_raft(&raft.prs().conf().to_conf_state()),
            peers: if raft.state == StateRole::Leader { peers(node) } else { Vec::new() },
        }
    }
}
