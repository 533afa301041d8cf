//! The Watch service: one task a stream, between the client's requests and the watch hub.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::validate;
use bytes::Bytes;
use pb::watch_request::RequestUnion;
use store::watch::{Next, WatchStream};
use tokio::sync::Notify;

use super::stream::{Gone, Requests, Responses, Sink, responses};
use super::{Call, Encoded, Failure, decode};
use crate::node::Node;

/// What a response may have beyond the request limit before it is split: etcd's allowance for the gRPC envelope.
const FRAGMENT_OVERHEAD_BYTES: usize = 512 * 1024;

pub(super) async fn watch(node: Arc<Node>, call: Call, requests: Requests) -> Result<Responses, Failure> {
    let (sink, stream) = responses();
    tokio::spawn(async move {
        tokio::select! {
            ended = serve(&node, requests, &sink) => {
                if let Err(failure) = ended {
                    sink.fail(failure).await;
                }
            }
            failure = super::leader_lost(&node, &call) => sink.fail(failure).await,
            () = sink.gone() => {}
        }
    });
    Ok(stream)
}

/// Runs one watch stream until the client goes.
async fn serve(node: &Node, mut requests: Requests, sink: &Sink) -> Result<(), Failure> {
    let woken = Arc::new(Notify::new());
    let waker = woken.clone();
    let max_fragment_bytes = node.limits.max_request_bytes + FRAGMENT_OVERHEAD_BYTES;
    let mut watchers = node.hub.open(Arc::new(move || waker.notify_one()), max_fragment_bytes);
    let mut progress = tokio::time::interval(node.limits.progress_interval);
    progress.reset();
    let mut asking = true;
    loop {
        if send_all(node, &mut watchers, sink).await.is_err() {
            return Ok(());
        }
        tokio::select! {
            request = requests.next(), if asking => match request? {
                Some(body) => take(&mut watchers, body)?,
                // It asks for nothing more, but watches on until it goes.
                None => asking = false,
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

/// Sends everything the stream has. A damaged value makes its watchers wait until it has been healed.
async fn send_all(node: &Node, watchers: &mut WatchStream, sink: &Sink) -> Result<(), Gone> {
    loop {
        match watchers.next(node.status.term()) {
            Ok(Next::Frame(frame)) => {
                sink.send(Encoded(
                    [frame.head, frame.events].into_iter().filter(|p| !p.is_empty()).collect(),
                ))
                .await?;
            }
            Ok(Next::Busy) => tokio::task::yield_now().await,
            Ok(Next::Idle) => return Ok(()),
            Err(damaged) => {
                // A moved reference looks damaged too; either way the next try reads history again.
                if node.heal(&damaged).await.is_err() {
                    tracing::warn!(error = %damaged, "watchers wait for a value that no peer has");
                }
                watchers.retry_damaged();
            }
        }
    }
}
