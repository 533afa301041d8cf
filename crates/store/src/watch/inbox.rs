//! What the publisher hands to one stream: a bounded list of references to blocks, and a wake-up.
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::MAX_INBOX_BLOCKS;
use super::block::Block;
use super::groups::GroupId;

/// Tells the task of a stream to call [`WatchStream::next`](super::WatchStream::next). Called with the hub
/// locked: it must not block or call the hub.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What a stream has to look at, in revision order.
pub(super) enum Delivery {
    /// Events for the watchers of one group.
    Block {
        group: GroupId,
        /// Revisions of the first and last event; known without the block.
        first: i64,
        last: i64,
        /// Dead when the block has left the tail.
        block: Weak<Block>,
    },
    /// Events of any group may have been missed at these revisions.
    Missed { from: i64, through: i64 },
}

/// Shared by the hub and one stream.
pub(super) struct Inbox {
    wake: Wake,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    deliveries: VecDeque<Delivery>,
    /// Revisions that did not fit any more, newer than all deliveries.
    missed: Option<(i64, i64)>,
    /// Events in the deliveries, for the metric.
    events: usize,
    /// A wake-up was sent and the stream has not taken since.
    woken: bool,
}

impl Inbox {
    pub(super) fn new(wake: Wake) -> Self {
        Self { wake, state: Mutex::default() }
    }

    /// Adds a block for the watchers of `group`, or notes that its revisions were missed when the inbox is
    /// full.
    pub(super) fn push(&self, group: GroupId, block: &Arc<Block>) {
        let mut state = self.state.lock();
        let (first, last) = (block.first_revision(), block.last_revision());
        if state.missed.is_some() || state.deliveries.len() >= MAX_INBOX_BLOCKS {
            state.miss(first, last);
        } else {
            state.events += block.len();
            state.deliveries.push_back(Delivery::Block { group, first, last, block: Arc::downgrade(block) });
        }
        self.signal(state);
    }

    /// Notes that events at these revisions will not be delivered.
    pub(super) fn miss(&self, from: i64, through: i64) {
        let mut state = self.state.lock();
        state.miss(from, through);
        self.signal(state);
    }

    fn signal(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        let first = !std::mem::replace(&mut state.woken, true);
        drop(state);
        if first {
            (self.wake)();
        }
    }

    /// Moves all there is into `taken`, which is empty; from here on the next push wakes again.
    pub(super) fn take(&self, taken: &mut VecDeque<Delivery>) {
        assert!(taken.is_empty(), "a stream takes when it has worked off what it took before");
        let mut state = self.state.lock();
        state.woken = false;
        state.events = 0;
        std::mem::swap(&mut state.deliveries, taken);
        if let Some((from, through)) = state.missed.take() {
            taken.push_back(Delivery::Missed { from, through });
        }
    }

    /// Events waiting to be taken.
    pub(super) fn pending_events(&self) -> usize {
        self.state.lock().events
    }
}

impl State {
    fn miss(&mut self, from: i64, through: i64) {
        let (from, through) = self.missed.map_or((from, through), |(f, t)| (f.min(from), t.max(through)));
        self.missed = Some((from, through));
    }
}
