//! A connection as its calls see it: each reads and writes its own stream.
//!
//! The connection is behind a lock that only one thread takes, that of its task: calls run inside it. What a call
//! writes leaves with the round in which it was polled. What it waits for is a waker in its stream's slot.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http2::{Connection, ErrorCode, StreamGone};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::overload::ConnectionRanges;

/// The client has gone; an answer would have no receiver.
#[derive(Debug)]
pub(crate) struct ClientGone;

/// What a call waits for, kept in its stream.
#[derive(Debug, Default)]
pub(super) struct CallWakers {
    /// DATA of the client, or its end.
    pub(super) reader: Option<Waker>,
    /// Room for more data, or a reset.
    pub(super) writer: Option<Waker>,
}

/// Keeps a task's waker.
fn keep(slot: &mut Option<Waker>, context: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(context.waker()),
        None => *slot = Some(context.waker().clone()),
    }
}

/// A connection, shared by its task and its calls.
#[derive(Clone)]
pub(super) struct ConnectionHandle(Arc<SharedConnection>);

struct SharedConnection {
    began: Instant,
    http2: Mutex<Connection<CallWakers>>,
    /// Streams whose calls wait for room.
    waiting: Mutex<BTreeMap<u32, Waker>>,
    /// Its long ranges, from the first one on.
    long_ranges: OnceLock<ConnectionRanges>,
}

/// Calls that are woken together when there is room: each may take all of it.
const MAX_WOKEN_CALLS: usize = 16;

impl ConnectionHandle {
    /// A connection that begins now.
    pub(super) fn new(http2: Connection<CallWakers>) -> ConnectionHandle {
        let (http2, waiting) = (Mutex::new(http2), Mutex::default());
        let (began, long_ranges) = (Instant::now(), OnceLock::new());
        ConnectionHandle(Arc::new(SharedConnection { began, http2, waiting, long_ranges }))
    }

    /// The connection, for a moment: nothing may be polled or dropped meanwhile that could ask for it too.
    pub(super) fn lock(&self) -> MutexGuard<'_, Connection<CallWakers>> {
        self.0.http2.lock()
    }

    /// Wakes some of the calls that wait for room, if there is room; whether there were any.
    pub(super) fn wake_waiting(&self) -> bool {
        let mut waiting = self.0.waiting.lock();
        if waiting.is_empty() || !self.lock().has_room() {
            return false;
        }
        let woken: Vec<Waker> =
            std::iter::from_fn(|| waiting.pop_first()).take(MAX_WOKEN_CALLS).map(|(_, w)| w).collect();
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
        true
    }

    /// What would wake the call of a stream that is gone when there is room.
    pub(super) fn forget_waiting(&self, stream: u32) -> Option<Waker> {
        self.0.waiting.lock().remove(&stream)
    }

    /// Time since the connection began.
    pub(super) fn now(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// When a time of the connection is.
    pub(super) fn instant(&self, at: Duration) -> Option<Instant> {
        self.0.began.checked_add(at)
    }

    /// One of its streams.
    pub(super) fn stream(&self, stream: u32) -> StreamHandle {
        StreamHandle { connection: self.clone(), stream }
    }
}

/// What of the bytes that have come is whole messages, and how many bytes the one behind them has.
pub(super) struct Arrival {
    pub(super) whole_bytes: usize,
    pub(super) next_bytes: usize,
}

/// What a stream has received.
pub(super) enum Arrived {
    Messages(Vec<u8>),
    /// The end of the client's half, behind so many bytes that are no message.
    End(usize),
}

/// A stream.
#[derive(Clone)]
pub(super) struct StreamHandle {
    connection: ConnectionHandle,
    stream: u32,
}

impl StreamHandle {
    /// Does something with the stream, in one go.
    pub(super) fn with<R>(
        &self,
        act: impl FnOnce(&mut Connection<CallWakers>, u32) -> Result<R, StreamGone>,
    ) -> Result<R, ClientGone> {
        act(&mut self.connection.lock(), self.stream).map_err(|StreamGone| ClientGone)
    }

    /// Resets the stream, unless it is over.
    pub(super) fn reset(&self, code: ErrorCode) {
        self.connection.lock().reset(self.stream, code);
    }

    /// Refuses the request as one for which nothing was done: a client's library sends it again by itself, over another
    /// connection, because it hears first that this one ends.
    pub(super) fn refuse(&self) {
        let now = self.connection.now();
        let mut connection = self.connection.lock();
        connection.shut_down(now);
        connection.reset(self.stream, ErrorCode::RefusedStream);
    }

