//! What a watch stream sends next: fragments, answers to requests, live events, history, progress.
//!
//! [`WatchStream::next`] does one bounded step. Its order of preference:
//!
//! 1. the rest of a response of which a fragment was sent: fragments of one response stay together;
//! 2. answers to requests (`control`), before encoded events (`ready`) of other watchers, which may be many;
//! 3. responses that are encoded;
//! 4. live events and catching up, alternately, so that neither can starve the other;
//! 5. progress, once everything taken from the event buffer is processed.
//!
//! An answer overtakes events only. Progress that is encoded goes first: it speaks for the watchers that exist, and a
//! client that had been told of another one before would think that it speaks for that one too.
//!
//! ```text
//! ready  [events of 0, events of 1 (2 fragments), events of 2]      control  -
//! next() -> events of 0; next() -> first fragment of 1
//! create(9), cancel(2)                 events of 2 are dropped      control  [created 9, canceled 2]
//! next() -> last fragment of 1; next() -> created 9; next() -> canceled 2
//! ```

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Weak;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::block::EventBlock;
use super::catch_up;
use super::encode::{self, EncodedEvents, EncodedResponse, ResponseHead};
use super::event_buffer::{Delivery, GroupId};
use super::stream::{BlockDelivery, NO_WATCHER, ProgressMark, ReadyResponse, WatchStream};
use super::watcher::{Watcher, WatcherState};
use crate::values::Damaged;

/// What the stream's handler does next; see [`WatchStream::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextResponse {
    /// Send this, then call again.
    Send(EncodedResponse),
    /// Nothing to send after a bounded amount of work: let other tasks run, then call again.
    Busy,
    /// Nothing to do until the stream is woken or given a request.
    Idle,
}

impl WatchStream {
    /// The next response to send, if there is one, with `raft_term` in its header. Does a bounded amount of work.
    ///
    /// # Errors
    /// [`Damaged`]: a watcher needs a value that is damaged, or that was relocated while it was read. The watcher
    /// stalls, without losing events, until [`retry_damaged`](Self::retry_damaged). The next call serves the
    /// others.
    pub fn next(&mut self, raft_term: u64) -> Result<NextResponse, Damaged> {
        self.raft_term = raft_term;
        if self.ready.front().is_none_or(ReadyResponse::yields)
            && let Some(answer) = self.control.pop_front()
        {
            let (watch_id, head) = (answer.watch_id, self.encode(&answer));
            return Ok(NextResponse::Send(EncodedResponse { watch_id, head, events: Bytes::new() }));
        }
        if self.ready.is_empty() && !self.serve_watchers()? {
            return Ok(NextResponse::Idle);
        }
        let response = self.ready.pop_front();
        Ok(response.map_or(NextResponse::Busy, |response| NextResponse::Send(response.encoded)))
    }

    /// Serves live events or catching up, alternately. Returns whether there was anything to do.
    fn serve_watchers(&mut self) -> Result<bool, Damaged> {
        self.prefers_live = !self.prefers_live;
        if self.prefers_live {
            return Ok(self.process_delivery() || self.catch_up()?);
        }
        Ok(self.catch_up()? || self.process_delivery())
    }

    /// Processes one delivery; takes more from the buffer if none is left. Returns whether there was anything to do.
    fn process_delivery(&mut self) -> bool {
        let refilled = self.is_processed() && self.mark.is_none();
        if refilled {
            self.refill();
        }
        if self.is_processed() {
            let Some(mark) = self.mark.take() else { return false };
            // There was something to do if an answer was queued or another mark must be taken. If the mark was older
            // than this call, deliveries may have arrived since the buffer was last taken: look again.
            let overtaken = self.answer_progress(mark);
            return overtaken || !self.ready.is_empty() || !refilled;
        }
        if self.block.is_none()
            && let Some(delivery) = self.taken.pop_front()
        {
            match delivery {
                Delivery::Missed { from, through } => self.miss(from, through),
                Delivery::Block { group, first, last, block } => self.begin_block(group, first, last, &block),
            }
        }
        while self.ready.is_empty() && self.send_block() {}
        true
    }

    /// Whether all taken deliveries are processed.
    fn is_processed(&self) -> bool {
        self.block.is_none() && self.taken.is_empty()
    }

