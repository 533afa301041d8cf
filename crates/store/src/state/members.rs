//! Members of the cluster, the cluster version, the downgrade and the command set, as committed entries set them.

use std::collections::{BTreeMap, BTreeSet};

use api::Error;

/// A member of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterMember {
    /// Its id.
    pub id: u64,
    /// The name it published; empty until it has started.
    pub name: String,
    /// URLs for peers.
    pub peer_urls: Vec<String>,
    /// URLs for clients; empty until it published them.
    pub client_urls: Vec<String>,
    /// Whether it is a learner, without a vote.
    pub learner: bool,
    /// The random number of its data directory; 0 until it published one, and unchanged from then on.
    pub incarnation: u64,
}

/// The effect of a conf change on the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Adds a member.
    Add(ClusterMember),
    /// Removes a member. Its id is never used again.
    Remove {
        /// Its id.
        id: u64,
    },
    /// Replaces a member's peer URLs.
    UpdatePeerUrls {
        /// Its id.
        id: u64,
        /// The new URLs.
        peer_urls: Vec<String>,
    },
    /// Makes a learner a voter.
    Promote {
        /// Its id.
        id: u64,
    },
}

/// The oldest set of commands, that of a cluster that never recorded another one.
pub const FIRST_COMMAND_SET: u8 = 1;

/// The first set of commands with downgrades.
pub const DOWNGRADE_COMMAND_SET: u8 = 4;

/// Present members, ids of removed members, the cluster version, and the command set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) members: BTreeMap<u64, ClusterMember>,
    pub(crate) removed: BTreeSet<u64>,
    /// As in "3.7.0"; `None` until it is first set.
    pub(crate) cluster_version: Option<String>,
    /// The version to downgrade to, as in "3.6.0"; `None` while no downgrade is enabled.
    pub(crate) downgrade_target: Option<String>,
    /// The newest set of commands that every member can apply; it never falls.
    pub(crate) command_set: u8,
    /// The entry of the last conf change that had an effect; 0 while the members are those of the start.
    pub(crate) changed_at: u64,
    /// Drawn when a member was forced to go on alone; 0 in a cluster that was never forced.
    pub(crate) lineage: u64,
}

impl Default for Members {
    fn default() -> Members {
        Members {
            members: BTreeMap::new(),
            removed: BTreeSet::new(),
            cluster_version: None,
            downgrade_target: None,
            command_set: FIRST_COMMAND_SET,
            changed_at: 0,
            lineage: 0,
        }
    }
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

    /// Keeps only this member, as a voter, in a cluster of this lineage.
    pub(crate) fn force_alone(&mut self, id: u64, lineage: u64) -> Result<(), Error> {
        self.member(id)?.learner = false;
        let others: Vec<u64> = self.members.keys().copied().filter(|other| *other != id).collect();
        for other in others {
            self.members.remove(&other);
            self.removed.insert(other);
        }
        self.lineage = lineage;
        Ok(())
    }

    fn add(&mut self, member: ClusterMember) -> Result<(), Error> {
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

    fn member(&mut self, id: u64) -> Result<&mut ClusterMember, Error> {
        self.members.get_mut(&id).ok_or(Error::MemberNotFound)
    }

    /// Records the name and client URLs that a member published; returns whether it did. Ignored for an id that is not
    /// a member, and for another data directory than the first one published: a wiped member may have forgotten a
    /// vote.
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
