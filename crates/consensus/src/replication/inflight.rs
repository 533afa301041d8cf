//! In-flight windows: how many bytes of appends a leader sends to one peer before it waits for a response.
//!
//! The raft library limits the messages in flight, not their bytes. This component adds up the bytes of the appends
//! sent to each peer until their responses arrive. At [`MAX_INFLIGHT_BYTES`] it closes the peer's window, and below it
//! opens it again, by adjusting the library's limit on messages:
//!
//! ```text
//! append  to 2, last index 20, 5 MiB   in flight 5 MiB   open:   at most 256 messages
//! append  to 2, last index 30, 4 MiB   in flight 9 MiB   closed: at most 1 message
//! accepted by 2, up to 20              in flight 4 MiB   open
//! ```
//!
//! One burst from memory may exceed the limit by [`crate::MAX_RECENT_BYTES`]. `lost_appends` explains what happens to a
//! closed window when appends or their responses are lost.

use std::collections::{BTreeMap, VecDeque};

use raft::{ProgressState, RawNode};

use crate::log_view::LogView;
use crate::message::{Body, Message};

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
    closed: bool,
}

/// The windows of all peers.
#[derive(Default)]
pub(crate) struct InflightWindows {
    windows: BTreeMap<u64, Window>,
}

impl InflightWindows {
    /// `message` is sent; counts it if it is an append with entries.
    pub(crate) fn sent(&mut self, node: &mut RawNode<LogView>, message: &Message) {
        let Body::Append { entries, .. } = &message.body else { return };
        let Some(last) = entries.last() else { return };
        let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
        let window = self.windows.entry(message.to).or_default();
        window.appends.push_back((last.index, bytes));
        window.bytes += bytes;
        adjust(node, message.to, window);
    }

    /// A peer has all entries up to `index`. Call it before the library steps the response, so that the library finds
    /// the window open.
    pub(crate) fn accepted(&mut self, node: &mut RawNode<LogView>, peer: u64, index: u64) {
        let Some(window) = self.windows.get_mut(&peer) else { return };
        while window.appends.front().is_some_and(|append| append.0 <= index) {
            window.bytes -= window.appends.pop_front().map_or(0, |append| append.1);
        }
        assert!(window.bytes == 0 || !window.appends.is_empty(), "an empty window holds no bytes");
        adjust(node, peer, window);
    }

    /// Forgets what was in flight to peers that the library no longer streams to. Call it each tick.
    pub(crate) fn reconcile(&mut self, node: &mut RawNode<LogView>) {
        for (&peer, window) in &mut self.windows {
            let progress = node.raft.prs().get(peer);
            if progress.is_none_or(|progress| progress.state != ProgressState::Replicate) {
                window.appends.clear();
                window.bytes = 0;
                adjust(node, peer, window);
            }
        }
        self.windows.retain(|_, window| window.closed || !window.appends.is_empty());
    }

    /// Opens and empties all windows: the leadership changed.
    pub(crate) fn reset(&mut self, node: &mut RawNode<LogView>) {
        for (peer, mut window) in std::mem::take(&mut self.windows) {
            window.bytes = 0;
            adjust(node, peer, &mut window);
        }
    }
}

/// Closes or opens the window, if it has crossed the limit.
fn adjust(node: &mut RawNode<LogView>, peer: u64, window: &mut Window) {
    let closed = window.bytes >= MAX_INFLIGHT_BYTES;
    if closed != window.closed {
        window.closed = closed;
        // 1 and not 0: with a message in flight it closes the window as well, and without one the peer is not stuck.
        node.raft.adjust_max_inflight_msgs(peer, if closed { 1 } else { MAX_INFLIGHT_MESSAGES });
    }
}
