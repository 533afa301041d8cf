//! The service under test and its client.

use std::future::{Future, poll_fn, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::Code;
use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::super::{
    CallFuture, CallReply, ClientTransport, ConnectionSettings, EncodedMessage, Failure, GrpcService,
    RequestStream, serve,
};
use crate::config::GrpcKeepalive;

/// Bytes of a message the server takes.
pub(super) const MAX_BYTES: usize = 300_000;

/// Bytes of each message of `/test/Pour`.
pub(super) const POURED_BYTES: usize = 10_000;

/// Messages of `/test/Pour`.
pub(super) const POURED: usize = 100;

/// What tests see of the server's handlers.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Calls of `/test/Wait` that wait, and of `/test/Large` that are not answered.
    pub(super) waiting: Arc<AtomicUsize>,
    /// Lets one of them go.
    pub(super) release: Arc<Notify>,
    /// Messages `/test/Pour` has sent.
    pub(super) poured: Arc<AtomicUsize>,
    /// Answers `/test/Large` has made.
    pub(super) made: Arc<AtomicUsize>,
}

struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl GrpcService for Seen {
    fn max_message_bytes(&self) -> usize {
        MAX_BYTES
    }

    fn call(
        &self,
        head: &http2::RequestHead,
        mut requests: RequestStream,
        mut reply: CallReply,
    ) -> CallFuture {
        let (seen, path) = (self.clone(), String::from_utf8_lossy(head.path()).into_owned());
        Box::pin(async move {
            if path == "/test/Count" {
                return count_late(&seen, requests, reply).await;
            }
            if path == "/test/Large" {
                return answer_large(&seen, requests, reply).await;
            }
            let body = match requests.supported() {
                Ok(()) if path == "/test/Twice" => requests.only().await,
                Ok(()) => requests.first().await,
                Err(failure) => Err(failure),
            };
            let body = match body {
                Ok(body) => body,
                Err(failure) => return reply.finish(Err(&failure)),
            };
            let failure = |text: &Bytes| {
                Failure::new(Code::FailedPrecondition, String::from_utf8_lossy(text).into_owned())
            };
            match path.as_str() {
                "/test/Echo" => reply.answer(EncodedMessage(vec![body])),
                "/test/Fail" => reply.finish(Err(&failure(&body))),
                "/test/Twice" => {
                    for _ in 0..2 {
                        reply
                            .send(vec![EncodedMessage(vec![body.clone()])])
                            .await
                            .expect("the client listens");
                    }
                    reply.finish(Err(&failure(&body)));
                }
                "/test/NotTaken" => reply.not_taken(&Failure::from(api::Error::NotTaken)),
                "/test/Wait" | "/test/Endless" => {
                    seen.waiting.fetch_add(1, Ordering::SeqCst);
                    let _waiting = Waiting(seen.waiting.clone());
                    if reply.unless_gone(seen.release.notified()).await.is_ok() {
                        reply.answer(EncodedMessage(vec![body]));
                    }
                }
                "/test/Pour" => pour(&seen, reply).await,
                other => panic!("no test asks for {other}"),
            }
        })
    }

    fn is_endless(&self, head: &http2::RequestHead) -> bool {
        head.path() == b"/test/Endless"
    }
}

/// Lets messages wait until it is released, then answers with their number.
async fn count_late(seen: &Seen, mut requests: RequestStream, reply: CallReply) {
    seen.waiting.fetch_add(1, Ordering::SeqCst);
    seen.release.notified().await;
    let mut count: u32 = 0;
    while requests.next().await.expect("an orderly stream").is_some() {
        count += 1;
    }
    reply.answer(EncodedMessage(vec![count.to_be_bytes().to_vec().into()]));
}

/// Answers with much when there is room.
async fn answer_large(seen: &Seen, mut requests: RequestStream, mut reply: CallReply) {
    seen.waiting.fetch_add(1, Ordering::SeqCst);
    let waiting = Waiting(seen.waiting.clone());
    if requests.first().await.is_err() {
        return;
    }
    requests.into_room().wait().await;
    drop(waiting);
    if reply.begin_message(MAX_BYTES).is_ok() {
        seen.made.fetch_add(1, Ordering::SeqCst);
        reply.continue_message(vec![7; MAX_BYTES].into()).expect("it was there");
        reply.finish(Ok(()));
    }
}

async fn pour(seen: &Seen, mut reply: CallReply) {
    for _ in 0..POURED {
        let Ok(()) = reply.send(vec![EncodedMessage(vec![vec![7; POURED_BYTES].into()])]).await else {
            return;
        };
        seen.poured.fetch_add(1, Ordering::SeqCst);
    }
    reply.finish(Ok(()));
}

impl ClientTransport for DuplexStream {}

/// Settings with these times of keep-alive.
pub(super) fn settings(interval: Duration, timeout: Duration) -> ConnectionSettings {
    let keepalive = GrpcKeepalive { interval, timeout, min_client_interval: Duration::from_secs(5) };
    ConnectionSettings { max_concurrent_streams: Arc::new(100.into()), keepalive, memory: Default::default() }
}

/// A server on one end of a connection in memory; the future ends with it.
pub(super) fn server(
    settings: ConnectionSettings,
    seen: Seen,
    stop: CancellationToken,
) -> (impl Future<Output = ()>, DuplexStream) {
    server_of(seen.clone(), settings, seen, stop)
}

