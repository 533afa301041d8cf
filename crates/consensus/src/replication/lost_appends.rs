//! Appends that are lost, or whose responses are: how a leader finds out without sending entries again.
//!
//! When a peer answers a heartbeat, the raft library sends it another append with entries, although the peer's window
//! is full or its probe is unanswered: what was sent may be lost, and nothing else would make progress. But a peer
//! whose disk stalls answers heartbeats for as long as that lasts (or, while its vote is being written, all of them at
//! once afterwards), so the window would not limit anything. Here a heartbeat response from such a peer causes an
//! *empty* append after the last index that was sent ([`probe_after_heartbeat`]), which takes no room in the window.
//! The peer accepts it when all before it is on its disk, or rejects it:
//!
//! ```text
//! sent 11..20 to peer 2, window full          heartbeat response      empty append after 20
//!   appends lost                    rejected: the library probes and sends again from what is known to match
//!   only responses lost             accepted 20: frees the whole window
//!   a probe lost                    accepted at the index before it: resume_after_probe streams from there
//!   nothing lost, the disk is slow  the response follows those of the appends, and changes nothing
//! ```
//!
//! So no loss stops a peer for longer than until its next heartbeat response, whether the connection reported it or
//! not.

use raft::{ProgressState, RawNode};

use crate::log_view::LogView;
use crate::message::{Body, Message, message_to_raft};

/// A follower answered a heartbeat. If its window or probe is full, asks with an empty append what it has, and returns
/// true: then the library must not see the heartbeat response.
pub(crate) fn probe_after_heartbeat(node: &mut RawNode<LogView>, peer: u64, commit: u64) -> bool {
    let raft = &mut node.raft;
    let Some(progress) = raft.prs().get(peer) else { return false };
    let is_full = progress.state != ProgressState::Snapshot && progress.is_paused();
    let (matched, previous_index) = (progress.matched, progress.next_idx - 1);
    let previous_term = raft.raft_log.term(previous_index).unwrap_or(0);
    // An index before our log has no term: then the library must see that a snapshot is needed.
    if !is_full || (previous_term == 0 && previous_index != 0) {
        return false;
    }
    if let Some(progress) = raft.mut_prs().get_mut(peer) {
        progress.recent_active = true;
        progress.update_committed(commit);
    }
    if matched < raft.raft_log.last_index() {
        let commit = raft.raft_log.committed;
        let body = Body::Append { previous_index, previous_term, commit, entries: Vec::new() };
        let probe = Message { from: raft.id, to: peer, term: raft.term, body };
        raft.msgs.push(message_to_raft(probe).expect("the library knows appends"));
    }
    true
}

/// A follower accepted `index`, which was known to match, while a probe beyond it is unanswered: the probe was lost, or
/// its response is still to come. Streams to the follower from there; the library would ignore the response as no news.
pub(crate) fn resume_after_probe(node: &mut RawNode<LogView>, peer: u64, index: u64) {
    let Some(progress) = node.raft.mut_prs().get_mut(peer) else { return };
    if progress.state == ProgressState::Probe && progress.paused && progress.matched == index {
        progress.become_replicate();
        node.raft.send_append(peer);
    }
}
