//! Who leads, and what exists only while this member leads or follows.
//!
//! [`TermState`] is replaced whenever term, leader or role changes. What belongs to a role is part of [`RoleState`]: it
//! is created and dropped with the role, so that nothing of a former leadership can be used in a later one.

pub(crate) mod failover_election;
pub(crate) mod startup_election;

use crate::lease::{LeaderLeases, LeaseForwarding};
use crate::proposals::ProposedBatches;

/// What this member knows of the current term.
#[derive(Debug)]
pub(crate) struct TermState {
    pub(crate) term: u64,
    /// The leader's id, 0 for none.
    pub(crate) leader: u64,
    /// When term, leader or role last changed, on the monotonic clock.
    pub(crate) since_ns: u64,
    pub(crate) role: RoleState,
}

/// The state of a role.
#[derive(Debug)]
pub(crate) enum RoleState {
    /// This member leads.
    Leader(LeaderState),
    /// It does not: it follows, is a candidate, or knows no leader.
    Follower(FollowerState),
}

/// What only a leader has.
#[derive(Debug, Default)]
pub(crate) struct LeaderState {
    pub(crate) batches: ProposedBatches,
    /// `None` until an entry of the leader's own term is applied: before that it says nothing about leases.
    pub(crate) leases: Option<LeaderLeases>,
    /// How often it wanted to hand over because it stays behind, and when it may do so next, on the monotonic clock.
    pub(crate) hand_overs: u64,
    pub(crate) next_hand_over_ns: u64,
}

/// What only a follower has.
#[derive(Debug, Default)]
pub(crate) struct FollowerState {
    pub(crate) lease_questions: LeaseForwarding,
}

/// A leadership transfer. It outlives the leadership: its caller is answered by the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// The token of the caller who asked for it; `None` if this member itself wants it.
    pub(crate) token: Option<u64>,
    /// When it is given up, on the monotonic clock.
    pub(crate) until_ns: u64,
}

impl LeaderState {
    /// Whether this leader may answer for leases and begin ReadIndex rounds: an entry of its own term is applied, and
    /// with it every command of earlier terms.
    pub(crate) fn is_established(&self) -> bool {
        self.leases.is_some()
    }
}

impl TermState {
    /// A member that has just started, in a term without a known leader.
    pub(crate) fn at_start(term: u64) -> TermState {
        let role = RoleState::Follower(FollowerState::default());
        TermState { term, leader: 0, since_ns: 0, role }
    }

    pub(crate) fn leads(&self) -> bool {
        matches!(self.role, RoleState::Leader(_))
    }

    pub(crate) fn as_leader(&self) -> Option<&LeaderState> {
        if let RoleState::Leader(leader) = &self.role { Some(leader) } else { None }
    }

    pub(crate) fn as_leader_mut(&mut self) -> Option<&mut LeaderState> {
        if let RoleState::Leader(leader) = &mut self.role { Some(leader) } else { None }
    }

    pub(crate) fn as_follower(&self) -> Option<&FollowerState> {
        if let RoleState::Follower(follower) = &self.role { Some(follower) } else { None }
    }

    pub(crate) fn as_follower_mut(&mut self) -> Option<&mut FollowerState> {
        if let RoleState::Follower(follower) = &mut self.role { Some(follower) } else { None }
    }

    /// The leases, once this leader may speak for them.
    pub(crate) fn leases_mut(&mut self) -> Option<&mut LeaderLeases> {
        self.as_leader_mut()?.leases.as_mut()
    }

    /// Whether this member leads and is established, see [`LeaderState::is_established`].
    pub(crate) fn is_established(&self) -> bool {
        self.as_leader().is_some_and(LeaderState::is_established)
    }
}
