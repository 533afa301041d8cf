//! What the hub and its streams share: subscriptions, event buffers, the tail of recent blocks, counters.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::block::EventBlock;
use super::encode::ResponseIdentity;
use super::event_buffer::{Delivery, EventBuffer, GroupId, PendingEvents};
use super::groups::{WatchFilter, WatchStreamId, WatcherGroups};
use super::history::History;
use crate::types::Event;
use crate::values::Values;

/// Bytes of recent batches and their encodings kept for all streams together: half of the log's tail, so that these
/// events can usually be encoded without a disk read.
pub const MAX_TAIL_BYTES: usize = 8 << 20;

/// Bytes of events after which a response ends at the next revision: well under the 4 MiB that gRPC clients accept by
/// default, and enough to make the cost of heads and system calls negligible.
pub const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Subscriptions that a closing stream ends in one hold of the hub's lock: some hundred microseconds, for which a
/// publisher may have to wait.
pub(super) const MAX_CLOSED_AT_ONCE: usize = 256;

/// One for each hub, held by its streams too.
pub(super) struct HubShared {
    pub(super) history: Arc<dyn History>,
    pub(super) values: Arc<dyn Values>,
    pub(super) identity: ResponseIdentity,
    pub(super) counters: WatchCounters,
    /// The newest published revision: the event buffers have its blocks and all earlier ones, or note them as missed.
    pub(super) published: AtomicI64,
    pub(super) state: Mutex<HubState>,
}

/// Behind the hub's lock.
pub(super) struct HubState {
    pub(super) groups: WatcherGroups,
    pub(super) streams: BTreeMap<WatchStreamId, Arc<EventBuffer>>,
    pub(super) next_stream: WatchStreamId,
    pub(super) tail: EventTail,
    /// Events of a command in progress.
    pub(super) gathered: Option<GatheredEvents>,
}

/// The events of a command that is applied in several slices, matched slice by slice, until its revision is published:
///
/// ```text
/// publish(newest visible revision, events); revision 9 is in progress
///
/// publish 8 [delete a @9.0, delete b @9.1]    group [a, c): a b
/// publish 8 [delete c @9.2]                   group [a, c): a b    group c: c     stream T subscribes
/// publish 9 [delete d @9.3]                   one block for each group; T may have missed revision 9
/// ```
///
/// Past [`MAX_TAIL_BYTES`] no event is kept: the streams of the groups read the revision from history.
pub(super) struct GatheredEvents {
    groups: BTreeMap<GroupId, Vec<Event>>,
    /// Groups from this id on are newer than the first event, and are left out.
    groups_end: GroupId,
    bytes: usize,
    /// The first revision.
    first: i64,
    /// Streams that subscribed meanwhile: earlier events were not matched for them.
    newcomers: BTreeMap<WatchStreamId, Arc<EventBuffer>>,
}

/// Numbers that streams maintain themselves.
#[derive(Default)]
pub(super) struct WatchCounters {
    pub(super) watchers: AtomicUsize,
    pub(super) slow_watchers: AtomicUsize,
    pub(super) events_sent: AtomicU64,
    /// Bytes of the ranges of all watchers.
    pub(super) range_bytes: AtomicUsize,
    /// Open streams.
    pub(super) streams: AtomicUsize,
    /// Events in the buffers of all streams.
    pub(super) pending_events: Arc<PendingEvents>,
    /// Bytes of the tail, as the last batch left it.
    pub(super) tail_bytes: AtomicUsize,
}

/// Accounted memory of a watcher without its range: its state, its places in the maps of its stream, and its group with
/// the places of that.
const WATCHER_BYTES: usize = 640;

/// How often a watcher's range is in memory: in its filter, in that of its group, and in the tree of ranges.
const RANGE_COPIES: usize = 3;

/// Accounted memory of a stream without its watchers: its state, its event buffer partly filled, the state of the call
/// and of its connection.
const STREAM_BYTES: usize = 8 << 10;