    /// DATA of a body that has come; empty at the end of the client's half.
    pub(super) fn poll_body(&self, context: &Context<'_>) -> Poll<Result<Vec<u8>, ClientGone>> {
        let polled = self.with(|connection, stream| {
            let data = connection.take_body(stream)?;
            if !data.is_empty() || connection.is_finished(stream)? {
                return Ok(Poll::Ready(data));
            }
            keep(&mut connection.slot(stream)?.reader, context);
            Ok(Poll::Pending)
        });
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(gone) => Poll::Ready(Err(gone)),
        }
    }

    /// The whole messages that have come, or the end of the client's half.
    pub(super) fn poll_messages<E>(
        &self,
        context: &Context<'_>,
        arrival: impl FnOnce(&[u8]) -> Result<Arrival, E>,
    ) -> Result<Poll<Result<Arrived, E>>, ClientGone> {
        self.with(|connection, stream| {
            let unread = connection.unread(stream)?;
            let arrival = match arrival(unread) {
                Ok(arrival) => arrival,
                Err(error) => return Ok(Poll::Ready(Err(error))),
            };
            let come = unread.len();
            if arrival.whole_bytes > 0 {
                let taken = connection.take_data(stream, arrival.whole_bytes)?;
                return Ok(Poll::Ready(Ok(Arrived::Messages(taken))));
            }
            if connection.has_ended(stream)? {
                return Ok(Poll::Ready(Ok(Arrived::End(come))));
            }
            if come > 0 {
                connection.reserve(stream, arrival.next_bytes)?;
            }
            keep(&mut connection.slot(stream)?.reader, context);
            Ok(Poll::Pending)
        })
    }

    /// Whether a value of so many bytes may come; if not, the reader of the stream is woken when it may.
    pub(super) fn poll_reserved(&self, context: &Context<'_>, bytes: usize) -> Result<bool, ClientGone> {
        self.with(|connection, stream| {
            let has_room = connection.reserve(stream, bytes)?;
            if !has_room {
                keep(&mut connection.slot(stream)?.reader, context);
            }
            Ok(has_room)
        })
    }

    /// Whether another answer may be made, or the client is gone: then nothing is to be waited for.
    pub(super) fn has_room(&self) -> bool {
        let mut connection = self.connection.lock();
        connection.has_room() || connection.slot(self.stream).is_err()
    }

    /// Waits until another answer may be made, or the client is gone.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        self.connection.0.waiting.lock().insert(self.stream, context.waker().clone());
        Poll::Pending
    }

    /// The connection's long ranges, if it had any.
    pub(super) fn long_ranges(&self) -> &OnceLock<ConnectionRanges> {
        &self.connection.0.long_ranges
    }

    /// Whether the client's half is over and all of it was taken.
    pub(super) fn is_finished(&self) -> bool {
        self.with(|connection, stream| connection.is_finished(stream)).unwrap_or(true)
    }

    /// Waits until all data is on its way.
    pub(super) fn poll_sent(&self, context: &Context<'_>) -> Poll<Result<(), ClientGone>> {
        let is_sent = self.with(|connection, stream| {
            let is_sent = connection.is_sent(stream)?;
            if !is_sent {
                keep(&mut connection.slot(stream)?.writer, context);
            }
            Ok(is_sent)
        });
        match is_sent {
            Ok(false) => Poll::Pending,
            other => Poll::Ready(other.map(drop)),
        }
    }

    /// Waits until the client resets the stream.
    pub(super) fn poll_gone(&self, context: &Context<'_>) -> Poll<ClientGone> {
        let kept = self.with(|connection, stream| {
            keep(&mut connection.slot(stream)?.writer, context);
            Ok(())
        });
        kept.map_or_else(Poll::Ready, |()| Poll::Pending)
    }
}

#[cfg(test)]
impl ConnectionHandle {
    /// A connection that has received nothing.
    pub(super) fn silent() -> ConnectionHandle {
        use http2::{HttpSettings, Keepalive, UsualAnswer};

        let zero = Duration::ZERO;
        let keepalive = Keepalive { interval: zero, timeout: zero, min_client_interval: zero };
        let usual_answer = UsualAnswer { head: &[], trailers: &[] };
        let settings =
            HttpSettings { max_concurrent_streams: 9, keepalive, is_urgent: |_| false, usual_answer };
        ConnectionHandle::new(Connection::new(settings))
    }

    /// A connection with a request on stream 1, which leaves more answers untaken than there is room for.
    pub(super) fn full() -> ConnectionHandle {
        use http2::{Event, PREFACE};

        let (handle, zero) = (ConnectionHandle::silent(), Duration::ZERO);
        let mut http2 = handle.lock();
        http2.receive(PREFACE, zero);
        http2.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], zero);
        // POST / of the static table.
        http2.receive(&[0, 0, 2, 1, 5, 0, 0, 0, 1, 0x83, 0x84], zero);
        assert!(matches!(http2.next_event(), Some(Event::Request { stream: 1, .. })));
        http2.send_data(1, vec![7; 17 << 20].into()).expect("open");
        drop(http2);
        handle
    }
}

#[cfg(test)]
mod tests {
    //! A call whose client is gone waits for nothing, and nothing is kept for it.
    use super::*;

    #[tokio::test]
    async fn a_call_whose_client_is_gone_needs_no_room() {
        let handle = ConnectionHandle::full();
        let (stream, context) = (handle.stream(1), Context::from_waker(Waker::noop()));
        assert!(stream.poll_room(&context).is_pending() && !stream.has_room());
        handle.lock().receive(&[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8], Duration::ZERO);
        assert!(stream.poll_room(&context).is_ready() && stream.has_room());
        assert!(handle.forget_waiting(1).is_some() && handle.0.waiting.lock().is_empty());
    }
}
