//! One connection: a task that takes requests in, runs their calls and sends what they answer.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use axum::Router;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::server::SendResponse;
use h2::{Ping, PingPong, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::gather::{Gather, Turn};
use super::{Reply, Requests, Service, Serving, Settings, head, plain};

/// Received bytes that may wait in one HTTP/2 stream, and in one connection: enough that a large request flows without
/// waiting for the window, small enough that a thousand connections cannot fill the memory.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Bytes of a request's headers, counted as HTTP/2 does. Ours have a few hundred.
const HEADER_LIST_BYTES: u32 = 16 << 10;

/// Bytes of one stream that wait in the connection to be sent, of messages that are sent as the client takes them.
const SEND_BUFFER_BYTES: usize = 400 << 10;

/// Streams the library may reset for a client's mistakes before it gives up the connection.
const MISTAKES: usize = 1024;

/// Serves a connection that begins with the preface of HTTP/2, until its end, or until `stop` and the end of the calls
/// that are under way then. What is not gRPC goes to `http`.
pub(crate) async fn serve<I, S>(io: I, service: S, http: Router, settings: &Settings, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let turn = Turn::default();
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(settings.max_concurrent_streams)
        .max_header_list_size(HEADER_LIST_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_local_error_reset_streams(Some(MISTAKES));
    let handshake = builder.handshake(Gather::new(io, turn.clone()));
    // A connection that breaks is its client's business, here and below.
    let Some(Ok(mut h2)) = stop.run_until_cancelled(handshake).await else { return };
    let connection = Connection {
        pings: h2.ping_pong(),
        h2,
        turn,
        calls: FuturesUnordered::new(),
        events: FuturesUnordered::new(),
        service,
        http,
        settings: settings.clone(),
    };
    connection.run(stop).await;
}

/// What happens to a connection from our side.
enum Event {
    /// No more calls are taken.
    Stop,
    /// It is time to ask the client whether it is there, unless it was heard.
    Look,
    /// The client had time to answer.
    Late,
}

type Happening = Pin<Box<dyn Future<Output = Event> + Send>>;

struct Connection<I, S> {
    h2: h2::server::Connection<Gather<I>, Bytes>,
    pings: Option<PingPong>,
    turn: Turn,
    calls: FuturesUnordered<Serving>,
    events: FuturesUnordered<Happening>,
    service: S,
    http: Router,
    settings: Settings,
}

/// The connection is over.
struct Over;

impl<I, S> Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    async fn run(mut self, stop: CancellationToken) {
        self.events.push(Box::pin(async move {
            stop.cancelled().await;
            Event::Stop
        }));
        let interval = self.settings.keepalive.interval;
        if !interval.is_zero() {
            self.after(interval, Event::Look);
        }
        poll_fn(|context| self.poll_turns(context)).await;
    }

    /// Takes turns until nothing more can be done now; ready when the connection is over.
    fn poll_turns(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.turn.hold(true);
            let Ok(()) = self.take_in(context) else { return Poll::Ready(()) };
            while let Poll::Ready(Some(())) = self.calls.poll_next_unpin(context) {}
            while let Poll::Ready(Some(event)) = self.events.poll_next_unpin(context) {
                let Ok(()) = self.happened(event, context) else { return Poll::Ready(()) };
            }
            // What was answered is encoded while writes are held, and only then let go: the library flushes behind each
            // larger frame.
            if self.h2.poll_closed(context).is_ready() {
                return Poll::Ready(());
            }
            self.turn.hold(false);
            // This sends what has gathered, and may find that more has arrived.
            match ready!(self.h2.poll_accept(context)) {
                Some(Ok((request, respond))) => self.begin(request, respond),
                Some(Err(_)) | None => return Poll::Ready(()),
            }
        }
    }

    /// Begins the calls that have arrived.
    fn take_in(&mut self, context: &mut Context<'_>) -> Result<(), Over> {
        while let Poll::Ready(accepted) = self.h2.poll_accept(context) {
            let Some(Ok((request, respond))) = accepted else { return Err(Over) };
            self.begin(request, respond);
        }
        Ok(())
    }

    /// Begins a call, and goes as far with it as it goes: what needs nobody else is answered here and now.
    fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let (head, body) = request.into_parts();
        let mut serving: Serving = if head::is_grpc(&head) {
            let reply = Reply::new(respond);
            match head::check(&head) {
                Ok(()) => {
                    let requests = Requests::new(body, self.settings.max_message_bytes);
                    self.service.call(&head, requests, reply)
                }
                Err((status, failure)) => return reply.refuse(status, &failure),
            }
        } else {
            Box::pin(plain::serve(self.http.clone(), Request::from_parts(head, body), respond))
        };
        // Nobody needs to be woken by this first look: a call that has to wait is looked at again with the others.
        let first = &mut Context::from_waker(Waker::noop());
        if serving.as_mut().poll(first).is_pending() {
            self.calls.push(serving);
        }
    }

    fn happened(&mut self, event: Event, context: &mut Context<'_>) -> Result<(), Over> {
        let interval = self.settings.keepalive.interval;
        let timeout = self.settings.keepalive.timeout;
        let heard = self.turn.take_heard();
        match event {
            Event::Stop => self.h2.graceful_shutdown(),
            Event::Look | Event::Late if heard => self.after(interval, Event::Look),
            Event::Late => return Err(Over),
            Event::Look => {
                self.ping(context);
                let next = if timeout.is_zero() { (interval, Event::Look) } else { (timeout, Event::Late) };
                self.after(next.0, next.1);
            }
        }
        Ok(())
    }

    fn ping(&mut self, context: &mut Context<'_>) {
        let Some(pings) = &mut self.pings else { return };
        // The answer to the one before, if any, makes room for this one.
        let _ = pings.poll_pong(context);
        let _ = pings.send_ping(Ping::opaque());
    }

    fn after(&mut self, time: std::time::Duration, event: Event) {
        self.events.push(Box::pin(async move {
            tokio::time::sleep(time).await;
            event
        }));
    }
}
