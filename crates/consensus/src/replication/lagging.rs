//! Followers that lag: a leader sends them entries that were fetched from disk, or a snapshot.

use raft::{ProgressState, RawNode};

use crate::log_view::LogView;
use crate::message::SnapshotMeta;
use crate::replication::progress::peers;

/// Sends the fetched chunk that begins at `from` to the peers that wait for it, as much of it as their windows admit.
pub(crate) fn send_fetched(node: &mut RawNode<LogView>, from: u64) {
    let Some(end) = node.store().fetched_end(from) else { return };
    let me = node.raft.id;
    let waiting: Vec<u64> =
        peers(node).iter().filter(|peer| peer.next == from && peer.id != me).map(|peer| peer.id).collect();
    for peer in waiting {
        let mut next = from;
        while let Some(progress) = node.raft.prs().get(peer) {
            let stuck = next != from && progress.next_idx == next;
            next = progress.next_idx;
            if stuck || next >= end || progress.is_paused() {
                break;
            }
            node.raft.send_append(peer);
        }
    }
}

/// Sends `peer` the message that names `snapshot`, if it is of use; says whether it did.
pub(crate) fn offer_snapshot(node: &mut RawNode<LogView>, peer: u64, snapshot: &SnapshotMeta) -> bool {
    let log = &node.raft.raft_log;
    let is_useful = node.raft.state == raft::StateRole::Leader
        && node.raft.prs().get(peer).is_some()
        && !awaits_snapshot(node, peer)
        && (log.first_index() - 1..=log.applied).contains(&snapshot.index)
        && log.match_term(snapshot.index, snapshot.term);
    if !is_useful {
        return false;
    }
    node.mut_store().offer(peer, snapshot);
    node.raft.send_append(peer);
    node.mut_store().withdraw_offer(peer);
    awaits_snapshot(node, peer)
}

fn awaits_snapshot(node: &RawNode<LogView>, peer: u64) -> bool {
    let progress = node.raft.prs().get(peer);
    progress.is_some_and(|progress| progress.state == ProgressState::Snapshot)
}