impl WatchCounters {
    /// [Accounted](crate::memory) bytes of watchers, streams and the tail. Takes constant time and no lock.
    pub(super) fn accounted_bytes(&self) -> u64 {
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let watchers = read(&self.watchers) * WATCHER_BYTES + read(&self.range_bytes) * RANGE_COPIES;
        (watchers + read(&self.streams) * STREAM_BYTES + read(&self.tail_bytes)) as u64
    }
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchStats {
    /// Open watch streams (`etcd_debugging_mvcc_watch_stream_total`).
    pub streams: usize,
    /// Watchers (`etcd_debugging_mvcc_watcher_total`).
    pub watchers: usize,
    /// Watchers that are catching up (`etcd_debugging_mvcc_slow_watcher_total`).
    pub slow_watchers: usize,
    /// Events in event buffers (`etcd_debugging_mvcc_pending_events_total`).
    pub pending_events: usize,
    /// Events sent since the hub was created (`etcd_debugging_mvcc_events_total`).
    pub events_sent: u64,
}

/// The newest blocks, kept alive for the streams. No other strong reference outlives a call.
#[derive(Default)]
pub(super) struct EventTail {
    batches: VecDeque<(usize, Vec<Arc<EventBlock>>)>,
    bytes: usize,
}

impl EventTail {
    /// Bytes of its batches and their encodings.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the blocks of a batch, and drops the oldest batches until the tail is within its limit or has only this
    /// batch.
    fn push(&mut self, bytes: usize, blocks: Vec<Arc<EventBlock>>) {
        self.bytes += bytes;
        self.batches.push_back((bytes, blocks));
        while self.bytes > MAX_TAIL_BYTES && self.batches.len() > 1 {
            self.bytes -= self.batches.pop_front().map_or(0, |(bytes, _)| bytes);
        }
    }
}

impl HubState {
    /// Matches a batch, and adds its blocks to the buffers of the groups' streams and to the tail. Returns how many
    /// events were added to buffers.
    pub(super) fn add_batch(&mut self, events: &Arc<[Event]>) -> usize {
        let mut blocks = Vec::new();
        let (mut bytes, mut queued) = (0, 0);
        self.groups.matching(events, |id, group, picked| {
            for block in EventBlock::cut(events, picked, group.filter.prev_kv, MAX_RESPONSE_BYTES) {
                let block = Arc::new(block);
                queued += group.subscribers.values().map(|buffer| buffer.push(id, &block)).sum::<usize>();
                bytes += block.weight();
                blocks.push(block);
            }
        });
        if !blocks.is_empty() {
            self.tail.push(bytes + batch_weight(events), blocks);
        }
        queued
    }
}

impl HubState {
    /// Matches events of a command in progress.
    pub(super) fn gather(&mut self, events: &[Event]) {
        let mut gathered = self.gathered.take().unwrap_or_else(|| GatheredEvents {
            groups: BTreeMap::new(),
            groups_end: self.groups.next_id(),
            bytes: 0,
            first: events.first().map_or(0, |event| event.kv.mod_revision.main),
            newcomers: BTreeMap::new(),
        });
        let GatheredEvents { groups, groups_end, bytes, .. } = &mut gathered;
        self.groups.matching(events, |id, _, picked| {
            if id >= *groups_end {
                return;
            }
            let held = groups.entry(id).or_default();
            if *bytes <= MAX_TAIL_BYTES {
                held.extend(picked.iter().map(|position| events[*position as usize].clone()));
                *bytes += batch_weight(&held[held.len() - picked.len()..]);
            }
        });
        if gathered.bytes > MAX_TAIL_BYTES {
            gathered.groups.values_mut().for_each(|events| *events = Vec::new());
        }
        self.gathered = Some(gathered);
    }

