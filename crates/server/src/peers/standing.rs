//! How this member stands with its peers: which are connected, and which refuse it for good.
//!
//! A peer counts as connected while both streams to it are up. Each stream reports its connections by number, and a
//! report about an older connection than the one that is up changes nothing:
//!
//! ```text
//! control 5 up   bulk 6 up: connected   control 7 up   control 5 down: late, still connected   bulk 6 down: not
//! ```
//!
//! *Refusals for good* say that this member was removed, or that the cluster knows another data directory of its id.
//! They end the process, so in a cluster of three or more the word of one peer is not enough: at an `http` URL anyone
//! on the network may answer, and a host whose certificate was checked may be taken over. See [`ClusterVerdict`]:
//!
//! - A peer counts as refusing when it refused [`MIN_REFUSALS`] times in a row.
//! - As long as this member, and the peers that accept it, are a quorum of the voters, it is a member whatever others
//!   say.
//! - Otherwise it is refused when a quorum of the voters refuses it, or all others if there are fewer.
//! - Between the two its place is disputed. That may last: of the voters that a removed member knows, most may be gone.
//!   It does not know what was written since, so it serves nothing until that is over.
//!
//! ```text
//! voters 1 to 5, this is 5
//! 1 and 2 refuse, 3 and 4 accept  accepted
//! 1 and 2 refuse, 3 accepts       disputed
//! 1 refuses, the others are down  disputed
//! 1, 2 and 3 refuse               refused: the process ends
//! ```

use std::collections::{BTreeMap, BTreeSet};

use transport::StreamClass;

/// Handshakes that a peer must refuse in a row. One may be answered by a process that is about to be replaced.
const MIN_REFUSALS: u32 = 3;

/// One stream's newest connection.
#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    connection: u64,
    is_up: bool,
}

#[derive(Debug, Default)]
struct Standing {
    control: StreamState,
    bulk: StreamState,
    /// It is known that nothing listens at its addresses, since its streams broke.
    is_gone: bool,
    /// Refusals for good since this peer last accepted a stream or refused for another reason.
    refusals: u32,
}

/// Whether this member belongs to the cluster, as far as its peers say; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterVerdict {
    /// Most accept it, or none refuses it for good.
    Accepted,
    /// Some refuse it for good, and too few accept it to do anything.
    Disputed,
    /// A quorum refuses it for good.
    Refused,
}

/// The standing with all peers; see the module.
#[derive(Debug, Default)]
pub(super) struct PeerStandings {
    peers: BTreeMap<u64, Standing>,
    own_id: u64,
    /// Voters as this member knows them, itself among them if it is one. Of one that joins, the members that it was
    /// told.
    voters: BTreeSet<u64>,
}

impl Standing {
    fn is_connected(&self) -> bool {
        self.control.is_up && self.bulk.is_up
    }

    fn accepts(&self) -> bool {
        self.control.is_up || self.bulk.is_up
    }

    fn stream(&mut self, class: StreamClass) -> &mut StreamState {
        match class {
            StreamClass::Control => &mut self.control,
            StreamClass::Bulk => &mut self.bulk,
        }
    }
}

impl PeerStandings {
    /// A connection of a stream is established. Returns whether the peer is connected by that.
    pub(super) fn up(&mut self, peer: u64, class: StreamClass, connection: u64) -> bool {
        let standing = self.peers.entry(peer).or_default();
        let before = standing.is_connected();
        (standing.refusals, standing.is_gone) = (0, false);
        let stream = standing.stream(class);
        if connection > stream.connection {
            *stream = StreamState { connection, is_up: true };
        }
        !before && standing.is_connected()
    }

    /// A connection of a stream is lost. Returns whether the peer was connected and is not any more.
    pub(super) fn down(&mut self, peer: u64, class: StreamClass, connection: u64) -> bool {
        let standing = self.peers.entry(peer).or_default();
        let before = standing.is_connected();
        let stream = standing.stream(class);
        stream.is_up &= stream.connection != connection;
        before && !standing.is_connected()
    }

    /// Nothing listens at the addresses of a peer. Returns whether that is news, and no stream to it is up.
    pub(super) fn not_listening(&mut self, peer: u64) -> bool {
        let standing = self.peers.entry(peer).or_default();
        !standing.accepts() && !std::mem::replace(&mut standing.is_gone, true)
    }

    /// A peer is no member any more: it says nothing about this member.
    pub(super) fn forget(&mut self, peer: u64) {
        self.peers.remove(&peer);
    }

    /// The voters are these, as the state of this member has them.
    pub(super) fn follow_voters(&mut self, own_id: u64, voters: BTreeSet<u64>) {
        (self.own_id, self.voters) = (own_id, voters);
    }

    /// A peer refused this member, `for_good` or until something changes.
    pub(super) fn refused(&mut self, peer: u64, for_good: bool) {
        let standing = self.peers.entry(peer).or_default();
        standing.refusals = if for_good { standing.refusals.saturating_add(1) } else { 0 };
    }

