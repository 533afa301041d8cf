//! A watch stream: the watchers of one RPC, and the requests that change them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::etcdserverpb::WatchCreateRequest;
use bytes::BytesMut;

use super::encode::{EncodedEvents, EncodedResponse, ResponseHead};
use super::event_buffer::{Delivery, EventBuffer, GroupId};
use super::groups::WatchStreamId;
use super::shared::HubShared;
use super::watcher::{self, CreateRefusal, Watcher, WatcherState};

/// The watch id of a response that concerns no watcher: a refused request, or progress of the whole stream.
pub(super) const NO_WATCHER: i64 = -1;

/// The watch id of a request that leaves the choice to the server.
const CHOOSE_ID: i64 = 0;

/// A block that is being sent to the watchers of its group on this stream.
pub(super) struct BlockDelivery {
    pub(super) encoded: EncodedEvents,
    pub(super) first: i64,
    pub(super) last: i64,
    /// Watchers that are still to be sent the block.
    pub(super) watchers: VecDeque<i64>,
}

/// An encoded response that waits to be sent.
pub(super) struct ReadyResponse {
    pub(super) encoded: EncodedResponse,
    pub(super) watch_id: i64,
    /// Whether this is a fragment that continues the response before it: they are not to be parted.
    pub(super) continues: bool,
}

impl ReadyResponse {
    /// Whether answers to later requests may be sent before it.
    pub(super) fn yields(&self) -> bool {
        !self.continues && !self.encoded.events.is_empty()
    }
}

/// A revision up to which all deliveries were taken, and the progress responses that will name it.
pub(super) struct ProgressMark {
    pub(super) revision: i64,
    /// Whether the client asked for the progress of the stream.
    pub(super) stream: bool,
    /// Watchers with a due progress notification.
    pub(super) watchers: BTreeSet<i64>,
}

/// The watchers of one RPC. Owned by the RPC's task, which passes requests to it and calls [`next`](WatchStream::next)
/// until it is idle. Dropping it cancels its watchers.
pub struct WatchStream {
    pub(super) shared: Arc<HubShared>,
    pub(super) id: WatchStreamId,
    pub(super) buffer: Arc<EventBuffer>,
    pub(super) max_fragment_bytes: usize,
    pub(super) raft_term: u64,
    pub(super) watchers: BTreeMap<i64, Watcher>,
    /// The watchers of each group that this stream is subscribed to.
    pub(super) watchers_by_group: BTreeMap<GroupId, BTreeSet<i64>>,
    /// Watchers that catch up, and the one that was served last.
    pub(super) behind: BTreeSet<i64>,
    pub(super) last_served: i64,
    /// Watchers that cannot catch up because of a damaged value, each with the value's address.
    pub(super) stalled: BTreeMap<i64, u64>,
    /// Responses that are encoded.
    pub(super) ready: VecDeque<ReadyResponse>,
    /// Memory for the next response heads.
    pub(super) heads: BytesMut,
    /// Answers to requests. The server takes a bounded number of requests before it sends their answers.
    pub(super) control: VecDeque<ResponseHead>,
    /// Deliveries that were taken from the buffer and not processed yet.
    pub(super) taken: VecDeque<Delivery>,
    /// The block that is being sent.
    pub(super) block: Option<BlockDelivery>,
    /// Progress to be answered once all taken deliveries are processed.
    pub(super) mark: Option<ProgressMark>,
    /// The newest revision of any event that was sent.
    pub(super) newest_sent: i64,
    /// Whether the client asked for the progress of the stream.
    pub(super) progress_owed: bool,
    /// Watchers for which a progress notification is due.
    pub(super) notify_owed: BTreeSet<i64>,
    /// Whether the next step prefers live events to catching up.
    pub(super) prefers_live: bool,
    next_id: i64,
}

