//! One watch stream: the watchers of one RPC, and the requests that change them.
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::etcdserverpb::WatchCreateRequest;
use bytes::BytesMut;

use super::MAX_CONTROL_RESPONSES;
use super::encode::{Frame, Head};
use super::groups::{GroupId, StreamId};
use super::hub::Shared;
use super::inbox::{Delivery, Inbox};
use super::sending::{Mark, Sharing};
use super::watcher::{self, Refusal, State, Watcher};

/// The id in a response that is about no watcher: a refused request, or progress of the whole stream.
pub(super) const NO_WATCHER: i64 = -1;

/// The id in a request that leaves the choice to us.
const CHOOSE_ID: i64 = 0;

/// The watchers of one RPC. Owned by the RPC's task, which feeds it requests and calls
/// [`next`](WatchStream::next) until it is idle; dropping it cancels its watchers.
pub struct WatchStream {
    pub(super) shared: Arc<Shared>,
    pub(super) id: StreamId,
    pub(super) inbox: Arc<Inbox>,
    pub(super) max_fragment_bytes: usize,
    pub(super) raft_term: u64,
    pub(super) watchers: BTreeMap<i64, Watcher>,
    /// The watchers of each group that this stream is subscribed to.
    pub(super) members: BTreeMap<GroupId, BTreeSet<i64>>,
    /// Watchers that catch up, and the one that had the last turn.
    pub(super) behind: BTreeSet<i64>,
    pub(super) last_turn: i64,
    /// Watchers that would catch up but for a damaged value.
    pub(super) stalled: BTreeSet<i64>,
    /// What is to be sent before anything else: the fragments of a response may not be interleaved.
    pub(super) ready: VecDeque<Frame>,
    /// Room for the next heads.
    pub(super) heads: BytesMut,
    /// Answers to requests.
    pub(super) control: VecDeque<Head>,
    /// Taken from the inbox and not looked at yet.
    pub(super) taken: VecDeque<Delivery>,
    /// The block that is being sent to its watchers.
    pub(super) sharing: Option<Sharing>,
    /// Progress to be answered once all that was taken is worked off.
    pub(super) mark: Option<Mark>,
    /// No event sent is above this revision.
    pub(super) newest_sent: i64,
    /// The client asked for the progress of the stream.
    pub(super) progress_owed: bool,
    /// Watchers that the timer found due for progress.
    pub(super) notify_owed: BTreeSet<i64>,
    /// Whose turn it is: live events or catching up.
    pub(super) live_turn: bool,
    next_id: i64,
}

impl WatchStream {
    pub(super) fn new(
        shared: Arc<Shared>,
        id: StreamId,
        inbox: Arc<Inbox>,
        max_fragment_bytes: usize,
    ) -> Self {
        Self {
            shared,
            id,
            inbox,
            max_fragment_bytes,
            raft_term: 0,
            watchers: BTreeMap::new(),
            members: BTreeMap::new(),
            behind: BTreeSet::new(),
            last_turn: i64::MIN,
            stalled: BTreeSet::new(),
            ready: VecDeque::new(),
            heads: BytesMut::new(),
            control: VecDeque::new(),
            taken: VecDeque::new(),
            sharing: None,
            mark: None,
            newest_sent: 0,
            progress_owed: false,
            notify_owed: BTreeSet::new(),
            live_turn: true,
            next_id: CHOOSE_ID,
        }
    }

    /// Creates a watcher. The answer, `created` or the reason why not, comes out of [`next`](Self::next).
    pub fn create(&mut self, request: &WatchCreateRequest) {
        let answer = match self.add(request) {
            Ok((watch_id, revision)) => Head { revision, watch_id, created: true, ..Head::default() },
            Err(refusal) => self.refusal(refusal.to_string().into()),
        };
        self.control.push_back(answer);
    }

    /// Answers a create request that the server does not allow, with the reason as etcd words it.
    pub fn refuse(&mut self, reason: impl Into<Cow<'static, str>>) {
        let answer = self.refusal(reason.into());
        self.control.push_back(answer);
    }

    /// Cancels a watcher. As with etcd, an unknown id is not answered, and one whose watcher was ended by a
    /// compaction is answered once more.
    pub fn cancel(&mut self, watch_id: i64) {
        if self.watchers.contains_key(&watch_id) {
            self.unlink(watch_id);
            self.watchers.remove(&watch_id);
            self.notify_owed.remove(&watch_id);
            let revision = self.current_revision();
            self.control.push_back(Head { revision, watch_id, canceled: true, ..Head::default() });
        }
    }

