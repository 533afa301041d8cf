//! The queue of a name: its keys, the oldest first. A call adds its key and waits until no older one is left.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::mvccpb::event::EventType;
use bytes::Bytes;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::range_request::{SortOrder, SortTarget};
use pb::request_op::Request;
use pb::response_op::Response;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::key_watch::KeyWatch;
use super::{RETRY_DELAY, linearize, read, txn};
use crate::grpc::Failure;
use crate::node::Node;
use crate::rpc::call::Call;

/// How often the removal of a key is tried; then its lease ends it.
const MAX_REMOVALS: u32 = 20;

/// The name's keys begin with this.
pub(super) fn prefix(name: &[u8]) -> Bytes {
    [name, b"/"].concat().into()
}

/// A key in a queue. Dropped before [`Queued::keep`], it is removed.
pub(super) struct Queued {
    node: Arc<Node>,
    call: Call,
    pub(super) key: Bytes,
    /// The revision at which the key was created; the order of the queue.
    pub(super) revision: i64,
    /// What was in the key before, if it was there.
    pub(super) found: Option<Bytes>,
    /// The header of the transaction.
    pub(super) header: Option<pb::ResponseHeader>,
    /// Whether no key was older in the transaction.
    pub(super) was_oldest: bool,
    is_removed_on_drop: bool,
}

impl Queued {
    /// Leaves the key to its session.
    pub(super) fn keep(&mut self) {
        self.is_removed_on_drop = false;
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        // Without a runtime the process ends.
        if let (true, Ok(runtime)) = (self.is_removed_on_drop, Handle::try_current()) {
            runtime.spawn(remove(self.node.clone(), self.call.clone(), self.key.clone(), self.revision));
        }
    }
}

/// Adds the key of a session to the queue, unless it is in it. The transaction is completed even if this is dropped.
///
/// # Errors
/// Those of the transaction.
pub(super) async fn enqueue(
    node: &Arc<Node>,
    call: &Call,
    prefix: &Bytes,
    lease: i64,
    value: Bytes,
) -> Result<Queued, Failure> {
    let key = Bytes::from([&prefix[..], format!("{lease:x}").as_bytes()].concat());
    let put = pb::PutRequest { key: key.clone(), value, lease, ..Default::default() };
    let owner = pb::RangeRequest { limit: 1, ..by_creation(prefix, SortOrder::Ascend) };
    let get = pb::RangeRequest { key: key.clone(), ..Default::default() };
    let request = pb::TxnRequest {
        compare: vec![created_at(&key, 0)],
        success: operations([Request::RequestPut(put), Request::RequestRange(owner.clone())]),
        failure: operations([Request::RequestRange(get), Request::RequestRange(owner)]),
    };
    let (sender, receiver) = oneshot::channel();
    let (on, by) = (node.clone(), call.clone());
    tokio::spawn(async move {
        let queued = txn(&on, &by, &request).await.and_then(|answer| queued(on, by, key, answer));
        // Without a receiver it is dropped, and the key removed.
        drop(sender.send(queued));
    });
    receiver.await.unwrap_or_else(|_| Err(Failure::unexpected()))
}

fn queued(node: Arc<Node>, call: Call, key: Bytes, answer: pb::TxnResponse) -> Result<Queued, Failure> {
    let ranges: Vec<_> = answer.responses.into_iter().filter_map(|one| one.response).collect();
    let first = |response: &Response| match response {
        Response::ResponseRange(range) => range.kvs.first().cloned(),
        _ => None,
    };
    let [own, owner] = &ranges[..] else { return Err(Failure::unexpected()) };
    let own = first(own);
    let now = answer.header.map_or(0, |header| header.revision);
    let revision = own.as_ref().map_or(now, |own| own.create_revision);
    let was_oldest = first(owner).is_none_or(|owner| owner.create_revision == revision);
    Ok(Queued {
        node,
        call,
        key,
        revision,
        found: own.map(|own| own.value),
        header: answer.header,
        was_oldest,
        // A key that an earlier call of the session put stays until this one waits, too.
        is_removed_on_drop: answer.succeeded,
    })
}

/// Waits until no older key is left. Returns the header of a linearizable read that found the key; `None` if the key is
/// gone: its lease has ended, or a client deleted it.
///
/// # Errors
/// When the member stops.
pub(super) async fn wait(
    node: &Arc<Node>,
    prefix: &Bytes,
    queued: &mut Queued,
) -> Result<Option<pb::ResponseHeader>, Failure> {
    queued.is_removed_on_drop = true;
    loop {
        let Some(own) = own_header(node, queued).await? else { return Ok(None) };
        let older = pb::RangeRequest {
            limit: 1,
            max_create_revision: queued.revision - 1,
            ..by_creation(prefix, SortOrder::Descend)
        };
        let found = read(node, &queued.call, older).await?;
        let (Some(before), Some(header)) = (found.kvs.first(), found.header) else { break };
        let mut watch = KeyWatch::open(node, &queued.call);
        watch.add(queued.key.clone(), Bytes::new(), own.revision + 1);
        watch.add(before.key.clone(), Bytes::new(), header.revision + 1);
        // Puts change nothing. A watch that was canceled is replaced.
        loop {
            let answer = watch.next().await?;
            let is_deletion = |event: &api::mvccpb::Event| event.r#type == EventType::Delete as i32;
            if answer.canceled || answer.events.iter().any(is_deletion) {
                break;
            }
        }
    }
    linearize(node).await?;
    own_header(node, queued).await
}

/// The header of a read of this member's own state that found the key; `None` if it is gone, or another one.
async fn own_header(node: &Arc<Node>, queued: &Queued) -> Result<Option<pb::ResponseHeader>, Failure> {
    let own = pb::RangeRequest { key: queued.key.clone(), ..Default::default() };
    let found = read(node, &queued.call, own).await?;
    let is_there = found.kvs.first().is_some_and(|own| own.create_revision == queued.revision);
    Ok(found.header.filter(|_| is_there))
}

/// Removes a key, if it is still the one that was created at `revision`.
async fn remove(node: Arc<Node>, call: Call, key: Bytes, revision: i64) {
    let delete = pb::DeleteRangeRequest { key: key.clone(), ..Default::default() };
    let request = pb::TxnRequest {
        compare: vec![created_at(&key, revision)],
        success: operations([Request::RequestDeleteRange(delete)]),
        failure: Vec::new(),
    };
    for _ in 0..MAX_REMOVALS {
        if txn(&node, &call, &request).await.is_ok() {
            return;
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// A comparison: the key was created at this revision; 0 if it does not exist.
pub(super) fn created_at(key: &Bytes, revision: i64) -> pb::Compare {
    pb::Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Create as i32,
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        ..Default::default()
    }
}

/// Operations of a transaction.
pub(super) fn operations<const N: usize>(requests: [Request; N]) -> Vec<pb::RequestOp> {
    requests.into_iter().map(|request| pb::RequestOp { request: Some(request) }).collect()
}

/// The keys of a queue in the order in which they were created.
pub(super) fn by_creation(prefix: &Bytes, order: SortOrder) -> pb::RangeRequest {
    pb::RangeRequest {
        key: prefix.clone(),
        range_end: api::prefix_end(prefix),
        sort_order: order as i32,
        sort_target: SortTarget::Create as i32,
        ..Default::default()
    }
}