impl WatchStream {
    pub(super) fn new(
        shared: Arc<HubShared>,
        id: WatchStreamId,
        buffer: Arc<EventBuffer>,
        max_fragment_bytes: usize,
    ) -> Self {
        Self {
            shared,
            id,
            buffer,
            max_fragment_bytes,
            raft_term: 0,
            watchers: BTreeMap::new(),
            watchers_by_group: BTreeMap::new(),
            behind: BTreeSet::new(),
            last_served: i64::MIN,
            stalled: BTreeMap::new(),
            ready: VecDeque::new(),
            heads: BytesMut::new(),
            control: VecDeque::new(),
            taken: VecDeque::new(),
            block: None,
            mark: None,
            newest_sent: 0,
            progress_owed: false,
            notify_owed: BTreeSet::new(),
            prefers_live: true,
            next_id: CHOOSE_ID,
        }
    }

    /// Creates a watcher, and returns its id; `None` if it is refused. [`next`](Self::next) returns the answer:
    /// created, or refused with a reason.
    pub fn create(&mut self, request: &WatchCreateRequest) -> Option<i64> {
        let (id, answer) = match self.add(request) {
            Ok((watch_id, revision)) => (
                Some(watch_id),
                ResponseHead { revision, watch_id, created: true, ..ResponseHead::default() },
            ),
            Err(refusal) => (None, self.refusal(refusal.to_string().into())),
        };
        self.control.push_back(answer);
        id
    }

    /// Answers a create request that the server does not allow, with etcd's text for the reason.
    pub fn refuse(&mut self, reason: impl Into<Cow<'static, str>>) {
        let answer = self.refusal(reason.into());
        self.control.push_back(answer);
    }

    /// Cancels a watcher. As in etcd, an unknown id is not answered, and the id of a watcher that a compaction ended is
    /// answered once more. Events that are not sent yet are dropped, but for the rest of a response that has begun:
    /// none may follow the answer.
    pub fn cancel(&mut self, watch_id: i64) {
        self.cancel_because(watch_id, String::new());
    }

    /// Cancels a watcher whose caller may not read its range any more, with etcd's text for the reason. No event
    /// follows, not even the rest of a response that has begun.
    pub fn revoke(&mut self, watch_id: i64, reason: String) {
        self.ready.retain(|response| response.watch_id != watch_id);
        self.cancel_because(watch_id, reason);
    }

    /// The watchers that have not ended: their ids, and the first key and the end of their ranges.
    pub fn ranges(&self) -> impl Iterator<Item = (i64, &[u8], &[u8])> {
        let living = self.watchers.iter().filter(|(_, watcher)| watcher.state != WatcherState::Ended);
        living.map(|(id, watcher)| (*id, &watcher.filter.range.start[..], &watcher.filter.range.end[..]))
    }

    fn cancel_because(&mut self, watch_id: i64, reason: String) {
        if self.watchers.contains_key(&watch_id) {
            self.unlink(watch_id);
            self.watchers.remove(&watch_id);
            self.notify_owed.remove(&watch_id);
            if let Some(mark) = &mut self.mark {
                mark.watchers.remove(&watch_id);
            }
            self.drop_ready(watch_id);
            let revision = self.current_revision();
            self.control.push_back(ResponseHead {
                revision,
                watch_id,
                canceled: true,
                cancel_reason: reason.into(),
                ..ResponseHead::default()
            });
        }
    }

    /// Whether answers to requests wait to be sent.
    pub fn has_answers(&self) -> bool {
        !self.control.is_empty()
    }

    /// Requests the progress of the stream. It is answered once all watchers are synced and were sent everything
    /// published before; requests that wait at the same time get one answer. As in etcd, a stream without watchers, or
    /// with one that starts in the future, does not answer.
    pub fn progress(&mut self) {
        self.progress_owed = true;
    }

    /// The progress timer fired: each synced watcher with notifications that was sent nothing since the last time gets
    /// one.
    pub fn notify_progress_due(&mut self) {
        for (id, watcher) in &mut self.watchers {
            if let Some(due) = &mut watcher.progress_due
                && std::mem::replace(due, true)
            {
                self.notify_owed.insert(*id);
            }
        }
    }

    /// Makes the watchers that were stopped by the damaged value at this address read it again.
    pub fn retry_damaged(&mut self, address: u64) {
        self.behind.extend(self.stalled.extract_if(.., |_, stalled| *stalled == address).map(|(id, _)| id));
    }

