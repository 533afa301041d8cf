//! The Watch service: one handler a stream, between the client's requests and the watch hub.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::validate;
use bytes::Bytes;
use pb::watch_request::RequestUnion;
use store::watch::{NextResponse, WatchStream};
use tokio::sync::Notify;

use super::call::{self, Call, decode};
use super::coalescing_notifier::CoalescingNotifier;
use super::stream::{CountedRequests, ResponseSink, Responses};
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
        call::while_led(&node, &call, serve(&node, call.connection, requests, &sink)).await
    }))
}

/// Runs one watch stream until the client goes.
async fn serve(
    node: &Node,
    connection: u64,
    mut requests: CountedRequests,
    sink: &ResponseSink,
) -> Result<(), Failure> {
    let woken = Arc::new(Notify::new());
    let max_fragment_bytes = node.limits.max_request_bytes + FRAGMENT_OVERHEAD_BYTES;
    let mut watchers = node.hub.open(CoalescingNotifier::wake(connection, &woken), max_fragment_bytes);
    let mut progress = tokio::time::interval(node.limits.progress_interval);
    progress.reset();
    let mut has_requests = true;
    loop {
        send_all(node, &mut watchers, sink).await;
        tokio::select! {
            request = requests.next(), if has_requests => match request? {
                Some(body) => take(&mut watchers, body)?,
                // The client sends nothing more, but keeps watching until it goes.
                None => has_requests = false,
            },
            () = woken.notified() => {}
            _ = progress.tick() => watchers.notify_progress_due(),
        }
    }
}

fn take(watchers: &mut WatchStream, body: Bytes) -> Result<(), Failure> {
    match decode::<pb::WatchRequest>(body)?.request_union {
        Some(RequestUnion::CreateRequest(create)) => match validate::watch_start(&create) {
            Ok(()) => watchers.create(&create),
            Err(error) => watchers.refuse(error.message()),
        },
        Some(RequestUnion::CancelRequest(cancel)) => watchers.cancel(cancel.watch_id),
        Some(RequestUnion::ProgressRequest(_)) => watchers.progress(),
        // etcd ignores what it does not know, so that newer clients can ask.
        None => {}
    }
    Ok(())
}

/// Sends everything the stream has. The whole stream waits while a damaged value is repaired.
async fn send_all(node: &Node, watchers: &mut WatchStream, sink: &ResponseSink) {
    loop {
        match watchers.next(node.status.term()) {
            Ok(NextResponse::Send(frame)) => {
                let parts = [frame.head, frame.events].into_iter().filter(|part| !part.is_empty());
                sink.send(EncodedMessage(parts.collect())).await;
            }
            Ok(NextResponse::Busy) => tokio::task::yield_now().await,
            Ok(NextResponse::Idle) => return,
            Err(damaged) => {
                // A value that was relocated meanwhile looks damaged too; either way the next attempt reads history
                // again.
                if node.repair(&damaged).await.is_err() {
                    let message = "watchers wait for a damaged value of which no peer has an intact copy";
                    tracing::warn!(error = %damaged, "{message}");
                }
                watchers.retry_damaged();
            }
        }
    }
}
