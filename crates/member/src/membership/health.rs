//! What `--strict-reconfig-check` refuses: changes after which too few voters would run, as far as the leader sees.
//!
//! The rules are those of etcd 3.7 (`mayAddMember`, `mayRemoveMember`, `mayPromoteMember`), checked on the leader
//! instead of on the member that was asked: its connections are those that a quorum needs. (Up to 3.6 etcd adds no
//! member unless all voters are connected; 3.7 counts the new one as down, and wants a quorum of the voters after the
//! change.) A peer counts as healthy once it has been connected for an election timeout; etcd waits five seconds.
//!
//! ```text
//! three voters, one of them down; quorum 2                connected to the leader: 1 of 2
//! add a voter      four voters need three, two run        unhealthy cluster
//! remove the dead  two voters are left, both run          allowed
//! remove a live    two are left, one of them runs         unhealthy cluster
//! ```

use std::collections::BTreeMap;

use api::Error;
use consensus::PeerStatus;
use store::ClusterMember;

use super::request::MembershipRequest;

/// A learner that has this part of the leader's log, in percent, may be promoted; etcd's number.
const READY_PERCENT: u64 = 90;

/// What the leader sees.
pub(crate) struct ClusterHealth<'a> {
    /// The leader.
    pub(crate) own_id: u64,
    /// All members.
    pub(crate) members: &'a [ClusterMember],
    /// Since when peers are connected, in nanoseconds; those that are not are missing.
    pub(crate) up_since_ns: &'a BTreeMap<u64, u64>,
    /// Peers connected since then or before count as healthy.
    pub(crate) healthy_since_ns: u64,
}

impl ClusterHealth<'_> {
    /// Whether a request keeps the quorum.
    ///
    /// # Errors
    /// [`Error::NotEnoughStartedMembers`], [`Error::Unhealthy`]
    pub(crate) fn check(&self, request: &MembershipRequest) -> Result<(), Error> {
        match *request {
            MembershipRequest::Add { learner, .. } => self.check_add(learner),
            MembershipRequest::Remove { id } => self.check_remove(id),
            MembershipRequest::Promote { .. } => enough_started(self.started() + 1, self.voters() + 1),
            MembershipRequest::Update { .. } => Ok(()),
        }
    }

    fn check_add(&self, learner: bool) -> Result<(), Error> {
        let voters = self.voters();
        let is_lone = self.started() == 1 && voters == 1;
        if !learner && !is_lone {
            enough_started(self.started(), voters + 1)?;
        }
        let is_safe = voters == 1 || self.healthy() >= quorum(voters + 1);
        if is_safe { Ok(()) } else { Err(Error::Unhealthy) }
    }

    fn check_remove(&self, id: u64) -> Result<(), Error> {
        if self.members.iter().any(|member| member.id == id && member.learner) {
            return Ok(());
        }
        let others = || self.voting().filter(|member| member.id != id);
        enough_started(others().filter(|member| is_started(member)).count(), others().count())?;
        // One that is down is not part of the quorum that runs.
        if id != self.own_id && !self.up_since_ns.contains_key(&id) {
            return Ok(());
        }
        let is_safe = self.healthy().saturating_sub(1) >= quorum(self.voters() - 1);
        if is_safe { Ok(()) } else { Err(Error::Unhealthy) }
    }

    fn voting(&self) -> impl Iterator<Item = &ClusterMember> {
        self.members.iter().filter(|member| !member.learner)
    }

    fn voters(&self) -> usize {
        self.voting().count()
    }

    fn started(&self) -> usize {
        self.voting().filter(|member| is_started(member)).count()
    }

    /// Voters that run, this member among them.
    fn healthy(&self) -> usize {
        let is_up = |id| self.up_since_ns.get(&id).is_some_and(|since_ns| *since_ns <= self.healthy_since_ns);
        self.voting().filter(|member| member.id == self.own_id || is_up(member.id)).count()
    }
}

/// A member that has started has published its name.
fn is_started(member: &ClusterMember) -> bool {
    !member.name.is_empty()
}

fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

fn enough_started(started: usize, voters: usize) -> Result<(), Error> {
    if started < quorum(voters) { Err(Error::NotEnoughStartedMembers) } else { Ok(()) }
}

/// Whether a member has enough of the leader's log to be promoted.
///
/// # Errors
/// [`Error::MemberNotFound`], [`Error::LearnerNotReady`]
pub(crate) fn check_caught_up(id: u64, own_id: u64, peers: &[PeerStatus]) -> Result<(), Error> {
    let matched = |id| peers.iter().find(|peer| peer.id == id).map(|peer| peer.matched);
    let (learner, leader) = (matched(id).ok_or(Error::MemberNotFound)?, matched(own_id).unwrap_or(0));
    let is_ready = u128::from(learner) * 100 >= u128::from(leader) * u128::from(READY_PERCENT);
    if is_ready { Ok(()) } else { Err(Error::LearnerNotReady) }
}
