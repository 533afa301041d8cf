//! What a watch stream sends next: fragments, answers, live events and catching up by turns, progress.
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Weak;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::block::Block;
use super::catch_up;
use super::encode::{self, Encoded, Frame, Head};
use super::groups::GroupId;
use super::inbox::Delivery;
use super::stream::{NO_WATCHER, WatchStream};
use super::watcher::{State, Watcher};
use crate::Damaged;

/// What [`WatchStream::next`] has for its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this, then call again.
    Frame(Frame),
    /// A bounded piece of work was done without anything to send: let others run, then call again.
    Busy,
    /// Nothing to do until the stream is woken or given a request.
    Idle,
}

/// A block on its way to the watchers of its group on this stream.
pub(super) struct Sharing {
    encoded: Encoded,
    first: i64,
    last: i64,
    watchers: VecDeque<i64>,
}

/// A revision up to which all was taken from the inbox, and who waits to hear of it.
pub(super) struct Mark {
    revision: i64,
    stream: bool,
    watchers: BTreeSet<i64>,
}

impl WatchStream {
    /// The next frame to send, if there is one; `raft_term` goes into its header. Does a bounded amount of
    /// work.
    ///
    /// # Errors
    /// A watcher needs a value that is damaged, or that moved while it was read. The watcher waits, losing
    /// nothing, until [`retry_damaged`](Self::retry_damaged); the others go on with the next call.
    pub fn next(&mut self, raft_term: u64) -> Result<Next, Damaged> {
        self.raft_term = raft_term;
        if let Some(frame) = self.ready.pop_front() {
            return Ok(Next::Frame(frame));
        }
        if let Some(answer) = self.control.pop_front() {
            self.queue(&answer);
        } else if !self.work()? {
            return Ok(Next::Idle);
        }
        Ok(self.ready.pop_front().map_or(Next::Busy, Next::Frame))
    }

    /// Gives live events and catching up their turns, so that neither can hold up the other. Returns whether
    /// there was anything to do.
    fn work(&mut self) -> Result<bool, Damaged> {
        self.live_turn = !self.live_turn;
        if self.live_turn {
            return Ok(self.deliver() || self.catch_up()?);
        }
        Ok(self.catch_up()? || self.deliver())
    }

    /// Works off a piece of what was taken from the inbox; takes more when nothing is left.
    fn deliver(&mut self) -> bool {
        let refilled = self.is_worked_off() && self.mark.is_none();
        if refilled {
            self.refill();
        }
        if self.is_worked_off() {
            let Some(mark) = self.mark.take() else { return false };
            let again = self.answer_progress(mark);
            return again || !self.ready.is_empty() || !refilled;
        }
        if self.sharing.is_none()
            && let Some(delivery) = self.taken.pop_front()
        {
            match delivery {
                Delivery::Missed { from, through } => self.miss(from, through),
                Delivery::Block { group, first, last, block } => self.begin(group, first, last, &block),
            }
        }
        while self.ready.is_empty() && self.share() {}
        true
    }

    /// Whether nothing is left of what was taken from the inbox.
    fn is_worked_off(&self) -> bool {
        self.sharing.is_none() && self.taken.is_empty()
    }

    fn refill(&mut self) {
        if !self.progress_owed && self.notify_owed.is_empty() {
            return self.inbox.take(&mut self.taken);
        }
        let revision = self.shared.take_between_batches(&self.inbox, &mut self.taken);
        let stream = std::mem::take(&mut self.progress_owed);
        self.mark = Some(Mark { revision, stream, watchers: std::mem::take(&mut self.notify_owed) });
    }