/// The same with another service.
fn server_of<S: GrpcService>(
    service: S,
    settings: ConnectionSettings,
    seen: Seen,
    stop: CancellationToken,
) -> (impl Future<Output = ()>, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let text = |body: String| ready(format!("heard {body}"));
    let waiting = seen.clone();
    let wait = || async move {
        waiting.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(waiting.waiting.clone());
        std::future::pending::<()>().await;
    };
    let http = Router::new()
        .route("/plain", get(|| ready("plain text")))
        .route("/heard", post(text))
        .route("/wait", get(wait));
    (async move { serve(ours, service, Some(http.into()), &settings, stop).await }, theirs)
}

/// A client, and the server it speaks to.
pub(super) struct Client {
    requests: SendRequest<Bytes>,
    pub(super) seen: Seen,
    pub(super) stop: CancellationToken,
    pub(super) server: tokio::task::JoinHandle<()>,
}

/// All a server answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) http: u16,
    pub(super) head: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) trailers: HeaderMap,
}

impl Answer {
    /// The gRPC status, wherever it was.
    pub(super) fn status(&self) -> &str {
        self.end("grpc-status")
    }

    /// The gRPC message, still encoded.
    pub(super) fn message(&self) -> &str {
        self.end("grpc-message")
    }

    fn end(&self, name: &str) -> &str {
        let value = self.trailers.get(name).or_else(|| self.head.get(name));
        value.map_or("", |value| value.to_str().expect("ASCII"))
    }
}

impl Client {
    /// A client that takes whatever the server sends.
    pub(super) async fn start() -> Client {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1 << 24).initial_connection_window_size(1 << 24);
        Client::start_with(&builder, settings(Duration::ZERO, Duration::ZERO)).await
    }

    /// A client of another kind.
    pub(super) async fn start_with(builder: &h2::client::Builder, settings: ConnectionSettings) -> Client {
        let seen = Seen::default();
        Client::start_of(builder, seen.clone(), settings, seen).await
    }

    /// A client of a server with another service.
    pub(super) async fn start_of<S: GrpcService>(
        builder: &h2::client::Builder,
        service: S,
        settings: ConnectionSettings,
        seen: Seen,
    ) -> Client {
        let stop = CancellationToken::new();
        let (serving, theirs) = server_of(service, settings, seen.clone(), stop.clone());
        let server = tokio::spawn(serving);
        let (requests, connection) = builder.handshake(theirs).await.expect("handshake");
        tokio::spawn(connection);
        Client { requests, seen, stop, server }
    }

    /// Begins a request; its stream is the caller's to fill and end.
    pub(super) async fn begin(&mut self, request: Request<()>) -> (ResponseFuture, SendStream<Bytes>) {
        poll_fn(|context| self.requests.poll_ready(context)).await.expect("room for a stream");
        self.requests.send_request(request, false).expect("a good request")
    }

    /// Whether the server takes no more calls.
    pub(super) async fn is_refused(&mut self) -> bool {
        poll_fn(|context| self.requests.poll_ready(context)).await.is_err()
    }

    /// Sends the frames, the last one ending the stream, and takes the whole answer.
    pub(super) async fn ask<'a>(&mut self, path: &str, frames: impl IntoIterator<Item = &'a [u8]>) -> Answer {
        self.ask_as(grpc(path), frames).await
    }

    /// The same with any head.
    pub(super) async fn ask_as<'a>(
        &mut self,
        request: Request<()>,
        frames: impl IntoIterator<Item = &'a [u8]>,
    ) -> Answer {
        let (response, mut stream) = self.begin(request).await;
        for frame in frames {
            stream.send_data(Bytes::copy_from_slice(frame), false).expect("the server listens");
        }
        stream.send_data(Bytes::new(), true).expect("the server listens");
        whole(response).await
    }
}

/// The head of an ordinary call.
pub(super) fn grpc(path: &str) -> Request<()> {
    request("POST", path, "application/grpc")
}

/// The head of a request.
pub(super) fn request(method: &str, path: &str, content: &str) -> Request<()> {
    let uri = format!("http://stele{path}");
    Request::builder().method(method).uri(uri).header("content-type", content).body(()).expect("good")
}

/// A message behind its prefix.
pub(super) fn message(bytes: &[u8]) -> Vec<u8> {
    [&[0][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// Waits for all of an answer, taking it as it comes.
pub(super) async fn whole(response: ResponseFuture) -> Answer {
    let (head, mut body) = response.await.expect("an answer").into_parts();
    let bytes = rest(&mut body).await;
    let trailers = orderly(body.trailers().await.transpose()).unwrap_or_default();
    Answer { http: head.status.as_u16(), head: head.headers, body: bytes, trailers }
}

/// What was received, if anything. A server that has answered and does not want the rest of a request sends a
/// reset that is no error.
fn orderly<T>(received: Option<Result<T, h2::Error>>) -> Option<T> {
    match received {
        Some(Err(error)) if error.reason() == Some(h2::Reason::NO_ERROR) => None,
        other => other.transpose().expect("no error"),
    }
}

async fn rest(body: &mut RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(data) = orderly(body.data().await) {
        body.flow_control().release_capacity(data.len()).expect("it was received");
        bytes.extend_from_slice(&data);
    }
    bytes
}

/// Yields to the other tasks until `condition` holds.
pub(super) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}