    /// Drops the responses to a watcher that have not begun.
    fn drop_ready(&mut self, watch_id: i64) {
        let mut has_begun = true;
        self.ready.retain(|response| {
            has_begun &= response.continues;
            has_begun || response.watch_id != watch_id
        });
    }

    fn add(&mut self, request: &WatchCreateRequest) -> Result<(i64, i64), CreateRefusal> {
        let filter = watcher::filter_of(request)?;
        let watch_id = self.choose_id(request.watch_id)?;
        let current = self.current_revision();
        let (group, published) = self.shared.subscribe(&filter, self.id, &self.buffer);
        let current = current.max(published);
        let next_revision = if request.start_revision == 0 { current + 1 } else { request.start_revision };
        let state = match next_revision > published {
            true => WatcherState::Synced,
            false => WatcherState::CatchingUp { through: published },
        };
        if state != WatcherState::Synced {
            self.behind.insert(watch_id);
            self.shared.counters.slow_watchers.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.counters.watchers.fetch_add(1, Ordering::Relaxed);
        self.watchers_by_group.entry(group).or_default().insert(watch_id);
        let watcher = Watcher {
            group,
            filter,
            fragment: request.fragment,
            start_revision: request.start_revision,
            next_revision,
            state,
            progress_due: request.progress_notify.then_some(true),
        };
        self.shared.counters.range_bytes.fetch_add(watcher.range_bytes(), Ordering::Relaxed);
        self.watchers.insert(watch_id, watcher);
        Ok((watch_id, current))
    }

    fn choose_id(&mut self, asked: i64) -> Result<i64, CreateRefusal> {
        if asked != CHOOSE_ID {
            return if self.watchers.contains_key(&asked) {
                Err(CreateRefusal::DuplicateId)
            } else {
                Ok(asked)
            };
        }
        while self.watchers.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        Ok(self.next_id - 1)
    }

    fn refusal(&self, cancel_reason: Cow<'static, str>) -> ResponseHead {
        let revision = self.current_revision();
        ResponseHead {
            revision,
            watch_id: NO_WATCHER,
            created: true,
            canceled: true,
            cancel_reason,
            ..ResponseHead::default()
        }
    }

    /// The newest revision that a client may have read.
    fn current_revision(&self) -> i64 {
        self.shared.history.current_revision().max(self.shared.published())
    }

    /// Ends delivery to a watcher, if it has not ended.
    pub(super) fn unlink(&mut self, watch_id: i64) {
        let Some(watcher) = self.watchers.get_mut(&watch_id) else { return };
        if watcher.state == WatcherState::Ended {
            return;
        }
        let group = watcher.group;
        self.shared.counters.watchers.fetch_sub(1, Ordering::Relaxed);
        self.shared.counters.range_bytes.fetch_sub(watcher.range_bytes(), Ordering::Relaxed);
        if watcher.state != WatcherState::Synced {
            self.shared.counters.slow_watchers.fetch_sub(1, Ordering::Relaxed);
        }
        watcher.state = WatcherState::Ended;
        self.behind.remove(&watch_id);
        self.stalled.remove(&watch_id);
        if let Some(watchers) = self.watchers_by_group.get_mut(&group) {
            watchers.remove(&watch_id);
            if watchers.is_empty() {
                self.watchers_by_group.remove(&group);
                self.shared.unsubscribe(group, self.id);
            }
        }
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        let is_living = |watcher: &&Watcher| watcher.state != WatcherState::Ended;
        let living = self.watchers.values().filter(is_living).count();
        let range_bytes = self.watchers.values().filter(is_living).map(Watcher::range_bytes).sum();
        let slow = self.behind.len() + self.stalled.len();
        self.shared.counters.watchers.fetch_sub(living, Ordering::Relaxed);
        self.shared.counters.range_bytes.fetch_sub(range_bytes, Ordering::Relaxed);
        self.shared.counters.slow_watchers.fetch_sub(slow, Ordering::Relaxed);
        self.shared.close(self.id, self.watchers_by_group.keys().copied());
    }
}
