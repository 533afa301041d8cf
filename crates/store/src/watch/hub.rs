//! The meeting point of the publisher and the streams.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::block::Block;
use super::encode::Identity;
use super::groups::{GroupId, Groups, Shape, StreamId};
use super::inbox::{Delivery, Inbox, Wake};
use super::stream::WatchStream;
use super::{MAX_RESPONSE_BYTES, MAX_TAIL_BYTES};
use crate::{Event, History, Values};

/// Where events are published and watch streams opened. Clones share one hub.
#[derive(Clone)]
pub struct Hub {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) history: Arc<dyn History>,
    pub(super) values: Arc<dyn Values>,
    pub(super) identity: Identity,
    pub(super) counters: Counters,
    /// The newest revision of which every inbox has what belongs there.
    published: AtomicI64,
    state: Mutex<State>,
}

struct State {
    groups: Groups,
    streams: BTreeMap<StreamId, Arc<Inbox>>,
    next_stream: StreamId,
    tail: Tail,
}

/// Numbers that streams keep up to date themselves.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) watchers: AtomicUsize,
    pub(super) slow_watchers: AtomicUsize,
    pub(super) events_sent: AtomicU64,
}

/// The hub's numbers for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Open watch streams (`etcd_debugging_mvcc_watch_stream_total`).
    pub streams: usize,
    /// Watchers (`etcd_debugging_mvcc_watcher_total`).
    pub watchers: usize,
    /// Watchers that are catching up (`etcd_debugging_mvcc_slow_watcher_total`).
    pub slow_watchers: usize,
    /// Events waiting in inboxes (`etcd_debugging_mvcc_pending_events_total`).
    pub pending_events: usize,
    /// Events sent since the hub was made (`etcd_debugging_mvcc_events_total`).
    pub events_sent: u64,
}

/// The newest blocks, kept alive for the streams; the only strong references that outlive a call.
#[derive(Default)]
struct Tail {
    batches: VecDeque<(usize, Vec<Arc<Block>>)>,
    bytes: usize,
}

impl Tail {
    /// Keeps the blocks of a batch; older batches leave until the tail fits its limit, or is this batch
    /// alone.
    fn push(&mut self, bytes: usize, blocks: Vec<Arc<Block>>) {
        self.bytes += bytes;
        self.batches.push_back((bytes, blocks));
        while self.bytes > MAX_TAIL_BYTES && self.batches.len() > 1 {
            self.bytes -= self.batches.pop_front().map_or(0, |(bytes, _)| bytes);
        }
    }
}

impl Hub {
    /// A hub over a store's history and values, for the member that answers as these ids in response headers.
    pub fn new(history: Arc<dyn History>, values: Arc<dyn Values>, cluster_id: u64, member_id: u64) -> Self {
        let published = AtomicI64::new(history.current_revision());
        let state =
            State { groups: Groups::new(), streams: BTreeMap::new(), next_stream: 0, tail: Tail::default() };
        let identity = Identity { cluster_id, member_id };
        let counters = Counters::default();
        Self {
            shared: Arc::new(Shared { history, values, identity, counters, published, state: state.into() }),
        }
    }

    /// Hands an applied batch to the watchers: `events` in revision order (any number of transactions,
    /// possibly none), `revision` the newest revision after it. To be called once the history shows the
    /// batch, before its replies leave. Wakes the streams that have something to send.
    pub fn publish(&self, revision: i64, events: &Arc<[Event]>) {
        let mut state = self.shared.state.lock();
        assert!(revision >= self.shared.published(), "batches are published in revision order");
        let newest = events.last().map_or(revision, |event| event.kv.mod_revision.main);
        assert!(newest <= revision, "a batch ends at the revision it is published with");
        if state.groups.is_empty() {
            state.tail = Tail::default();
        } else {
            state.deliver(events);
        }
        self.shared.published.store(revision, Ordering::Release);
    }

