//! A leader's view of its peers, copied from the raft library.

use raft::{ProgressState, RawNode};

use crate::log_view::LogView;

/// How a leader sends to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// It searches for the last index at which the logs match, one append at a time.
    Probe,
    /// It streams appends.
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
    /// Whether a message of it arrived since the last quorum check.
    pub recent_active: bool,
}

/// All members of the configuration, by id: the order of the library's own map differs from run to run.
pub(crate) fn peers(node: &RawNode<LogView>) -> Vec<PeerStatus> {
    let status = |id: u64, progress: &raft::Progress| PeerStatus {
        id,
        matched: progress.matched,
        next: progress.next_idx,
        state: match progress.state {
            ProgressState::Probe => PeerState::Probe,
            ProgressState::Replicate => PeerState::Replicate,
            ProgressState::Snapshot => PeerState::Snapshot,
        },
        recent_active: progress.recent_active,
    };
    let mut peers: Vec<_> = node.raft.prs().iter().map(|(&id, progress)| status(id, progress)).collect();
    peers.sort_unstable_by_key(|peer| peer.id);
    peers
}

/// Whether the peers for which `fits` is true make a quorum (two, in a joint configuration).
pub(crate) fn has_quorum(node: &RawNode<LogView>, fits: impl Fn(&PeerStatus) -> bool) -> bool {
    let ids = peers(node).iter().filter(|peer| fits(peer)).map(|peer| peer.id).collect();
    node.raft.prs().has_quorum(&ids)
}
