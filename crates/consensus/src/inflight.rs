//! Bytes in flight to each peer (DESIGN 4, "Bytes in flight a peer are limited by us").
//!
//! The library counts messages in flight, not bytes. Here the bytes of the appends that left are added up until
//! their response comes; above [`INFLIGHT_BYTES_MAX`] the peer's window is shut to what is already out, below it is
//! opened again. One burst from memory may overshoot by [`crate::view::RECENT_BYTES_MAX`].

use std::collections::{BTreeMap, VecDeque};

use raft::{ProgressState, RawNode};

use crate::view::View;
use crate::{Body, Message};

/// Bytes of appends to one peer without a response, after which no more are sent: a gigabit times 60 ms.
pub const INFLIGHT_BYTES_MAX: usize = 8 << 20;
/// Appends to one peer without a response. Batches may be small, so this is generous.
pub const INFLIGHT_MESSAGES_MAX: usize = 256;

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

fn adjust(node: &mut RawNode<View>, peer: u64, window: &mut Window) {
    let shut = window.bytes >= INFLIGHT_BYTES_MAX;
    if shut != window.shut {
        window.shut = shut;
        // 1 and not 0: with something in flight it shuts as well, and without it never gets stuck.
        node.raft.adjust_max_inflight_msgs(peer, if shut { 1 } else { INFLIGHT_MESSAGES_MAX });
    }
}
