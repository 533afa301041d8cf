//! How this member stands with its peers: which are connected, and which refuse it for good.
//!
//! A peer counts as connected while both streams to it are up. Each stream reports its connections by number, and a
//! report about an older connection than the one that is up changes nothing:
//!
//! ```text
//! control 5 up   bulk 6 up: connected   control 7 up   control 5 down: late, still connected   bulk 6 down: not
//! ```
//!
//! A refusal for good ends the process, so the word of one peer is not enough. A peer counts as refusing when it
//! refused [`MIN_REFUSALS`] times in a row, and more peers must refuse this member than accept it.

use std::collections::BTreeMap;

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
    /// Refusals for good since this peer last accepted a stream or refused for another reason.
    refusals: u32,
}

/// The standing with all peers; see the module.
#[derive(Debug, Default)]
pub(super) struct PeerStandings {
    peers: BTreeMap<u64, Standing>,
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
        standing.refusals = 0;
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

    /// A peer is no member any more: it says nothing about this member.
    pub(super) fn forget(&mut self, peer: u64) {
        self.peers.remove(&peer);
    }

    /// A peer refused this member, `for_good` or until something changes. Returns whether the cluster refuses it for
    /// good.
    pub(super) fn refused(&mut self, peer: u64, for_good: bool) -> bool {
        let standing = self.peers.entry(peer).or_default();
        standing.refusals = if for_good { standing.refusals.saturating_add(1) } else { 0 };
        let refusing = self.peers.values().filter(|standing| standing.refusals >= MIN_REFUSALS).count();
        let accepting = self.peers.values().filter(|standing| standing.accepts()).count();
        for_good && refusing > accepting
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
    fn one_peer_that_refuses_once_or_alone_is_not_believed() {
        let mut peers = PeerStandings::default();
        assert!(!peers.refused(2, true) && !peers.refused(2, true));
        assert!(!peers.refused(2, false), "it is not ready");
        assert!(!peers.refused(2, true) && !peers.refused(2, true));
        peers.up(3, Control, 1);
        assert!(!peers.refused(2, true), "3 accepts this member");
        peers.down(3, Control, 1);
        assert!(peers.refused(2, true), "2 goes on to refuse, and 3 is down");
    }

    #[test]
    fn more_refuse_than_accept() {
        let mut peers = PeerStandings::default();
        peers.up(4, Control, 1);
        (0..MIN_REFUSALS).for_each(|_| assert!(!peers.refused(2, true)));
        assert!(!peers.refused(3, true) && !peers.refused(3, true));
        assert!(peers.refused(3, true), "two refuse, one accepts");
    }
}
