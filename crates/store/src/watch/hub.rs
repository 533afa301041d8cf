//! The hub's handle: publishing batches and opening streams.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::encode::ResponseIdentity;
use super::event_buffer::{EventBuffer, Wake};
use super::groups::WatcherGroups;
use super::history::History;
use super::shared::{EventTail, HubShared, HubState, WatchCounters, WatchStats};
use super::stream::WatchStream;
use crate::types::Event;
use crate::values::Values;

/// Publishes events and opens watch streams. Clones share one hub.
#[derive(Clone)]
pub struct Hub {
    pub(super) shared: Arc<HubShared>,
}

impl Hub {
    /// A hub on a store's history and values. The ids are those for response headers. `seed` shapes the tree of watched
    /// ranges; it must not be known to clients, who could otherwise choose ranges that make matching slow.
    pub fn new(
        history: Arc<dyn History>,
        values: Arc<dyn Values>,
        cluster_id: u64,
        member_id: u64,
        seed: u64,
    ) -> Self {
        let published = AtomicI64::new(history.current_revision());
        let (groups, streams, tail) = (WatcherGroups::new(seed), BTreeMap::new(), EventTail::default());
        let state = HubState { groups, streams, next_stream: 0, tail, gathered: None };
        let identity = ResponseIdentity { cluster_id, member_id };
        let counters = WatchCounters::default();
        Self {
            shared: Arc::new(HubShared {
                history,
                values,
                identity,
                counters,
                published,
                state: state.into(),
            }),
        }
    }

    /// Whether there is any watcher. If there is none when a batch begins, its events need not be made, and
    /// [`publish_unwatched`](Self::publish_unwatched) follows.
    pub fn is_watched(&self) -> bool {
        !self.shared.state.lock().groups.is_empty()
    }

    /// Publishes a batch whose events were not made. A watcher that came meanwhile reads them from history.
    pub fn publish_unwatched(&self, revision: i64) {
        let mut state = self.shared.state.lock();
        let from = self.shared.published() + 1;
        if revision < from {
            return;
        }
        state.tail = EventTail::default();
        if !state.groups.is_empty() {
            state.streams.values().for_each(|buffer| buffer.miss(from, revision));
        }
        self.shared.counters.tail_bytes.store(state.tail.bytes(), Ordering::Relaxed);
        self.shared.published.store(revision, Ordering::Release);
    }

    /// Publishes an applied batch or a slice of one: `events` of any number of transactions, in the order of revisions,
    /// and `revision`, the newest revision after it. Later events are those of a command in progress: they are matched
    /// and kept, and published with its revision. Must be called after the history has the batch and before its replies
    /// are sent. Wakes the streams that have something to send.
    pub fn publish(&self, revision: i64, events: &Arc<[Event]>) {
        let mut state = self.shared.state.lock();
        let published = self.shared.published();
        assert!(revision >= published, "batches are published in revision order");
        let visible = events.partition_point(|event| event.kv.mod_revision.main <= revision);
        if revision > published {
            if state.gathered.is_some() {
                let queued = state.add_gathered(&events[..visible], revision);
                self.shared.counters.pending_events.add(queued);
            } else if state.groups.is_empty() {
                state.tail = EventTail::default();
            } else if visible == events.len() {
                self.shared.counters.pending_events.add(state.add_batch(events));
            } else {
                self.shared.counters.pending_events.add(state.add_batch(&events[..visible].into()));
            }
            self.shared.counters.tail_bytes.store(state.tail.bytes(), Ordering::Relaxed);
            self.shared.published.store(revision, Ordering::Release);
        }
        if visible < events.len() {
            state.gather(&events[visible..]);
        }
    }

    /// Opens a watch stream. `wake` is called when [`WatchStream::next`] may have something new. It is called on the
    /// publishing thread with the hub locked, so it may only set a flag or wake a task. A watcher that asked for
    /// fragments gets responses below `max_fragment_bytes` (in etcd: the request limit and 512 KiB), unless a single
    /// event is larger.
    pub fn open(&self, wake: Wake, max_fragment_bytes: usize) -> WatchStream {
        let buffer = Arc::new(EventBuffer::new(wake, self.shared.counters.pending_events.clone()));
        let mut state = self.shared.state.lock();
        let id = state.next_stream;
        state.next_stream += 1;
        state.streams.insert(id, buffer.clone());
        drop(state);
        self.shared.counters.streams.fetch_add(1, Ordering::Relaxed);
        WatchStream::new(self.shared.clone(), id, buffer, max_fragment_bytes)
    }

    /// A snapshot at `revision` replaced the store's state, and its history is readable now. Watchers catch up on the
    /// revisions in between, or end if those are compacted.
    pub fn snapshot_installed(&self, revision: i64) {
        let mut state = self.shared.state.lock();
        state.gathered = None;
        let from = self.shared.published() + 1;
        if revision >= from {
            state.streams.values().for_each(|buffer| buffer.miss(from, revision));
            self.shared.published.store(revision, Ordering::Release);
        }
        // Permissions may be others.
        state.streams.values().for_each(|buffer| buffer.wake_up());
    }

    /// Wakes all streams: permissions have changed, so their handlers check them.
    pub fn wake_all(&self) {
        self.shared.state.lock().streams.values().for_each(|buffer| buffer.wake_up());
    }

    /// What is accounted as the memory of watchers, streams and the events kept for them. Takes constant time.
    pub fn accounted_bytes(&self) -> u64 {
        self.shared.counters.accounted_bytes()
    }

    /// Numbers for metrics. Takes constant time and no lock, whatever the number of watchers and streams.
    pub fn stats(&self) -> WatchStats {
        let counters = &self.shared.counters;
        WatchStats {
            streams: counters.streams.load(Ordering::Relaxed),
            watchers: counters.watchers.load(Ordering::Relaxed),
            slow_watchers: counters.slow_watchers.load(Ordering::Relaxed),
            pending_events: counters.pending_events.get(),
            events_sent: counters.events_sent.load(Ordering::Relaxed),
        }
    }
}