    /// Asks for the progress of the stream. The answer comes when all watchers are synced and have what was
    /// published before it; requests that wait together get one answer. A stream without watchers, or with
    /// one that starts in the future, gives none (etcd's rule).
    pub fn progress(&mut self) {
        self.progress_owed = true;
    }

    /// The progress timer fired: each watcher that asked for notifications and was sent nothing since the
    /// last time gets one, if it is synced.
    pub fn notify_progress_due(&mut self) {
        for (id, watcher) in &mut self.watchers {
            if let Some(due) = &mut watcher.progress_due
                && std::mem::replace(due, true)
            {
                self.notify_owed.insert(*id);
            }
        }
    }

    /// Lets watchers that met a damaged value try again.
    pub fn retry_damaged(&mut self) {
        self.behind.append(&mut self.stalled);
    }

    /// Whether so many answers wait that the server should send before it reads another request.
    pub fn is_backlogged(&self) -> bool {
        self.control.len() >= MAX_CONTROL_RESPONSES
    }

    fn add(&mut self, request: &WatchCreateRequest) -> Result<(i64, i64), Refusal> {
        let shape = watcher::shape(request)?;
        let watch_id = self.choose_id(request.watch_id)?;
        let current = self.current_revision();
        let (group, published) = self.shared.subscribe(&shape, self.id, &self.inbox);
        let current = current.max(published);
        let next_revision = if request.start_revision == 0 { current + 1 } else { request.start_revision };
        let state = match next_revision > published {
            true => State::Synced,
            false => State::CatchingUp { through: published },
        };
        if state != State::Synced {
            self.behind.insert(watch_id);
            self.shared.counters.slow_watchers.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.counters.watchers.fetch_add(1, Ordering::Relaxed);
        self.members.entry(group).or_default().insert(watch_id);
        let watcher = Watcher {
            group,
            shape,
            fragment: request.fragment,
            start_revision: request.start_revision,
            next_revision,
            state,
            progress_due: request.progress_notify.then_some(true),
        };
        self.watchers.insert(watch_id, watcher);
        Ok((watch_id, current))
    }

    fn choose_id(&mut self, asked: i64) -> Result<i64, Refusal> {
        if asked != CHOOSE_ID {
            return if self.watchers.contains_key(&asked) { Err(Refusal::DuplicateId) } else { Ok(asked) };
        }
        while self.watchers.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        Ok(self.next_id - 1)
    }

    fn refusal(&self, cancel_reason: Cow<'static, str>) -> Head {
        let revision = self.current_revision();
        Head {
            revision,
            watch_id: NO_WATCHER,
            created: true,
            canceled: true,
            cancel_reason,
            ..Head::default()
        }
    }

    /// The newest revision that a client can have read.
    fn current_revision(&self) -> i64 {
        self.shared.history.current_revision().max(self.shared.published())
    }

    /// Ends deliveries to a watcher, if it still gets any.
    pub(super) fn unlink(&mut self, watch_id: i64) {
        let Some(watcher) = self.watchers.get_mut(&watch_id) else { return };
        if watcher.state == State::Ended {
            return;
        }
        let group = watcher.group;
        self.shared.counters.watchers.fetch_sub(1, Ordering::Relaxed);
        if watcher.state != State::Synced {
            self.shared.counters.slow_watchers.fetch_sub(1, Ordering::Relaxed);
        }
        watcher.state = State::Ended;
        self.behind.remove(&watch_id);
        self.stalled.remove(&watch_id);
        if let Some(members) = self.members.get_mut(&group) {
            members.remove(&watch_id);
            if members.is_empty() {
                self.members.remove(&group);
                self.shared.unsubscribe(group, self.id);
            }
        }
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        let living = self.watchers.values().filter(|watcher| watcher.state != State::Ended).count();
        let slow = self.behind.len() + self.stalled.len();
        self.shared.counters.watchers.fetch_sub(living, Ordering::Relaxed);
        self.shared.counters.slow_watchers.fetch_sub(slow, Ordering::Relaxed);
        self.shared.close(self.id, self.members.keys().copied());
    }
}