    /// What all peers together say now.
    pub(super) fn verdict(&self) -> ClusterVerdict {
        let others = self.voters.iter().filter(|id| **id != self.own_id).count();
        let count = |counts: fn(&Standing) -> bool| {
            let of = |id: &&u64| **id != self.own_id && self.peers.get(id).is_some_and(counts);
            self.voters.iter().filter(of).count()
        };
        let quorum = self.voters.len() / 2 + 1;
        let accepting = count(Standing::accepts);
        if accepting + usize::from(self.voters.contains(&self.own_id)) >= quorum {
            return ClusterVerdict::Accepted;
        }
        match count(|standing| standing.refusals >= MIN_REFUSALS) {
            0 => ClusterVerdict::Accepted,
            refusing if refusing >= quorum.min(others) => ClusterVerdict::Refused,
            _ => ClusterVerdict::Disputed,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Reports in the wrong order, and refusals of some and of most peers.
    use super::*;
    use StreamClass::{Bulk, Control};

    #[test]
    fn a_late_report_of_an_old_connection_changes_nothing() {
        let mut peers = PeerStandings::default();
        assert!(!peers.up(2, Control, 1));
        assert!(peers.up(2, Bulk, 2));
        // The peer was removed and set again: its new streams are up before the old ones report their end.
        assert!(!peers.up(2, Control, 3) && !peers.up(2, Bulk, 4));
        assert!(!peers.down(2, Control, 1) && !peers.down(2, Bulk, 2));
        assert!(peers.down(2, Bulk, 4), "it was connected until now");
        assert!(!peers.up(2, Bulk, 2), "nor does an old connection come back");
        assert!(peers.up(2, Bulk, 5));
    }

    #[test]
    fn a_peer_is_gone_when_both_streams_are_down_and_nothing_listens() {
        let mut peers = PeerStandings::default();
        peers.up(2, Control, 1);
        peers.up(2, Bulk, 2);
        peers.down(2, Control, 1);
        assert!(!peers.not_listening(2), "one stream is still up");
        peers.down(2, Bulk, 2);
        assert!(peers.not_listening(2));
        assert!(!peers.not_listening(2), "it is known");
        peers.up(2, Control, 3);
        peers.down(2, Control, 3);
        assert!(peers.not_listening(2), "it was back meanwhile");
    }

    /// Standings of member 5 in a cluster of these voters.
    fn standings(voters: impl IntoIterator<Item = u64>) -> PeerStandings {
        let mut peers = PeerStandings::default();
        peers.follow_voters(5, voters.into_iter().collect());
        peers
    }

    /// A peer refuses as often as it must; what follows.
    fn refuses(peers: &mut PeerStandings, peer: u64) -> ClusterVerdict {
        let before = peers.verdict();
        for _ in 1..MIN_REFUSALS {
            peers.refused(peer, true);
            assert_eq!(peers.verdict(), before, "too few times");
        }
        peers.refused(peer, true);
        peers.verdict()
    }

    #[test]
    fn refusals_of_a_quorum_are_believed() {
        let mut peers = standings(1..=5);
        assert_eq!(refuses(&mut peers, 9), ClusterVerdict::Accepted, "it is no voter");
        assert_eq!(refuses(&mut peers, 1), ClusterVerdict::Disputed, "2, 3 and 4 are down");
        assert_eq!(refuses(&mut peers, 2), ClusterVerdict::Disputed, "3 and 4 are down");
        assert_eq!(refuses(&mut peers, 3), ClusterVerdict::Refused);
        peers.refused(1, false);
        assert_eq!(peers.verdict(), ClusterVerdict::Disputed, "1 is not ready");
        assert_eq!(PeerStandings::default().verdict(), ClusterVerdict::Accepted, "nothing is known yet");
    }

    #[test]
    fn a_member_that_a_quorum_accepts_is_one_whatever_others_say() {
        let mut peers = standings(1..=5);
        peers.up(3, Control, 1);
        assert_eq!(refuses(&mut peers, 1), ClusterVerdict::Disputed);
        assert_eq!(refuses(&mut peers, 2), ClusterVerdict::Disputed, "one peer accepts, two refuse");
        peers.up(4, Bulk, 2);
        assert_eq!(peers.verdict(), ClusterVerdict::Accepted, "with 3 and 4 this member is a quorum");
        peers.down(4, Bulk, 2);
        assert_eq!(peers.verdict(), ClusterVerdict::Disputed);
    }

    #[test]
    fn one_peer_is_not_believed_however_often_it_refuses() {
        let mut peers = standings([1, 2, 5]);
        for _ in 0..1_000 {
            peers.refused(1, true);
            assert_ne!(peers.verdict(), ClusterVerdict::Refused, "one host ends no member");
        }
        assert_eq!(peers.verdict(), ClusterVerdict::Disputed);
    }

    #[test]
    fn in_small_clusters_all_others_decide() {
        let mut two = standings([1, 5]);
        assert_eq!(refuses(&mut two, 1), ClusterVerdict::Refused, "all others of a cluster of two");
        let mut three = standings([1, 2, 5]);
        assert_eq!(refuses(&mut three, 1), ClusterVerdict::Disputed, "one peer's word");
        assert_eq!(refuses(&mut three, 2), ClusterVerdict::Refused);
        let mut learner = standings(1..=3);
        learner.up(3, Control, 1);
        assert_eq!(refuses(&mut learner, 1), ClusterVerdict::Disputed);
        assert_eq!(refuses(&mut learner, 2), ClusterVerdict::Refused, "two of three voters refuse it");
    }
}
