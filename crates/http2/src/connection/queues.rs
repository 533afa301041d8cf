//! What waits in a connection: requests that did not begin, bytes of requests that are not whole, and streams that are
//! blocked by flow control. What happens to each is decided in `requests.rs`, `receiving.rs` and `outbound.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::stream::ReceiveWindow;
use crate::head::RequestHead;
use crate::limits::{
    MAX_CONNECTION_WINDOW_BYTES, MAX_RESERVED_SILENCE, MAX_UNBLOCKED_PER_ROUND, MAX_WAITING_REQUEST_BYTES,
};

/// Streams that have ended and may still stand in the queues of those that wait, besides two for each open stream.
const MAX_GONE_STREAMS: usize = 64;

/// Streams that end while they wait leave their numbers in a queue, which must not grow forever: drops those that are
/// gone when it is long. Returns how many of the first `counted` are left.
fn drop_gone_counted<E, S>(
    queue: &mut VecDeque<E>,
    streams: &BTreeMap<u32, S>,
    number: impl Fn(&E) -> u32,
    counted: usize,
) -> usize {
    if queue.len() <= 2 * streams.len() + MAX_GONE_STREAMS {
        return counted;
    }
    let (mut seen, mut left) = (0, 0);
    queue.retain(|entry| {
        let is_open = streams.contains_key(&number(entry));
        left += usize::from(is_open && seen < counted);
        seen += 1;
        is_open
    });
    left
}

/// Drops the streams of a long queue that are gone.
pub(super) fn drop_gone<E, S>(
    queue: &mut VecDeque<E>,
    streams: &BTreeMap<u32, S>,
    number: impl Fn(&E) -> u32,
) {
    drop_gone_counted(queue, streams, number, 0);
}

/// What a request that waits takes besides its head: a stream.
const WAITING_REQUEST_BYTES: usize = 512;

/// Requests that have come and did not begin.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    /// By stream, which is the order in which they came.
    usual: BTreeMap<u32, Arc<RequestHead>>,
    /// Those that begin although there is no room for answers.
    urgent: BTreeMap<u32, Arc<RequestHead>>,
    bytes: usize,
}

impl WaitingRequests {
    fn bytes_of(head: &RequestHead) -> usize {
        head.size() + WAITING_REQUEST_BYTES
    }

    /// Adds one, unless too much waits; whether it was added. One is always taken.
    pub(super) fn push(&mut self, stream: u32, head: Arc<RequestHead>, is_urgent: bool) -> bool {
        let bytes = WaitingRequests::bytes_of(&head);
        let fits = self.bytes == 0 || self.bytes + bytes <= MAX_WAITING_REQUEST_BYTES;
        if fits {
            self.bytes += bytes;
            let heads = if is_urgent { &mut self.urgent } else { &mut self.usual };
            heads.insert(stream, head);
        }
        fits
    }

    /// The next one; without room the next urgent one.
    pub(super) fn pop(&mut self, has_room: bool) -> Option<(u32, Arc<RequestHead>)> {
        let first = |heads: &BTreeMap<u32, _>| heads.first_key_value().map(|(stream, _)| *stream);
        let usual = first(&self.usual).filter(|_| has_room);
        let is_usual = usual.is_some_and(|usual| first(&self.urgent).is_none_or(|urgent| usual < urgent));
        let heads = if is_usual { &mut self.usual } else { &mut self.urgent };
        let (stream, head) = heads.pop_first()?;
        self.bytes -= WaitingRequests::bytes_of(&head);
        Some((stream, head))
    }

    /// Drops one whose stream is gone, if it waits.
    pub(super) fn remove(&mut self, stream: u32) {
        if let Some(head) = self.usual.remove(&stream).or_else(|| self.urgent.remove(&stream)) {
            self.bytes -= WaitingRequests::bytes_of(&head);
        }
    }

