//! Which requests about members have an effect: a function of applied state, so every member decides alike.
//!
//! The order of the checks is etcd's (`membership.ValidateConfigurationChange`), and so is the error that comes first.
//! One rule is stricter: the last voter is never removed. etcd leaves that to `--strict-reconfig-check`, and without it
//! the process aborts.

use api::Error;
use consensus::{Change, ConfState};
use store::{ClusterMember, MemberChange};

use super::request::MembershipRequest;

/// What the rules look at.
#[derive(Clone, Debug)]
pub(crate) struct MembersNow<'a> {
    /// The members in the store.
    pub(crate) members: &'a [ClusterMember],
    /// The configuration in force.
    pub(crate) conf: &'a ConfState,
    /// Most learners at a time.
    pub(crate) max_learners: u16,
}

/// Whether a request has an effect. `was_removed` tells of its member's id.
///
/// # Errors
/// Why it has none; for the client.
pub(crate) fn check(
    request: &MembershipRequest,
    now: &MembersNow<'_>,
    was_removed: bool,
) -> Result<(), Error> {
    // An id is never used again; etcd answers that there is no such member, also when one is to be added.
    if was_removed {
        return Err(Error::MemberNotFound);
    }
    let found = now.members.iter().find(|member| member.id == request.id());
    match (request, found) {
        (MembershipRequest::Add { .. }, Some(_)) => Err(Error::MemberExists),
        (MembershipRequest::Add { peer_urls, learner, .. }, None) => {
            check_urls(request.id(), peer_urls, now.members)?;
            let learners = now.members.iter().filter(|member| member.learner).count();
            let is_too_many = *learner && learners >= usize::from(now.max_learners);
            if is_too_many { Err(Error::TooManyLearners) } else { Ok(()) }
        }
        (_, None) => Err(Error::MemberNotFound),
        (MembershipRequest::Remove { id }, Some(_)) => {
            let is_last = now.conf.voters == [*id];
            if is_last { Err(Error::NotEnoughStartedMembers) } else { Ok(()) }
        }
        (MembershipRequest::Update { peer_urls, .. }, Some(_)) => {
            check_urls(request.id(), peer_urls, now.members)
        }
        (MembershipRequest::Promote { .. }, Some(member)) => {
            if member.learner {
                Ok(())
            } else {
                Err(Error::MemberNotLearner)
            }
        }
    }
}

fn check_urls(id: u64, peer_urls: &[String], members: &[ClusterMember]) -> Result<(), Error> {
    let mut taken = members.iter().filter(|member| member.id != id).flat_map(|member| &member.peer_urls);
    if taken.any(|url| peer_urls.contains(url)) { Err(Error::PeerUrlExists) } else { Ok(()) }
}

/// The change of the configuration that a request stands for. New URLs change nothing there: the change names the
/// member in its present role.
pub(crate) fn conf_change_of(request: &MembershipRequest, conf: &ConfState) -> Change {
    match *request {
        MembershipRequest::Add { id, learner: true, .. } => Change::AddLearner(id),
        MembershipRequest::Add { id, .. } | MembershipRequest::Promote { id } => Change::AddVoter(id),
        MembershipRequest::Remove { id } => Change::Remove(id),
        MembershipRequest::Update { id, .. } if conf.learners.contains(&id) => Change::AddLearner(id),
        MembershipRequest::Update { id, .. } => Change::AddVoter(id),
    }
}

/// The change of the members that a request stands for.
pub(crate) fn member_change_of(request: MembershipRequest) -> MemberChange {
    match request {
        MembershipRequest::Add { id, peer_urls, learner } => {
            MemberChange::Add(ClusterMember { id, peer_urls, learner, ..ClusterMember::default() })
        }
        MembershipRequest::Remove { id } => MemberChange::Remove { id },
        MembershipRequest::Update { id, peer_urls } => MemberChange::UpdatePeerUrls { id, peer_urls },
        MembershipRequest::Promote { id } => MemberChange::Promote { id },
    }
}
