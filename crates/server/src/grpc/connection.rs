//! One connection: a task that accepts requests, runs their calls and sends the answers, round by round. The module
//! `grpc` has an example of a round.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::server::SendResponse;
use h2::{Ping, PingPong, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::gathering_socket::{ConnectionRound, GatheringSocket};
use super::reply::CallReply;
use super::request::RequestStream;
use super::service::{CallFuture, ConnectionSettings, GrpcService};
use super::{head, plain};

/// Received bytes that may wait in one HTTP/2 stream, and in one connection: enough that a large request flows without
/// waiting for the window, small enough that a thousand connections cannot fill the memory.
const MAX_STREAM_WINDOW_BYTES: u32 = 1 << 20;
const MAX_CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// What small messages that wait in one connection may be short of 256 bytes each, all together: some 35,000
/// keep-alives or requests to watch. A client that keeps 10,000 leases alive sends that many at once, and a second time
/// if it was not answered at once; with the library's own limit of a quarter as many, its connection would be closed.
/// The library needs about 200 bytes for each, so a connection that exhausts this has 7 MB here.
const MAX_SMALL_MESSAGES_BUDGET_BYTES: usize = 8 << 20;

/// Bytes of a request's headers, counted as HTTP/2 does. Ours have a few hundred.
const MAX_HEADER_LIST_BYTES: u32 = 16 << 10;

/// Bytes of one stream that wait in the connection to be sent, of messages that are sent as the client takes them.
const MAX_SEND_BUFFER_BYTES: usize = 400 << 10;

/// Time in which a client should have begun its first call, and in which it must answer a ping if it has not: a client
/// may connect ahead of need, but one that said its greeting and then nothing is no client.
pub(super) const FIRST_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Streams that the library resets for protocol errors of a client before it closes the connection.
const MAX_ERROR_RESETS: usize = 1024;

/// Serves a connection that begins with the preface of HTTP/2, until it ends, or until `stop` and the end of the calls
/// that run at that time. Requests that are not gRPC go to `http`.
pub(crate) async fn serve<I, S>(
    io: I,
    service: S,
    http: Router,
    settings: &ConnectionSettings,
    stop: CancellationToken,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: GrpcService,
{
    let round = ConnectionRound::default();
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(MAX_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(MAX_CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(settings.max_concurrent_streams)
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .max_send_buffer_size(MAX_SEND_BUFFER_BYTES)
        .data_frame_budget(MAX_SMALL_MESSAGES_BUDGET_BYTES)
        .max_local_error_reset_streams(Some(MAX_ERROR_RESETS));
    let handshake = builder.handshake(GatheringSocket::new(io, round.clone()));
    let handshake = tokio::time::timeout(FIRST_CALL_TIMEOUT, handshake);
    // A failed connection concerns only its client, here and below.
    let Some(Ok(Ok(mut h2))) = stop.run_until_cancelled(handshake).await else { return };
    let connection = GrpcConnection {
        pings: h2.ping_pong(),
        h2,
        round,
        calls: FuturesUnordered::new(),
        has_begun: false,
        heard: 0,
        heard_before_ping: 0,
        events: FuturesUnordered::new(),
        service,
        http,
        settings: settings.clone(),
    };
    connection.run(stop).await;
}

/// What happens to a connection besides its calls.
enum ConnectionEvent {
    /// No more calls are accepted.
    Stop,
    /// There should have been a first call; without one, the client is pinged.
    CheckFirstCall,
    /// A client without a call had time to answer the ping.
    FirstPingTimeout,
    /// The client is to be pinged, unless something has arrived from it since the last check.
    CheckAlive,
    /// The client had time to answer the ping.
    PingTimeout,
}

type EventFuture = Pin<Box<dyn Future<Output = ConnectionEvent> + Send>>;

struct GrpcConnection<I, S> {
    h2: h2::server::Connection<GatheringSocket<I>, Bytes>,
    pings: Option<PingPong>,
    round: ConnectionRound,
    calls: FuturesUnordered<CallFuture>,
    /// There was a first call.
    has_begun: bool,
    /// What [`ConnectionRound::received`] said at the last regular check.
    heard: u64,
    /// The same before the ping to a client without a call.
    heard_before_ping: u64,
    events: FuturesUnordered<EventFuture>,
    service: S,
    http: Router,
    settings: ConnectionSettings,
}

/// The connection is over.
struct ConnectionEnded;

impl<I, S> GrpcConnection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: GrpcService,
{
    async fn run(mut self, stop: CancellationToken) {
        self.events.push(Box::pin(async move {
            stop.cancelled().await;
            ConnectionEvent::Stop
        }));
        let interval = self.settings.keepalive.interval;
        if !interval.is_zero() {
            self.after(interval, ConnectionEvent::CheckAlive);
        }
        self.after(FIRST_CALL_TIMEOUT, ConnectionEvent::CheckFirstCall);
        poll_fn(|context| self.poll_rounds(context)).await;
    }

    /// Runs rounds until nothing more can be done now; ready when the connection is over.
    fn poll_rounds(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.round.hold(true);
            let Ok(()) = self.accept_all(context) else { return Poll::Ready(()) };
            while let Poll::Ready(Some(())) = self.calls.poll_next_unpin(context) {}
            while let Poll::Ready(Some(event)) = self.events.poll_next_unpin(context) {
                let Ok(()) = self.on_event(event, context) else { return Poll::Ready(()) };
            }
            // Encodes the answers while writes are held: the library flushes after each larger frame.
            if self.h2.poll_closed(context).is_ready() {
                return Poll::Ready(());
            }
            self.round.hold(false);
            // Sends what was collected, and may find that more has arrived.
            match ready!(self.h2.poll_accept(context)) {
                Some(Ok((request, respond))) => self.begin(request, respond),
                Some(Err(_)) | None => return Poll::Ready(()),
            }
        }
    }

    /// Begins the calls that have arrived.
    fn accept_all(&mut self, context: &mut Context<'_>) -> Result<(), ConnectionEnded> {
        while let Poll::Ready(accepted) = self.h2.poll_accept(context) {
            let Some(Ok((request, respond))) = accepted else { return Err(ConnectionEnded) };
            self.begin(request, respond);
        }
        Ok(())
    }

    /// Begins a call and polls it once: a call that waits for nothing is answered by that.
    fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        self.has_begun = true;
        let (head, body) = request.into_parts();
        let mut serving: CallFuture = if head::is_grpc(&head) {
            let reply = CallReply::new(respond);
            match head::check(&head) {
                Ok(()) => {
                    let requests = RequestStream::new(body, self.settings.max_message_bytes);
                    self.service.call(&head, requests, reply)
                }
                Err((status, failure)) => return reply.refuse(status, &failure),
            }
        } else {
            Box::pin(plain::serve(self.http.clone(), Request::from_parts(head, body), respond))
        };
        // This poll needs no waker: a call that has to wait is polled again with the others.
        let first = &mut Context::from_waker(Waker::noop());
        if serving.as_mut().poll(first).is_pending() {
            self.calls.push(serving);
        }
    }

    fn on_event(&mut self, event: ConnectionEvent, context: &mut Context<'_>) -> Result<(), ConnectionEnded> {
        let interval = self.settings.keepalive.interval;
        let timeout = self.settings.keepalive.timeout;
        let heard = self.round.received();
        match event {
            ConnectionEvent::Stop => self.h2.graceful_shutdown(),
            ConnectionEvent::CheckFirstCall | ConnectionEvent::FirstPingTimeout if self.has_begun => {}
            ConnectionEvent::CheckFirstCall => {
                self.heard_before_ping = heard;
                self.ping(context);
                self.after(FIRST_CALL_TIMEOUT, ConnectionEvent::FirstPingTimeout);
            }
            ConnectionEvent::FirstPingTimeout if heard > self.heard_before_ping => {}
            ConnectionEvent::FirstPingTimeout => return Err(ConnectionEnded),
            ConnectionEvent::CheckAlive | ConnectionEvent::PingTimeout if heard > self.heard => {
                self.heard = heard;
                self.after(interval, ConnectionEvent::CheckAlive)
            }
            ConnectionEvent::PingTimeout => return Err(ConnectionEnded),
            ConnectionEvent::CheckAlive => {
                self.ping(context);
                let next = if timeout.is_zero() {
                    (interval, ConnectionEvent::CheckAlive)
                } else {
                    (timeout, ConnectionEvent::PingTimeout)
                };
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

    fn after(&mut self, time: Duration, event: ConnectionEvent) {
        self.events.push(Box::pin(async move {
            tokio::time::sleep(time).await;
            event
        }));
    }
}
