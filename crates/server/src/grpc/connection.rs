//! One connection: a task that receives, runs calls and sends the answers, round by round. The module `grpc` has an
//! example of a round.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http2::{Connection, Event, HttpSettings, Keepalive, RequestHead};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::handle::ConnectionHandle;
use super::head::{self, RequestKind};
use super::messages::MessageDecoder;
use super::plain;
use super::pongs::DelayedPong;
use super::reply::CallReply;
use super::request::RequestStream;
use super::room::HeldShare;
use super::service::{CallFuture, ConnectionSettings, GrpcService};
use crate::http::ConnectionRouter;

/// Bytes of one read: a connection has no buffer of its own, the worker has one for all.
const READ_BYTES: usize = 64 << 10;

/// What a connection does before it lets others run: so many rounds, reads of so many bytes, and events and ends of
/// calls. Thousands of small requests fit into one read, and are served in milliseconds, in which no other client is.
const MAX_ROUNDS: usize = 8;
const MAX_POLL_BYTES: usize = READ_BYTES;
const MAX_POLL_STEPS: usize = 256;

/// Slices of one write.
const MAX_SLICES: usize = 32;

/// Time in which a client whose connection we end should take our last words and close its side. Without it, what it
/// has sent meanwhile makes the system discard them.
const MAX_CLOSING_TIME: Duration = Duration::from_secs(1);