    /// Takes deliveries from the buffer; with a mark, if progress is to be answered.
    fn refill(&mut self) {
        if !self.progress_owed && self.notify_owed.is_empty() {
            return self.buffer.take(&mut self.taken);
        }
        let revision = self.shared.take_between_batches(&self.buffer, &mut self.taken);
        let stream = std::mem::take(&mut self.progress_owed);
        self.mark = Some(ProgressMark { revision, stream, watchers: std::mem::take(&mut self.notify_owed) });
    }

    /// Makes the watchers of all groups catch up on these revisions.
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

    /// Begins to send a block to the watchers of its group that need all of it next. A watcher that needs only its end
    /// reads history instead; so do all if the block has left the tail or cannot be encoded.
    fn begin_block(&mut self, group: GroupId, first: i64, last: i64, block: &Weak<EventBlock>) {
        let Some(watchers) = self.watchers_by_group.get(&group) else { return };
        let all = watchers.iter().copied();
        let (watchers, others): (VecDeque<_>, VecDeque<_>) = all.partition(|id| self.takes_live(*id, first));
        others.into_iter().for_each(|id| self.fall_behind(id, first, last));
        if watchers.is_empty() {
            return;
        }
        let block = block.upgrade();
        match block.and_then(|block| block.encoded(&*self.shared.values).ok().cloned()) {
            Some(encoded) => self.block = Some(BlockDelivery { encoded, first, last, watchers }),
            None => watchers.into_iter().for_each(|id| self.fall_behind(id, first, last)),
        }
    }

    /// Whether a watcher takes a live block that begins at `first`.
    fn takes_live(&self, id: i64, first: i64) -> bool {
        let takes = |state, next| state == WatcherState::Synced && next <= first;
        self.watchers.get(&id).is_some_and(|watcher| takes(watcher.state, watcher.next_revision))
    }

    /// Queues the present block for the next of its watchers, unless that one was canceled. Returns false when there is
    /// no block or no watcher left.
    fn send_block(&mut self) -> bool {
        let Some(mut block) = self.block.take() else { return false };
        let Some(id) = block.watchers.pop_front() else { return false };
        // The watcher may have been canceled, and its id given to another, since the block was begun.
        if self.takes_live(id, block.first) {
            self.respond(id, &block.encoded, block.last);
            self.newest_sent = self.newest_sent.max(block.last);
            self.advance(id, block.last + 1);
        }
        self.block = (!block.watchers.is_empty()).then_some(block);
        true
    }

    /// Reads the next chunk of history for one watcher that is behind, and for those of its group at the same revision.
    fn catch_up(&mut self) -> Result<bool, Damaged> {
        let later = (Bound::Excluded(self.last_served), Bound::Unbounded);
        let Some(id) = self.behind.range(later).next().or(self.behind.first()).copied() else {
            return Ok(false);
        };
        self.last_served = id;
        let watcher = &self.watchers[&id];
        let same = self.at_same_revision(watcher);
        let chunk = match catch_up::read(&self.shared, &watcher.filter, watcher.next_revision) {
            Ok(chunk) => chunk,
            Err(compacted) => {
                same.into_iter().for_each(|id| self.end(id, compacted.at));
                return Ok(true);
            }
        };
        if !chunk.events.is_empty() {
            match encode::events(chunk.events.iter(), watcher.filter.prev_kv, &*self.shared.values) {
                Ok(encoded) => same.iter().for_each(|id| self.respond(*id, &encoded, chunk.published)),
                Err(damaged) => {
                    same.iter().for_each(|id| {
                        self.behind.remove(id);
                    });
                    self.stalled.extend(same.into_iter().map(|id| (id, damaged.address)));
                    return Err(damaged);
                }
            }
            self.newest_sent = self.newest_sent.max(chunk.next_revision - 1);
        }
        same.into_iter().for_each(|id| self.advance(id, chunk.next_revision));
        Ok(true)
    }

    /// The watchers that are behind and need the same events next, in order.
    fn at_same_revision(&self, watcher: &Watcher) -> Vec<i64> {
        let same = |other: &Watcher| other.next_revision == watcher.next_revision;
        let all = self.watchers_by_group[&watcher.group].iter().copied();
        all.filter(|id| self.behind.contains(id) && same(&self.watchers[id])).collect()
    }

