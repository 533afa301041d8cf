//! Bytes in flight to each peer, limited by us.
//!
//! The library counts messages in flight, not bytes. Here the bytes of the appends that left are added up until
//! their response comes; above [`MAX_INFLIGHT_BYTES`] the peer's window is shut to what is already out, below it is
//! opened again. One burst from memory may overshoot by [`crate::view::MAX_RECENT_BYTES`].
//!
//! *Heartbeats.* When a peer answers one, the library lets another append with entries leave, although the peer's
//! window is full or its probe is still out: what was sent may be lost, and then nothing else would go on. A peer whose
//! disk hangs answers heartbeats for as long as that lasts (or, while its vote is being written, all of them at once
//! afterwards), so the limits would not hold. Here such an answer is met with an empty append after the last index
//! that was sent ([`ask_again`]), which takes no room. The peer accepts it, once all before is on its disk, or rejects
//! it; either way the leader learns what it must know:
//!
//! - Appends were lost: rejected, and the library probes and sends again from what is known to match.
//! - Only responses were lost, as when the peer's own connection to us broke, of which we are not told: accepted, which
//!   frees all that was in flight.
//! - A probe was lost: the place before it is accepted, and [`accepted_again`] goes on from there, since the library
//!   passes over what is not news.
//! - Nothing was lost: the answer waits for the disk behind those of the appends, and changes nothing.
//!
//! So no loss, noticed or not, stops a peer for longer than until its next answer to a heartbeat.

use std::collections::{BTreeMap, VecDeque};

use raft::{ProgressState, RawNode};

use crate::view::View;
use crate::{Body, Message, convert};

/// Bytes of appends to one peer without a response, after which no more are sent: a gigabit times 60 ms.
pub const MAX_INFLIGHT_BYTES: usize = 8 << 20;
/// Appends to one peer without a response. Batches may be small, so this is generous.
pub const MAX_INFLIGHT_MESSAGES: usize = 256;

/// The appends in flight to one peer.
#[derive(Default)]
struct Window {
    /// (last index, bytes) of each append, oldest first.
    appends: VecDeque<(u64, usize)>,
    bytes: usize,
    shut: bool,
}

/// The windows of all peers.
#[derive(Default)]
pub(crate) struct Inflight {
    windows: BTreeMap<u64, Window>,
}

impl Inflight {
    /// An append leaves.
    pub(crate) fn sent(&mut self, node: &mut RawNode<View>, message: &Message) {
        let Body::Append { entries, .. } = &message.body else { return };
        let Some(last) = entries.last() else { return };
        let bytes = entries.iter().map(|entry| entry.payload.len()).sum();
        let window = self.windows.entry(message.to).or_default();
        window.appends.push_back((last.index, bytes));
        window.bytes += bytes;
        adjust(node, message.to, window);
    }

    /// A peer has all up to `index`; called before the library learns of it, so that it finds the window open.
    pub(crate) fn accepted(&mut self, node: &mut RawNode<View>, peer: u64, index: u64) {
        let Some(window) = self.windows.get_mut(&peer) else { return };
        while window.appends.front().is_some_and(|append| append.0 <= index) {
            window.bytes -= window.appends.pop_front().map_or(0, |append| append.1);
        }
        adjust(node, peer, window);
    }

    /// Forgets what was in flight to peers whose stream of appends broke; called each tick.
    pub(crate) fn reconcile(&mut self, node: &mut RawNode<View>) {
        for (&peer, window) in &mut self.windows {
            let progress = node.raft.prs().get(peer);
            if progress.is_none_or(|progress| progress.state != ProgressState::Replicate) {
                window.appends.clear();
                window.bytes = 0;
                adjust(node, peer, window);
            }
        }
        self.windows.retain(|_, window| window.shut || !window.appends.is_empty());
    }

    /// Leadership changed: every window starts anew.
    pub(crate) fn reset(&mut self, node: &mut RawNode<View>) {
        for (peer, mut window) in std::mem::take(&mut self.windows) {
            window.bytes = 0;
            adjust(node, peer, &mut window);
        }
    }
}

/// A follower of ours has answered a heartbeat. If appends are out that keep others back, they are left out, and it is
/// asked whether it has them; then the library must not learn of the answer, and true is returned.
pub(crate) fn ask_again(node: &mut RawNode<View>, peer: u64, commit: u64) -> bool {
    let raft = &mut node.raft;
    let Some(progress) = raft.prs().get(peer) else { return false };
    let keeps_back = progress.state != ProgressState::Snapshot && progress.is_paused();
    let (matched, previous_index) = (progress.matched, progress.next_idx - 1);
    let previous_term = raft.raft_log.term(previous_index).unwrap_or(0);
    // What our log no longer reaches has no term: then the library must see that a snapshot is needed.
    if !keeps_back || (previous_term == 0 && previous_index != 0) {
        return false;
    }
    if let Some(progress) = raft.mut_prs().get_mut(peer) {
        progress.recent_active = true;
        progress.update_committed(commit);
    }
    if matched < raft.raft_log.last_index() {
        let commit = raft.raft_log.committed;
        let body = Body::Append { previous_index, previous_term, commit, entries: Vec::new() };
        let question = Message { from: raft.id, to: peer, term: raft.term, body };
        raft.msgs.push(convert::message_to_raft(question).expect("the library knows appends"));
    }
    true
}

/// A follower of ours has all up to `index`, as we knew, though a probe beyond it is out: the probe was lost, or is
/// still to be answered. Streams to it from there.
pub(crate) fn accepted_again(node: &mut RawNode<View>, peer: u64, index: u64) {
    let Some(progress) = node.raft.mut_prs().get_mut(peer) else { return };
    if progress.state == ProgressState::Probe && progress.paused && progress.matched == index {
        progress.become_replicate();
        node.raft.send_append(peer);
    }
}

fn adjust(node: &mut RawNode<View>, peer: u64, window: &mut Window) {
    let shut = window.bytes >= MAX_INFLIGHT_BYTES;
    if shut != window.shut {
        window.shut = shut;
        // 1 and not 0: with something in flight it shuts as well, and without it never gets stuck.
        node.raft.adjust_max_inflight_msgs(peer, if shut { 1 } else { MAX_INFLIGHT_MESSAGES });
    }
}