    /// Bytes of all that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What a connection knows of the requests that come.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) window: ReceiveWindow,
    /// Bytes of the streams' `held`.
    pub(super) held: usize,
    /// Bytes of the streams' `reserved`.
    pub(super) reserved: usize,
    /// Streams with reserved room, and since when nothing has come on each while others wait for room.
    pub(super) granted: BTreeMap<u32, Option<Duration>>,
    /// Streams that wait for room, and how much, the first first. The first one is open.
    pub(super) reserving: VecDeque<(u32, usize)>,
    /// Streams with a part of a message and no reserved room.
    pub(super) incomplete: BTreeSet<u32>,
}

impl Default for Receiving {
    fn default() -> Receiving {
        Receiving {
            window: ReceiveWindow::new(MAX_CONNECTION_WINDOW_BYTES),
            held: 0,
            reserved: 0,
            granted: BTreeMap::new(),
            reserving: VecDeque::new(),
            incomplete: BTreeSet::new(),
        }
    }
}

impl Receiving {
    /// Bytes that are held, or have room reserved.
    pub(super) fn held_bytes(&self) -> usize {
        self.held + self.reserved
    }

    /// Notes which streams with reserved room are silent while others wait for it; whether there is another one.
    pub(super) fn note_silence(&mut self, now: Duration) -> bool {
        let is_awaited = !self.reserving.is_empty();
        let mut is_new = false;
        for since in self.granted.values_mut() {
            is_new |= is_awaited && since.is_none();
            *since = is_awaited.then(|| since.unwrap_or(now));
        }
        is_new
    }

    /// When the next stream has been silent for too long, unless DATA comes on it.
    pub(super) fn silence_ends(&self) -> Option<Duration> {
        let since = self.granted.values().flatten().min().filter(|_| !self.reserving.is_empty())?;
        Some(*since + MAX_RESERVED_SILENCE)
    }

    /// A stream that has been silent for too long.
    pub(super) fn silent(&self, now: Duration) -> Option<u32> {
        self.silence_ends().filter(|at| *at <= now)?;
        let (stream, _) =
            self.granted.iter().filter(|(_, since)| since.is_some()).min_by_key(|(_, since)| **since)?;
        Some(*stream)
    }
}

/// Streams that have data and are blocked by flow control. When the initial window grows, each is looked at once, some
/// at a time: a client that raises it again and again must not have all looked at each time.
#[derive(Debug, Default)]
pub(super) struct BlockedStreams {
    pub(super) streams: VecDeque<u32>,
    /// How many of them, the first ones, were not looked at since.
    pub(super) unvisited: usize,
}

impl BlockedStreams {
    /// The initial window has grown.
    pub(super) fn visit_all(&mut self) {
        self.unvisited = self.streams.len();
    }

    /// Removes the next ones that are to be looked at.
    pub(super) fn take_unvisited(&mut self) -> impl Iterator<Item = u32> + use<> {
        let count = self.unvisited.min(MAX_UNBLOCKED_PER_ROUND);
        self.unvisited -= count;
        let taken: Vec<u32> = self.streams.drain(..count).collect();
        taken.into_iter()
    }

    /// Drops those that are gone, if there are many.
    pub(super) fn drop_gone<S>(&mut self, streams: &BTreeMap<u32, S>) {
        self.unvisited = drop_gone_counted(&mut self.streams, streams, |stream| *stream, self.unvisited);
    }
}

#[cfg(test)]
mod tests {
    //! What is counted of a queue stays right when streams of it end.
    use super::*;

    #[test]
    fn streams_that_are_gone_are_not_to_be_looked_at() {
        let mut blocked = BlockedStreams { streams: (0..200).collect(), unvisited: 0 };
        blocked.visit_all();
        blocked.streams.extend(200..300);
        let mut open: BTreeMap<u32, ()> =
            (0..300).filter(|stream| stream % 10 == 0).map(|stream| (stream, ())).collect();
        blocked.drop_gone(&open);
        assert_eq!((blocked.streams.len(), blocked.unvisited), (30, 20));
        assert!(blocked.take_unvisited().eq((0..200).step_by(10)));
        assert_eq!((blocked.streams.len(), blocked.unvisited), (10, 0));
        // A short queue is left alone.
        open.clear();
        blocked.drop_gone(&open);
        assert_eq!(blocked.streams.len(), 10);
    }
}