    /// Adds what was gathered, and the last events of the command, to the buffers and to the tail. Returns how many
    /// events were added to buffers.
    pub(super) fn add_gathered(&mut self, last: &[Event], revision: i64) -> usize {
        self.gather(last);
        let Some(gathered) = self.gathered.take() else { return 0 };
        let mut queued = 0;
        let GatheredEvents { groups, bytes, first, newcomers, .. } = gathered;
        let mut blocks = Vec::new();
        for (id, events) in groups {
            let Some(group) = self.groups.get(id) else { continue };
            if bytes > MAX_TAIL_BYTES {
                group.subscribers.values().for_each(|buffer| buffer.miss(first, revision));
                continue;
            }
            let events: Arc<[Event]> = events.into();
            let picked: Vec<u32> = (0..events.len() as u32).collect();
            for block in EventBlock::cut(&events, &picked, group.filter.prev_kv, MAX_RESPONSE_BYTES) {
                let block = Arc::new(block);
                queued += group.subscribers.values().map(|buffer| buffer.push(id, &block)).sum::<usize>();
                blocks.push(block);
            }
        }
        newcomers.values().for_each(|buffer| buffer.miss(first, revision));
        if !blocks.is_empty() {
            let encoded = blocks.iter().map(|block| block.weight()).sum::<usize>();
            self.tail.push(bytes + encoded, blocks);
        }
        queued
    }
}

/// Bytes that a batch of events keeps in memory: its keys are slices of log entries, which also contain the values.
fn batch_weight(events: &[Event]) -> usize {
    let held = |event: &Event| size_of::<Event>() + event.kv.key.len() + event.kv.value.len as usize;
    events.iter().map(held).sum()
}

impl HubShared {
    /// The newest published revision. Event buffers have everything up to it, and possibly more.
    pub(super) fn published(&self) -> i64 {
        self.published.load(Ordering::Acquire)
    }

    /// Subscribes a stream, and returns the published revision at that moment: all later events reach its buffer.
    pub(super) fn subscribe(
        &self,
        filter: &WatchFilter,
        stream: WatchStreamId,
        buffer: &Arc<EventBuffer>,
    ) -> (GroupId, i64) {
        let mut state = self.state.lock();
        let group = state.groups.subscribe(filter, stream, buffer);
        if let Some(gathered) = &mut state.gathered {
            gathered.newcomers.insert(stream, buffer.clone());
        }
        (group, self.published())
    }

    /// Ends a stream's subscription to a group.
    pub(super) fn unsubscribe(&self, group: GroupId, stream: WatchStreamId) {
        self.state.lock().groups.unsubscribe(group, stream);
    }

    /// Takes a buffer's deliveries between two batches, and returns the published revision of that moment: exactly the
    /// deliveries up to it were taken.
    pub(super) fn take_between_batches(&self, buffer: &EventBuffer, taken: &mut VecDeque<Delivery>) -> i64 {
        let _state: MutexGuard<'_, HubState> = self.state.lock();
        buffer.take(taken);
        self.published()
    }

    /// Removes a stream, then its subscriptions. What is published between the slices still goes to its buffer, and is
    /// dropped with it.
    pub(super) fn close(&self, stream: WatchStreamId, mut groups: impl Iterator<Item = GroupId>) {
        let mut state = self.state.lock();
        state.streams.remove(&stream);
        if let Some(gathered) = &mut state.gathered {
            gathered.newcomers.remove(&stream);
        }
        drop(state);
        self.counters.streams.fetch_sub(1, Ordering::Relaxed);
        while self.close_some(stream, &mut groups) {}
    }

    /// Ends the next subscriptions, in one hold of the lock. Returns whether there may be more.
    pub(super) fn close_some(
        &self,
        stream: WatchStreamId,
        groups: &mut impl Iterator<Item = GroupId>,
    ) -> bool {
        let mut state = self.state.lock();
        let mut ended = 0;
        for group in groups.take(MAX_CLOSED_AT_ONCE) {
            state.groups.unsubscribe(group, stream);
            ended += 1;
        }
        ended == MAX_CLOSED_AT_ONCE
    }
}