thread_local! {
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Serves a connection that begins with the preface of HTTP/2, until it ends, or until `stop` and the end of the calls
/// that run at that time. Endless ones, such as watches, end with the connection. Requests that are not gRPC go to
/// `http`; without it they are refused.
pub(crate) async fn serve<I, S>(
    mut io: I,
    service: S,
    http: Option<ConnectionRouter>,
    settings: &ConnectionSettings,
    stop: CancellationToken,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: GrpcService,
{
    let handle = ConnectionHandle::new(Connection::new(http_settings::<S>(settings)));
    let mut connection = GrpcConnection {
        handle: handle.clone(),
        pong: DelayedPong::default(),
        calls: FuturesUnordered::new(),
        endless: FuturesUnordered::new(),
        stop: Some(Box::pin(stop.cancelled_owned())),
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        service,
        http,
        held: HeldShare::of(settings.memory.clone()),
        has_events_left: false,
    };
    let ended = poll_fn(|context| connection.poll_rounds(&mut io, context)).await;
    // What only the end needs takes no room in the task of a connection that is idle.
    Box::pin(connection.drop_in_steps()).await;
    if matches!(ended, ConnectionEnd::Ours) {
        let _ = Box::pin(tokio::time::timeout(MAX_CLOSING_TIME, close(io, &handle))).await;
    }
}

fn http_settings<S: GrpcService>(settings: &ConnectionSettings) -> HttpSettings {
    let keepalive = &settings.keepalive;
    HttpSettings {
        max_concurrent_streams: settings.max_concurrent_streams.load(Ordering::Relaxed),
        keepalive: Keepalive {
            interval: keepalive.interval,
            timeout: keepalive.timeout,
            min_client_interval: keepalive.min_client_interval,
        },
        is_urgent: S::is_urgent,
        usual_answer: head::USUAL_ANSWER,
    }
}

/// Sends what is left, and waits until the client has closed its side too.
async fn close<I: AsyncRead + AsyncWrite + Unpin>(
    mut io: I,
    handle: &ConnectionHandle,
) -> std::io::Result<()> {
    let mut last = Vec::new();
    {
        let mut http2 = handle.lock();
        let output = http2.output();
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = output.slices(&mut slices);
            let before = last.len();
            slices[..count].iter().for_each(|slice| last.extend_from_slice(slice));
            let taken = last.len() - before;
            output.advance(taken);
        }
    }
    io.write_all(&last).await?;
    io.shutdown().await?;
    let mut ignored = [0; 1024];
    while io.read(&mut ignored).await? > 0 {}
    Ok(())
}

/// Who ended a connection.
enum ConnectionEnd {
    /// The client, or the network.
    Theirs,
    /// The protocol: a graceful end, a mistake, silence.
    Ours,
}

struct GrpcConnection<S> {
    handle: ConnectionHandle,
    pong: DelayedPong,
    calls: FuturesUnordered<CallFuture>,
    /// Those that last for as long as their clients like.
    endless: FuturesUnordered<CallFuture>,
    /// Until it has happened.
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Set to a time at or before the connection's next deadline.
    timer: Pin<Box<Sleep>>,
    service: S,
    http: Option<ConnectionRouter>,
    held: HeldShare,
    /// Events of what was read may be left: nothing is read before they are taken.
    has_events_left: bool,
}

/// What is left of what a connection may do in one poll.
struct PollBudget {
    bytes: usize,
    steps: usize,
}

impl PollBudget {
    fn is_over(&self) -> bool {
        self.bytes == 0 || self.steps == 0
    }
}

impl<S: GrpcService> GrpcConnection<S> {
    /// Runs rounds until nothing more can be done now; ready when the connection is over.
    fn poll_rounds<I>(&mut self, io: &mut I, context: &mut Context<'_>) -> Poll<ConnectionEnd>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let mut budget = PollBudget { bytes: MAX_POLL_BYTES, steps: MAX_POLL_STEPS };
        for _ in 0..MAX_ROUNDS {
            let may_read = !self.has_events_left && self.handle.lock().wants_input();
            let received = if may_read { self.receive(io, context) } else { Ok(0) };
            let Ok(read) = received else { return Poll::Ready(ConnectionEnd::Theirs) };
            budget.bytes = budget.bytes.saturating_sub(read);
            self.poll_stop(context);
            self.poll_timer(context);
            self.take_events(&mut budget);
            for calls in [&mut self.calls, &mut self.endless] {
                while budget.steps > 0
                    && let Poll::Ready(Some(())) = calls.poll_next_unpin(context)
                {
                    budget.steps -= 1;
                }
            }
            let is_timer_late = self.settle(&budget);
            let Ok(()) = self.send(io, context) else { return Poll::Ready(ConnectionEnd::Theirs) };
            let (is_closed, may_read_again, has_more) = {
                let http2 = self.handle.lock();
                let held = http2.held_bytes();
                self.held.set(held.answers + held.requests);
                (http2.is_closed(), !may_read && http2.wants_input(), http2.has_more_output())
            };
            if is_closed {
                return Poll::Ready(ConnectionEnd::Ours);
            }
            // What was sent may have made room for calls that wait, or for reading, of which nothing else would tell.
            let has_woken = self.handle.wake_waiting();
            if !self.take_events(&mut budget)
                && read == 0
                && !may_read_again
                && !has_more
                && !has_woken
                && !is_timer_late
                && budget.steps > 0
            {
                return Poll::Pending;
            }
            if budget.is_over() {
                break;
            }
        }
        // Other connections of this worker run, also those whose clients have just said something: a task that is woken
        // at once runs dozens of times before the worker looks at its sockets again.
        pin!(tokio::task::yield_now()).poll(context).map(|()| unreachable!("it is never ready at first"))
    }

    /// Drops the calls that have not ended, and then what the streams hold, while others run.
    async fn drop_in_steps(self) {
        for calls in [self.calls, self.endless] {
            let mut calls = calls.into_iter();
            while calls.by_ref().take(MAX_POLL_STEPS).count() == MAX_POLL_STEPS {
                tokio::task::yield_now().await;
            }
        }
        while self.handle.lock().drop_streams(MAX_POLL_STEPS) {
            tokio::task::yield_now().await;
        }
    }

    /// Reads once; how many bytes came.
    ///
    /// # Errors
    /// When the client has closed the connection, or it is broken.
    fn receive<I: AsyncRead + Unpin>(&mut self, io: &mut I, context: &mut Context<'_>) -> Result<usize, ()> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            match Pin::new(io).poll_read(context, &mut buffer) {
                Poll::Pending => Ok(0),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.handle.lock().receive(buffer.filled(), self.handle.now());
                    Ok(buffer.filled().len())
                }
                Poll::Ready(_) => Err(()),
            }
        })
    }

    fn poll_stop(&mut self, context: &mut Context<'_>) {
        if let Some(stop) = &mut self.stop
            && stop.as_mut().poll(context).is_ready()
        {
            self.stop = None;
            self.handle.lock().shut_down(self.handle.now());
        }
    }

    /// Looks at what the calls of the round have left; whether the timer may be late for what that means.
    ///
    /// When a graceful end has come so far that no call begins any more, and only endless ones are left, they end too.
    fn settle(&mut self, budget: &PollBudget) -> bool {
        let mut http2 = self.handle.lock();
        let is_timer_late = http2.is_unsettled() && http2.settle(self.handle.now());
        // A call whose answer waits for the client's window has ended, and its stream has not. At the end of a poll,
        // calls may be over that are still here.
        if budget.steps > 0
            && http2.is_draining()
            && self.calls.is_empty()
            && http2.stream_count() <= self.endless.len()
        {
            http2.abandon();
        }
        is_timer_late
    }

    /// Does what is due, and sets the timer to what is next. A timer that ends too early is set again; so most
    /// deadlines come and go without touching it.
    fn poll_timer(&mut self, context: &mut Context<'_>) {
        loop {
            let mut http2 = self.handle.lock();
            let next = http2.deadline().filter(|_| !http2.is_closed());
            let Some(next) = next.and_then(|at| self.handle.instant(at)) else { return };
            if next < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(next);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return;
            }
            if next <= Instant::now() {
                http2.on_time(self.handle.now());
            }
        }
    }

    /// Begins the requests that have come, and wakes the calls that wait for what has; whether there was anything.
    fn take_events(&mut self, budget: &mut PollBudget) -> bool {
        let mut has_events = false;
        loop {
            let event = {
                let mut http2 = self.handle.lock();
                // One read holds thousands of requests. A client that does not take the answers waits with the rest.
                self.has_events_left = budget.steps == 0 || !http2.takes_events();
                if self.has_events_left { None } else { http2.next_event() }
            };
            let Some(event) = event else { return has_events };
            has_events = true;
            budget.steps -= 1;
            match event {
                Event::Request { stream, head } => self.begin(stream, head),
                Event::Data { stream } => self.wake(stream, true),
                Event::Sent { stream } => self.wake(stream, false),
                Event::Gone { stream, slot } => {
                    let room = self.handle.forget_waiting(stream);
                    [slot.reader, slot.writer, room].into_iter().flatten().for_each(Waker::wake);
                }
            }
        }
    }

    fn wake(&self, stream: u32, is_reader: bool) {
        let waker = self.handle.lock().slot(stream).ok().and_then(|slot| match is_reader {
            true => slot.reader.take(),
            false => slot.writer.take(),
        });
        waker.into_iter().for_each(Waker::wake);
    }

    /// Begins a request and polls it once: a call that waits for nothing is answered by that.
    fn begin(&mut self, stream: u32, head: Arc<RequestHead>) {
        let id = stream;
        let stream = self.handle.stream(id);
        let kind = match head::kind(&head) {
            RequestKind::Plain if self.http.is_none() => head::not_grpc(&head),
            RequestKind::Call(..) | RequestKind::Refused(..) if !S::SERVES_CALLS => RequestKind::Plain,
            kind => kind,
        };
        let is_endless = matches!(kind, RequestKind::Call(..)) && self.service.is_endless(&head);
        let mut serving: CallFuture = match kind {
            RequestKind::Plain => Box::pin(plain::serve(self.http.clone().unwrap_or_default(), head, stream)),
            RequestKind::Malformed(code) => return stream.reset(code),
            RequestKind::Refused(format, status, failure) => {
                return CallReply::new(stream, format).refuse(status, &failure);
            }
            RequestKind::Call(format, time, refusal) => {
                if let Some(at) = time.and_then(|time| self.handle.now().checked_add(time)) {
                    // A request that is over already has no deadline.
                    let _ = self.handle.lock().set_deadline(id, at);
                }
                let messages = MessageDecoder::new(self.service.max_message_bytes(), format.is_gzip);
                let requests = RequestStream::new(stream.clone(), messages, refusal);
                self.service.call(&head, requests, CallReply::new(stream, format))
            }
        };
        // This poll needs no waker: a call that has to wait is polled again with the others.
        let first = &mut Context::from_waker(Waker::noop());
        if serving.as_mut().poll(first).is_pending() {
            let calls = if is_endless { &self.endless } else { &self.calls };
            calls.push(serving);
        }
    }

    /// Writes what has collected, as far as the socket takes it.
    fn send<I: AsyncWrite + Unpin>(&mut self, io: &mut I, context: &mut Context<'_>) -> std::io::Result<()> {
        self.write(io, context)?;
        // With TLS, what was written may wait, encrypted, for the socket.
        match Pin::new(io).poll_flush(context) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }

    fn write<I: AsyncWrite + Unpin>(&mut self, io: &mut I, context: &mut Context<'_>) -> std::io::Result<()> {
        let mut http2 = self.handle.lock();
        let is_closed = http2.is_closed();
        let output = http2.output();
        if output.is_empty() || !is_closed && self.pong.may_wait(output.only_part(), context) {
            return Ok(());
        }
        // No more than there is now: what can be framed then comes with the next round.
        loop {
            if output.is_empty() {
                self.pong.sent();
                return Ok(());
            }
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = output.slices(&mut slices);
            match Pin::new(&mut *io).poll_write_vectored(context, &slices[..count]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(std::io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(written)) => output.advance(written),
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
    }
}
