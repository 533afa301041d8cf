//! The event buffer of a stream: a bounded queue of references to blocks, and a wake-up.
//!
//! If the queue is full, or has overflowed since the stream last took it, a block is not queued; only the range of its
//! revisions is noted. The watchers of the stream then catch up on that range from history:
//!
//! ```text
//! push @8, push @9            deliveries [Block 8, Block 9]     missed -
//! ... 256 blocks, then @300   deliveries [256 blocks]           missed 300..=300
//! push @301                   deliveries [256 blocks]           missed 300..=301
//! take                     -> 256 blocks, Missed { from: 300, through: 301 }
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::block::EventBlock;

/// Blocks that an event buffer holds before its stream falls behind; one block for each batch and group of watchers.
/// For one group this is 0.8 s of large batches (3 ms apart) or 80 ms of the fastest small ones (0.3 ms), twice what
/// etcd buffers for a stream, and 10 KB for a client that never reads.
pub const MAX_BUFFERED_BLOCKS: usize = 256;

/// Names a group of watchers. Ids are not reused, so a delivery that is still queued cannot reach another group.
pub(super) type GroupId = u64;

/// Wakes the handler of a stream, so that it calls [`WatchStream::next`](super::WatchStream::next). Called with the hub
/// locked: it must not block or call the hub.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What the hub hands to a stream; deliveries are in the order of revisions.
pub(super) enum Delivery {
    /// Events for the watchers of one group.
    Block {
        group: GroupId,
        /// Revisions of the first and last event, which the stream needs even if the block is gone.
        first: i64,
        last: i64,
        /// Dangling once the block has left the tail.
        block: Weak<EventBlock>,
    },
    /// Events of any group at these revisions may be missing.
    Missed { from: i64, through: i64 },
}

/// How many events wait in all buffers of a hub, for metrics. Streams subtract what they take, and a publisher adds
/// what it has queued once for each batch, so for a moment it may be below zero.
#[derive(Default)]
pub(super) struct PendingEvents(AtomicI64);

impl PendingEvents {
    /// So many events more wait.
    pub(super) fn add(&self, events: usize) {
        self.0.fetch_add(events as i64, Ordering::Relaxed);
    }

    fn subtract(&self, events: usize) {
        self.0.fetch_sub(events as i64, Ordering::Relaxed);
    }

    /// How many wait.
    pub(super) fn get(&self) -> usize {
        usize::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// Shared by the hub and one stream.
pub(super) struct EventBuffer {
    wake: Wake,
    pending: Arc<PendingEvents>,
    state: Mutex<BufferState>,
}

#[derive(Default)]
struct BufferState {
    deliveries: VecDeque<Delivery>,
    /// Revisions whose blocks did not fit; newer than all deliveries.
    missed: Option<(i64, i64)>,
    /// The number of events in the deliveries, for metrics.
    events: usize,
    /// Whether the stream was woken and has not taken the deliveries since.
    woken: bool,
}

impl EventBuffer {
    pub(super) fn new(wake: Wake, pending: Arc<PendingEvents>) -> Self {
        Self { wake, pending, state: Mutex::default() }
    }

    /// Adds a block for the watchers of `group`; if the buffer is full, notes its revisions as missed. Returns how many
    /// events were queued, which the caller adds to those that wait.
    pub(super) fn push(&self, group: GroupId, block: &Arc<EventBlock>) -> usize {
        let mut state = self.state.lock();
        let (first, last) = (block.first_revision(), block.last_revision());
        let mut queued = 0;
        if state.missed.is_some() || state.deliveries.len() >= MAX_BUFFERED_BLOCKS {
            state.miss(first, last);
        } else {
            queued = block.len();
            state.events += queued;
            state.deliveries.push_back(Delivery::Block { group, first, last, block: Arc::downgrade(block) });
        }
        self.signal(state);
        queued
    }

    /// Notes that events at these revisions are not delivered.
    pub(super) fn miss(&self, from: i64, through: i64) {
        let mut state = self.state.lock();
        state.miss(from, through);
        self.signal(state);
    }

    /// Wakes the stream although nothing was added.
    pub(super) fn wake_up(&self) {
        self.signal(self.state.lock());
    }

    /// Wakes the stream, unless it was woken since it last took the deliveries.
    fn signal(&self, mut state: parking_lot::MutexGuard<'_, BufferState>) {
        let first = !std::mem::replace(&mut state.woken, true);
        drop(state);
        if first {
            (self.wake)();
        }
    }

    /// Moves all deliveries into `taken`, which must be empty. The next push wakes the stream again.
    pub(super) fn take(&self, taken: &mut VecDeque<Delivery>) {
        assert!(taken.is_empty(), "a stream takes more after it has processed what it took before");
        let mut state = self.state.lock();
        state.woken = false;
        let events = std::mem::take(&mut state.events);
        if events > 0 {
            self.pending.subtract(events);
        }
        std::mem::swap(&mut state.deliveries, taken);
        if let Some((from, through)) = state.missed.take() {
            taken.push_back(Delivery::Missed { from, through });
        }
    }
}

impl Drop for EventBuffer {
    fn drop(&mut self) {
        self.pending.subtract(self.state.lock().events);
    }
}

impl BufferState {
    fn miss(&mut self, from: i64, through: i64) {
        let (from, through) = self.missed.map_or((from, through), |(f, t)| (f.min(from), t.max(through)));
        self.missed = Some((from, through));
    }
}
