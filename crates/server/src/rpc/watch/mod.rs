//! The Watch service: one handler a stream, between the client's requests and the watch hub.
//!
//! A stream may have a long history to send to a slow client. Its requests do not wait for that: between two responses
//! with events the handler takes what has arrived, and the answers leave first. A request waits only for the messages
//! that are ahead of the connection: 32 KiB and one message.
//!
//! ```text
//! client    create 0 from revision 1            create 1         cancel 0
//! handler   created 0, events 0, events 0, events 0, created 1, events 0, canceled 0, (events of 1 only)
//! ```

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::validate;
use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use pb::watch_request::RequestUnion;
use store::watch::NextResponse;
use store::{Damaged, PermittedWatches};
use tokio::sync::Notify;

use permissions::{CallPermissions, StreamCaller};
use watch_spans::WatchSpans;

use super::call::{self, Call, decode_in_stream};
use super::coalescing_notifier::CoalescingNotifier;
use super::streaming_call::{CountedRequests, ResponseSink, Responses};
use super::watcher_repairs::WatcherRepairs;
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

/// What a response may have beyond the request limit before it is split: etcd's allowance for the gRPC envelope.
const FRAGMENT_OVERHEAD_BYTES: usize = 512 * 1024;

/// Requests that are taken between two responses with events. With fewer, a client that creates thousands of watches
/// would wait for thousands of events between; with more, other watches of the stream would wait for long, and more
/// answers would be in memory.
const MAX_REQUESTS_AT_ONCE: usize = 64;

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
    stream.spans = WatchSpans::of(call.spans.clone());
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

/// A watch stream with its two directions.
struct ServedStream<'a, C, R> {
    watches: PermittedWatches<C>,
    /// `None` when the client sends nothing more; it keeps watching until it goes.
    requests: Option<R>,
    /// A watch that is created once this member knows what the caller's token was issued by. Later requests wait.
    held: Option<pb::WatchCreateRequest>,
    /// What is wrong with the last request. The stream ends with it when the requests before are answered.
    failure: Option<Failure>,
    sink: &'a ResponseSink,
    spans: WatchSpans,
}

/// How far a stream advanced.
enum Advance {
    /// Something was sent, or other tasks were let run: there may be more.
    More,
    /// There is nothing to do until a request or an event comes.
    Idle,
    /// The next watch can be created once the caller's token is known; the whole stream waits meanwhile.
    Behind,
    /// A value must be repaired; its watchers wait meanwhile.
    Damaged(Damaged),
}

impl<'a, C: StreamCaller, R: Stream<Item = Result<Bytes, Failure>> + Unpin> ServedStream<'a, C, R> {
    fn new(watches: PermittedWatches<C>, requests: R, sink: &'a ResponseSink) -> ServedStream<'a, C, R> {
        let (requests, spans) = (Some(requests), WatchSpans::default());
        ServedStream { watches, requests, held: None, failure: None, sink, spans }
    }

    /// When the connection takes more: takes requests that have arrived, sends their answers, then one other response.
    ///
    /// # Errors
    /// What is wrong with a request, when those before it are answered.
    async fn advance(&mut self, term: u64) -> Result<Advance, Failure> {
        // Nothing is chosen before it can leave: what comes meanwhile may go first.
        self.sink.room().await;
        for _ in 0..MAX_REQUESTS_AT_ONCE {
            // Asked without a waker: when nothing is left to send, the stream waits for requests and events at once.
            if self.next_request().now_or_never().is_none() {
                break;
            }
        }
        while self.watches.stream().has_answers() {
            if let damaged @ Advance::Damaged(_) = self.send_next(term).await {
                return Ok(damaged);
            }
        }
        match self.failure.take() {
            Some(failure) => Err(failure),
            None if self.held.is_some() => Ok(Advance::Behind),
            None => Ok(self.send_next(term).await),
        }
    }

    /// Sends the next response, if there is one.
    async fn send_next(&mut self, term: u64) -> Advance {
        match self.watches.next(term) {
            Ok(NextResponse::Send(frame)) => {
                let parts = [frame.head, frame.events].into_iter().filter(|part| !part.is_empty());
                self.sink.send(EncodedMessage(parts.collect())).await;
                Advance::More
            }
            Ok(NextResponse::Busy) => {
                tokio::task::yield_now().await;
                Advance::More
            }
            Ok(NextResponse::Idle) => Advance::Idle,
            Err(damaged) => Advance::Damaged(damaged),
        }
    }

    /// Waits for a request and takes it; forever when there are no more, or the one before is not done.
    async fn next_request(&mut self) {
        let Some(requests) = self.requests.as_mut().filter(|_| self.held.is_none()) else {
            return std::future::pending().await;
        };
        let taken = match requests.next().await {
            Some(body) => body.and_then(|body| self.take(body)),
            None => {
                self.requests = None;
                return;
            }
        };
        if let Err(failure) = taken {
            (self.requests, self.failure) = (None, Some(failure));
        }
    }

    fn take(&mut self, body: Bytes) -> Result<(), Failure> {
        match decode_in_stream::<pb::WatchRequest>(body)?.request_union {
            Some(RequestUnion::CreateRequest(create)) => match validate::watch_start(&create) {
                Ok(()) if self.watches.caller().is_behind() => self.held = Some(create),
                Ok(()) => self.create(&create),
                Err(error) => self.watches.stream().refuse(error.message()),
            },
            Some(RequestUnion::CancelRequest(cancel)) => {
                self.spans.canceled(cancel.watch_id);
                self.watches.stream().cancel(cancel.watch_id);
            }
            Some(RequestUnion::ProgressRequest(_)) => self.watches.stream().progress(),
            // etcd ignores what it does not know, so that newer clients can ask.
            None => {}
        }
        Ok(())
    }

    fn create(&mut self, request: &pb::WatchCreateRequest) {
        let id = self.watches.create(request);
        self.spans.created(id, request);
    }

    /// Creates the watch that was held, by what is known of the caller's token now; refuses it if that has failed.
    fn create_held(&mut self, resolved: Result<(), api::Error>) {
        match (self.held.take(), resolved) {
            (Some(request), Ok(())) => self.create(&request),
            (Some(_), Err(error)) => self.watches.refuse(error),
            (None, _) => {}
        }
    }
}

mod permissions;
#[cfg(test)]
mod tests;
mod watch_spans;