    /// Notes that a watcher has seen everything below `next_revision`.
    fn advance(&mut self, id: i64, next_revision: i64) {
        let Some(watcher) = self.watchers.get_mut(&id) else { return };
        assert!(watcher.next_revision <= next_revision, "a watcher never goes back");
        watcher.next_revision = next_revision;
        if let WatcherState::CatchingUp { through } = watcher.state
            && next_revision > through
        {
            watcher.state = WatcherState::Synced;
            self.behind.remove(&id);
            self.shared.counters.slow_watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends a watcher whose next revision was compacted. As in etcd, the response has the compact revision, and
    /// neither a reason nor a header revision.
    fn end(&mut self, watch_id: i64, compact_revision: i64) {
        self.unlink(watch_id);
        self.queue(&ResponseHead { watch_id, canceled: true, compact_revision, ..ResponseHead::default() });
    }

    /// Sends the progress responses of a mark. Returns whether another mark must be taken instead.
    fn answer_progress(&mut self, mark: ProgressMark) -> bool {
        let revision = mark.revision;
        if self.newest_sent > revision {
            // A watcher that caught up was sent events above the mark: take another.
            self.progress_owed |= mark.stream;
            self.notify_owed.extend(mark.watchers);
            return true;
        }
        for watch_id in mark.watchers {
            let synced = |watcher: &Watcher| watcher.state == WatcherState::Synced;
            if self.watchers.get(&watch_id).is_some_and(|w| synced(w) && w.start_revision <= revision) {
                self.queue(&ResponseHead { revision, watch_id, ..ResponseHead::default() });
            }
        }
        if mark.stream {
            self.answer_stream_progress(revision);
        }
        false
    }

    /// Sends the progress of the stream, if no watcher is behind.
    fn answer_stream_progress(&mut self, revision: i64) {
        if !(self.behind.is_empty() && self.stalled.is_empty()) {
            self.progress_owed = true;
            return;
        }
        let mut living =
            self.watchers.values().filter(|watcher| watcher.state != WatcherState::Ended).peekable();
        if living.peek().is_some() && living.all(|watcher| watcher.start_revision <= revision) {
            self.queue(&ResponseHead { revision, watch_id: NO_WATCHER, ..ResponseHead::default() });
        }
    }

    fn encode(&mut self, head: &ResponseHead) -> Bytes {
        head.encode(self.shared.identity, self.raft_term, &mut self.heads, self.watchers.len())
    }

    /// Queues a response without events.
    fn queue(&mut self, head: &ResponseHead) {
        let watch_id = head.watch_id;
        let encoded = EncodedResponse { watch_id, head: self.encode(head), events: Bytes::new() };
        self.ready.push_back(ReadyResponse { encoded, watch_id, continues: false });
    }

    /// Queues a response with events; in fragments if the watcher wants them and the response exceeds the limit. As in
    /// etcd, all fragments but the last are marked, and each is below the limit unless it is a single event.
    fn respond(&mut self, watch_id: i64, events: &EncodedEvents, header_revision: i64) {
        let Some(watcher) = self.watchers.get_mut(&watch_id) else { return };
        watcher.progress_due = watcher.progress_due.map(|_| false);
        let fragment = watcher.fragment;
        let count = events.len();
        self.shared.counters.events_sent.fetch_add(count as u64, Ordering::Relaxed);
        let mut head = ResponseHead { revision: header_revision, watch_id, ..ResponseHead::default() };
        let whole = self.encode(&head);
        if !fragment || whole.len() + events.size(0, count) < self.max_fragment_bytes {
            let encoded = EncodedResponse { watch_id, head: whole, events: events.slice(0, count) };
            return self.ready.push_back(ReadyResponse { encoded, watch_id, continues: false });
        }
        head.fragment = true;
        let partial = self.encode(&head);
        let mut from = 0;
        while from < count {
            let fits = |to: &usize| partial.len() + events.size(from, *to) < self.max_fragment_bytes;
            let to = (from + 2..=count).take_while(fits).last().unwrap_or(from + 1);
            let head = if to == count { &whole } else { &partial };
            let encoded = EncodedResponse { watch_id, head: head.clone(), events: events.slice(from, to) };
            let continues = from > 0;
            self.ready.push_back(ReadyResponse { encoded, watch_id, continues });
            from = to;
        }
    }
}
