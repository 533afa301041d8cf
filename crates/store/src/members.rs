//! The members of the cluster and the version it speaks, as the log says.

use std::collections::{BTreeMap, BTreeSet};

use api::Error;

/// A member of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// The name it published; empty until it has started.
    pub name: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it, as it published.
    pub client_urls: Vec<String>,
    /// Whether it has no vote.
    pub learner: bool,
    /// The random number of its data directory, 0 until it published one; bound to the id from then on.
    pub incarnation: u64,
}

/// What a conf change does to the list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Add a member, or one that bootstraps.
    Add(Member),
    /// Take a member out, for good: its id is never used again.
    Remove {
        /// Its id.
        id: u64,
    },
    /// A member moved.
    UpdatePeerUrls {
        /// Its id.
        id: u64,
        /// Where it is now.
        peer_urls: Vec<String>,
    },
    /// A learner gets a vote.
    Promote {
        /// Its id.
        id: u64,
    },
}

/// The members, those that were, and the cluster version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) members: BTreeMap<u64, Member>,
    pub(crate) removed: BTreeSet<u64>,
    /// As in "3.7.0"; `None` until it was first set.
    pub(crate) cluster_version: Option<String>,
}

impl Members {
    /// Carries out a conf change.
    ///
    /// # Errors
    /// [`Error::MemberExists`] for an id that is or was in use, [`Error::MemberNotFound`],
    /// [`Error::MemberNotLearner`], [`Error::PeerUrlExists`]
    pub(crate) fn apply(&mut self, change: MemberChange) -> Result<(), Error> {
        match change {
            MemberChange::Add(member) => self.add(member),
            MemberChange::Remove { id } => {
                self.members.remove(&id).ok_or(Error::MemberNotFound)?;
                self.removed.insert(id);
                Ok(())
            }
            MemberChange::UpdatePeerUrls { id, peer_urls } => {
                self.check_urls(id, &peer_urls)?;
                self.member(id)?.peer_urls = peer_urls;
                Ok(())
            }
            MemberChange::Promote { id } => {
                let member = self.member(id)?;
                if !member.learner {
                    return Err(Error::MemberNotLearner);
                }
                member.learner = false;
                Ok(())
            }
        }
    }

    fn add(&mut self, member: Member) -> Result<(), Error> {
        if self.members.contains_key(&member.id) || self.removed.contains(&member.id) {
            return Err(Error::MemberExists);
        }
        self.check_urls(member.id, &member.peer_urls)?;
        self.members.insert(member.id, member);
        Ok(())
    }

    fn check_urls(&self, id: u64, peer_urls: &[String]) -> Result<(), Error> {
        let others = self.members.values().filter(|member| member.id != id);
        let taken = others.flat_map(|member| &member.peer_urls).any(|url| peer_urls.contains(url));
        if taken { Err(Error::PeerUrlExists) } else { Ok(()) }
    }

    fn member(&mut self, id: u64) -> Result<&mut Member, Error> {
        self.members.get_mut(&id).ok_or(Error::MemberNotFound)
    }

    /// Sets what a member published about itself. Ignored when it is not (any more) a member, or speaks from
    /// another data directory than the first one: a wiped member may have forgotten a vote.
    pub(crate) fn publish(&mut self, id: u64, incarnation: u64, name: &str, client_urls: &[String]) -> bool {
        let Some(member) = self.members.get_mut(&id) else { return false };
        if member.incarnation != 0 && member.incarnation != incarnation {
            return false;
        }
        member.incarnation = incarnation;
        member.name = name.to_owned();
        member.client_urls = client_urls.to_vec();
        true
    }
}
