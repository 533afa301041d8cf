//! The Watch service: one handler a stream, between its connection and the watches in the store.
//!
//! Which request, answer or response with events goes next is decided in [`ServedWatches`]. A request waits only for
//! the messages that are ahead of the connection: 32 KiB and one message.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use api::etcdserverpb as pb;
use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use store::{
    Damaged, MAX_REQUESTS_AT_ONCE, PermittedWatches, ServedStep, ServedWatches, WatchCaller, WatchRequests,
};
use tokio::sync::Notify;

use permissions::CallPermissions;
use watch_spans::WatchSpans;

use super::call::{self, Call, decode_in_stream};
use super::coalescing_notifier::CoalescingNotifier;
use super::streaming_call::{CountedRequests, ResponseSink, Responses};
use super::watcher_repairs::WatcherRepairs;
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

/// What a response may have beyond the request limit before it is split: etcd's allowance for the gRPC envelope.
const FRAGMENT_OVERHEAD_BYTES: usize = 512 * 1024;

pub(super) async fn watch(
    node: Arc<Node>,
    call: Call,
    requests: CountedRequests,
) -> Result<Responses, Failure> {
    Ok(Responses::of(|sink| async move {
        call::while_led(&node, &call, serve(&node, &call, requests, &sink)).await
    }))
}

/// Runs one watch stream until the client goes.
async fn serve(
    node: &Node,
    call: &Call,
    requests: CountedRequests,
    sink: &ResponseSink,
) -> Result<(), Failure> {
    let woken = Arc::new(Notify::new());
    let max_fragment_bytes = node.live.max_request_bytes() + FRAGMENT_OVERHEAD_BYTES;
    let watchers = node.hub.open(CoalescingNotifier::wake(call.connection, &woken), max_fragment_bytes);
    let caller = CallPermissions::new(node, call).await?;
    let watches = PermittedWatches::new(watchers, &node.reader, caller);
    let mut stream = ServedStream::new(watches, requests, sink);
    stream.client.spans = WatchSpans::of(call.spans.clone());
    let mut progress = tokio::time::interval(node.limits.progress_interval);
    progress.reset();
    let mut repairs = WatcherRepairs::new();
    loop {
        // While there is always something to send, the stream is never idle.
        if let Some(address) = repairs.ended().now_or_never() {
            stream.watches.stream().retry_damaged(address);
        }
        match stream.advance(node.status.term()).await? {
            Advance::More => {}
            Advance::Behind => stream.create_held(node.resolve_token(&call.credentials).await),
            Advance::Damaged(damaged) => repairs.begin(node, damaged),
            Advance::Idle => tokio::select! {
                () = stream.next_request() => {}
                () = woken.notified() => {}
                address = repairs.ended() => stream.watches.stream().retry_damaged(address),
                _ = progress.tick() => stream.watches.stream().notify_progress_due(),
            },
        }
    }
}

/// A watch stream on its connection.
struct ServedStream<'a, C, R> {
    watches: ServedWatches<C, Failure>,
    client: StreamClient<R>,
    sink: &'a ResponseSink,
}

/// The client of a stream.
struct StreamClient<R> {
    requests: R,
    spans: WatchSpans,
}

/// How far a stream advanced.
enum Advance {
    /// Something was sent, or other tasks were let run: there may be more.
    More,
    /// As [`ServedStep::Idle`].
    Idle,
    /// As [`ServedStep::Behind`].
    Behind,
    /// As [`ServedStep::Damaged`].
    Damaged(Damaged),
}

impl<'a, C, R> ServedStream<'a, C, R>
where
    C: WatchCaller,
    R: Stream<Item = Result<Bytes, Failure>> + Unpin,
{
    fn new(watches: PermittedWatches<C>, requests: R, sink: &'a ResponseSink) -> ServedStream<'a, C, R> {
        let client = StreamClient { requests, spans: WatchSpans::default() };
        ServedStream { watches: ServedWatches::new(watches, MAX_REQUESTS_AT_ONCE), client, sink }
    }

    /// Takes the next step when the connection takes more.
    ///
    /// # Errors
    /// What is wrong with a request, when those before it are answered.
    async fn advance(&mut self, term: u64) -> Result<Advance, Failure> {
        self.sink.room().await;
        Ok(match self.watches.next(&mut self.client, term) {
            ServedStep::Send(frame) => {
                let parts = [frame.head, frame.events].into_iter().filter(|part| !part.is_empty());
                self.sink.push(EncodedMessage(parts.collect()));
                Advance::More
            }
            ServedStep::Busy => {
                tokio::task::yield_now().await;
                Advance::More
            }
            ServedStep::Idle => Advance::Idle,
            ServedStep::Behind => Advance::Behind,
            ServedStep::Damaged(damaged) => Advance::Damaged(damaged),
            ServedStep::Failed(failure) => return Err(failure),
        })
    }

    /// Waits for a request and takes it; forever when there are no more, or the one before is not done.
    async fn next_request(&mut self) {
        if !self.watches.takes_requests() {
            return std::future::pending().await;
        }
        let next = self.client.requests.next().await.map(decode_request);
        self.watches.take(next, &mut self.client);
    }

    /// As [`ServedWatches::create_held`].
    fn create_held(&mut self, resolved: Result<(), api::Error>) {
        self.watches.create_held(resolved, &mut self.client);
    }
}

impl<R: Stream<Item = Result<Bytes, Failure>> + Unpin> WatchRequests for StreamClient<R> {
    type Failure = Failure;

    fn next_request(&mut self) -> Poll<Option<Result<pb::WatchRequest, Failure>>> {
        // Asked without a waker: when nothing is left to send, the stream waits for requests and events at once.
        let next = self.requests.poll_next_unpin(&mut Context::from_waker(Waker::noop()));
        next.map(|next| next.map(decode_request))
    }

    fn created(&mut self, id: Option<i64>, request: &pb::WatchCreateRequest) {
        self.spans.created(id, request);
    }

    fn canceled(&mut self, id: i64) {
        self.spans.canceled(id);
    }
}

fn decode_request(body: Result<Bytes, Failure>) -> Result<pb::WatchRequest, Failure> {
    decode_in_stream(body?)
}

mod permissions;
#[cfg(test)]
mod tests;
mod watch_spans;
