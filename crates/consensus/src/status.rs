//! What the node knows of itself and, as a leader, of its peers.

use raft::{ProgressState, StateRole};

use crate::{ConfState, Consensus, convert};

/// What a node is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Follows a leader, or waits for one; learners always do.
    #[default]
    Follower,
    /// Asks whether it would be elected.
    PreCandidate,
    /// Asks to be elected.
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

/// How a leader sends to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// It looks for where the logs agree, one append at a time.
    Probe,
    /// It streams.
    Replicate,
    /// It waits for a snapshot to arrive.
    Snapshot,
}

/// A leader's view of one peer (or of itself).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStatus {
    /// The peer.
    pub id: u64,
    /// The last index known to be on its disk.
    pub matched: u64,
    /// The next index to send.
    pub next: u64,
    /// How the leader sends.
    pub state: PeerState,
    /// Whether it was heard of since the last quorum check.
    pub recent_active: bool,
}

/// The state of a node at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// This member.
    pub id: u64,
    /// Its term.
    pub term: u64,
    /// Whom it voted for in the term; 0 for nobody.
    pub vote: u64,
    /// Its role.
    pub role: Role,
    /// The leader it knows; 0 for none.
    pub leader: u64,
    /// To whom it hands leadership over, if it does.
    pub transferee: Option<u64>,
    /// The first index in the log.
    pub first_index: u64,
    /// The last index in the log, written or not.
    pub last_index: u64,
    /// The last index on its disk.
    pub persisted: u64,
    /// The last index known committed.
    pub commit: u64,
    /// The last index applied.
    pub applied: u64,
    /// The configuration in force.
    pub conf_state: ConfState,
    /// For a leader, all members by id; else empty.
    pub peers: Vec<PeerStatus>,
}

impl Consensus {
    /// The state of this node.
    pub fn status(&self) -> Status {
        let raft = &self.node.raft;
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
            conf_state: self.conf_state(),
            peers: if self.is_leader() { self.peers() } else { Vec::new() },
        }
    }

    /// The configuration in force.
    pub fn conf_state(&self) -> ConfState {
        convert::conf_state_from_raft(&self.node.raft.prs().conf().to_conf_state())
    }

    /// The members a leader tracks, by id: the library's own map has an order of its own.
    pub(crate) fn peers(&self) -> Vec<PeerStatus> {
        let mut peers: Vec<_> = self
            .node
            .raft
            .prs()
            .iter()
            .map(|(&id, progress)| PeerStatus {
                id,
                matched: progress.matched,
                next: progress.next_idx,
                state: match progress.state {
                    ProgressState::Probe => PeerState::Probe,
                    ProgressState::Replicate => PeerState::Replicate,
                    ProgressState::Snapshot => PeerState::Snapshot,
                },
                recent_active: progress.recent_active,
            })
            .collect();
        peers.sort_unstable_by_key(|peer| peer.id);
        peers
    }
}