    /// Opens a watch stream. `wake` is called when [`WatchStream::next`] has something new to look at, from
    /// the publishing thread and with the hub locked, so it may only set a flag or wake a task. A watcher
    /// that asked for fragments gets responses below `max_fragment_bytes` (etcd: the request limit and 512
    /// KiB), events permitting.
    pub fn open(&self, wake: Wake, max_fragment_bytes: usize) -> WatchStream {
        let inbox = Arc::new(Inbox::new(wake));
        let mut state = self.shared.state.lock();
        let id = state.next_stream;
        state.next_stream += 1;
        state.streams.insert(id, inbox.clone());
        drop(state);
        WatchStream::new(self.shared.clone(), id, inbox, max_fragment_bytes)
    }

    /// The store was replaced by a snapshot at `revision`, whose history is readable from now on: watchers
    /// catch up over the gap, or end where it was compacted.
    pub fn snapshot_installed(&self, revision: i64) {
        let state = self.shared.state.lock();
        let from = self.shared.published() + 1;
        if revision >= from {
            state.streams.values().for_each(|inbox| inbox.miss(from, revision));
            self.shared.published.store(revision, Ordering::Release);
        }
    }

    /// The numbers for the metrics. Looks at every stream, so for scrapes alone.
    pub fn stats(&self) -> Stats {
        let state = self.shared.state.lock();
        let counters = &self.shared.counters;
        Stats {
            streams: state.streams.len(),
            watchers: counters.watchers.load(Ordering::Relaxed),
            slow_watchers: counters.slow_watchers.load(Ordering::Relaxed),
            pending_events: state.streams.values().map(|inbox| inbox.pending_events()).sum(),
            events_sent: counters.events_sent.load(Ordering::Relaxed),
        }
    }
}

impl State {
    fn deliver(&mut self, events: &Arc<[Event]>) {
        let mut blocks = Vec::new();
        let mut bytes = 0;
        self.groups.matching(events, |id, group, picked| {
            for block in Block::cut(events, picked, group.shape.prev_kv, MAX_RESPONSE_BYTES) {
                let block = Arc::new(block);
                group.subscribers.values().for_each(|inbox| inbox.push(id, &block));
                bytes += block.weight();
                blocks.push(block);
            }
        });
        if !blocks.is_empty() {
            self.tail.push(bytes + batch_weight(events), blocks);
        }
    }
}

/// What a batch of events holds in memory: its keys are slices of the log entries that also hold the values.
fn batch_weight(events: &[Event]) -> usize {
    let held = |event: &Event| size_of::<Event>() + event.kv.key.len() + event.kv.value.len as usize;
    events.iter().map(held).sum()
}

impl Shared {
    /// The newest published revision. Inboxes have everything up to it, perhaps more.
    pub(super) fn published(&self) -> i64 {
        self.published.load(Ordering::Acquire)
    }

    /// Subscribes a stream and returns the published revision at that moment: all later events will be
    /// delivered.
    pub(super) fn subscribe(&self, shape: &Shape, stream: StreamId, inbox: &Arc<Inbox>) -> (GroupId, i64) {
        let mut state = self.state.lock();
        let group = state.groups.subscribe(shape, stream, inbox);
        (group, self.published())
    }

    pub(super) fn unsubscribe(&self, group: GroupId, stream: StreamId) {
        self.state.lock().groups.unsubscribe(group, stream);
    }

    /// Takes an inbox at a moment between two batches and returns the published revision of that moment: what
    /// was taken is exactly what belongs there up to it.
    pub(super) fn take_between_batches(&self, inbox: &Inbox, taken: &mut VecDeque<Delivery>) -> i64 {
        let _state: MutexGuard<'_, State> = self.state.lock();
        inbox.take(taken);
        self.published()
    }

    /// Forgets a stream and its subscriptions.
    pub(super) fn close(&self, stream: StreamId, groups: impl Iterator<Item = GroupId>) {
        let mut state = self.state.lock();
        state.streams.remove(&stream);
        groups.for_each(|group| state.groups.unsubscribe(group, stream));
    }
}