    fn miss(&mut self, from: i64, through: i64) {
        let ids: Vec<i64> = self.watchers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.fall_behind(id, from, through));
    }

    fn fall_behind(&mut self, id: i64, from: i64, through: i64) {
        if self.watchers.get_mut(&id).is_some_and(|watcher| watcher.fall_behind(from, through)) {
            self.behind.insert(id);
            self.shared.counters.slow_watchers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Starts to send a block to the watchers that are in step with it. One that starts in its middle, and
    /// all when its events cannot be had any more, get them from the history.
    fn begin(&mut self, group: GroupId, first: i64, last: i64, block: &Weak<Block>) {
        let Some(members) = self.members.get(&group) else { return };
        let members = members.iter().copied();
        let (watchers, others): (VecDeque<_>, VecDeque<_>) =
            members.partition(|id| self.takes_live(*id, first));
        others.into_iter().for_each(|id| self.fall_behind(id, first, last));
        if watchers.is_empty() {
            return;
        }
        let block = block.upgrade();
        match block.and_then(|block| block.encoded(&*self.shared.values).ok().cloned()) {
            Some(encoded) => self.sharing = Some(Sharing { encoded, first, last, watchers }),
            None => watchers.into_iter().for_each(|id| self.fall_behind(id, first, last)),
        }
    }

    fn takes_live(&self, id: i64, first: i64) -> bool {
        let takes = |state, next| state == State::Synced && next <= first;
        self.watchers.get(&id).is_some_and(|watcher| takes(watcher.state, watcher.next_revision))
    }

    /// Queues the block that is being shared for the next of its watchers.
    fn share(&mut self) -> bool {
        let Some(mut sharing) = self.sharing.take() else { return false };
        let Some(id) = sharing.watchers.pop_front() else { return false };
        // It may have been canceled, and its id taken anew, since the block was begun.
        if self.takes_live(id, sharing.first) {
            self.respond(id, &sharing.encoded, sharing.last);
            self.newest_sent = self.newest_sent.max(sharing.last);
            self.advance(id, sharing.last + 1);
        }
        self.sharing = (!sharing.watchers.is_empty()).then_some(sharing);
        true
    }

    /// Gives one watcher that is behind its turn to read on, together with those that are at the same point.
    fn catch_up(&mut self) -> Result<bool, Damaged> {
        let later = (Bound::Excluded(self.last_turn), Bound::Unbounded);
        let Some(id) = self.behind.range(later).next().or(self.behind.first()).copied() else {
            return Ok(false);
        };
        self.last_turn = id;
        let watcher = &self.watchers[&id];
        let alike = self.alike(watcher);
        let chunk = match catch_up::read(&self.shared, &watcher.shape, watcher.next_revision) {
            Ok(chunk) => chunk,
            Err(compacted) => {
                alike.into_iter().for_each(|id| self.end(id, compacted.at));
                return Ok(true);
            }
        };
        if !chunk.events.is_empty() {
            match encode::events(chunk.events.iter(), watcher.shape.prev_kv, &*self.shared.values) {
                Ok(encoded) => alike.iter().for_each(|id| self.respond(*id, &encoded, chunk.published)),
                Err(damaged) => {
                    alike.iter().for_each(|id| {
                        self.behind.remove(id);
                    });
                    self.stalled.extend(alike);
                    return Err(damaged);
                }
            }
            self.newest_sent = self.newest_sent.max(chunk.next_revision - 1);
        }
        alike.into_iter().for_each(|id| self.advance(id, chunk.next_revision));
        Ok(true)
    }

    /// The watchers that are behind and need the very same events next, in order.
    fn alike(&self, watcher: &Watcher) -> Vec<i64> {
        let same = |other: &Watcher| other.next_revision == watcher.next_revision;
        let members = self.members[&watcher.group].iter().copied();
        members.filter(|id| self.behind.contains(id) && same(&self.watchers[id])).collect()
    }

    /// Notes that a watcher has seen everything below `next_revision`.
    fn advance(&mut self, id: i64, next_revision: i64) {
        let Some(watcher) = self.watchers.get_mut(&id) else { return };
        watcher.next_revision = next_revision;
        if let State::CatchingUp { through } = watcher.state
            && next_revision > through
        {
            watcher.state = State::Synced;
            self.behind.remove(&id);
            self.shared.counters.slow_watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends a watcher whose next revision was compacted. etcd gives the compact revision here, and neither a
    /// reason nor a header revision.
    fn end(&mut self, watch_id: i64, compact_revision: i64) {
        self.unlink(watch_id);
        self.queue(&Head { watch_id, canceled: true, compact_revision, ..Head::default() });
    }

    /// Answers who waits for a mark. Returns whether another mark should be taken at once.
    fn answer_progress(&mut self, mark: Mark) -> bool {
        let revision = mark.revision;
        if self.newest_sent > revision {
            // A watcher that caught up has overtaken the mark: take another one.
            self.progress_owed |= mark.stream;
            self.notify_owed.extend(mark.watchers);
            return true;
        }
        for watch_id in mark.watchers {
            let synced = |watcher: &Watcher| watcher.state == State::Synced;
            if self.watchers.get(&watch_id).is_some_and(|w| synced(w) && w.start_revision <= revision) {
                self.queue(&Head { revision, watch_id, ..Head::default() });
            }
        }
        if mark.stream {
            self.answer_stream_progress(revision);
        }
        false
    }

    fn answer_stream_progress(&mut self, revision: i64) {
        if !(self.behind.is_empty() && self.stalled.is_empty()) {
            self.progress_owed = true;
            return;
        }
        let mut living = self.watchers.values().filter(|watcher| watcher.state != State::Ended).peekable();
        if living.peek().is_some() && living.all(|watcher| watcher.start_revision <= revision) {
            self.queue(&Head { revision, watch_id: NO_WATCHER, ..Head::default() });
        }
    }

    fn encode(&mut self, head: &Head) -> Bytes {
        head.encode(self.shared.identity, self.raft_term, &mut self.heads, self.watchers.len())
    }

    /// Queues a response without events.
    fn queue(&mut self, head: &Head) {
        let head = self.encode(head);
        self.ready.push_back(Frame { head, events: Bytes::new() });
    }

    /// Queues a response with events, in fragments if the watcher wants them and its size asks for them: all
    /// but the last marked, each below the limit unless a single event is above it (etcd's rule).
    fn respond(&mut self, watch_id: i64, events: &Encoded, revision: i64) {
        let Some(watcher) = self.watchers.get_mut(&watch_id) else { return };
        watcher.progress_due = watcher.progress_due.map(|_| false);
        let fragment = watcher.fragment;
        let count = events.len();
        self.shared.counters.events_sent.fetch_add(count as u64, Ordering::Relaxed);
        let mut head = Head { revision, watch_id, ..Head::default() };
        let whole = self.encode(&head);
        if !fragment || whole.len() + events.size(0, count) < self.max_fragment_bytes {
            return self.ready.push_back(Frame { head: whole, events: events.slice(0, count) });
        }
        head.fragment = true;
        let partial = self.encode(&head);
        let mut from = 0;
        while from < count {
            let fits = |to: &usize| partial.len() + events.size(from, *to) < self.max_fragment_bytes;
            let to = (from + 2..=count).take_while(fits).last().unwrap_or(from + 1);
            let head = if to == count { &whole } else { &partial };
            self.ready.push_back(Frame { head: head.clone(), events: events.slice(from, to) });
            from = to;
        }
    }
}
