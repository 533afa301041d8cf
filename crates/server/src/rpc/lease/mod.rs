//! The Lease service.

mod keep_alive;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::validate;
use bytes::Bytes;
use member::batch::CommandKind;
use member::peer_message::LeaseAnswer;
use prost::Message;
use store::{Reader, Reply};

use super::call::{self, Call, decode};
use super::streaming_call::{CountedRequests, Responses};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

/// Leases that a listing copies in one hold of the store's lock: tens of microseconds.
const MAX_LEASES_PER_STEP: usize = 1_000;

/// Remaining TTL of a lease that does not exist.
const NO_LEASE_TTL: i64 = -1;

pub(super) async fn grant(node: &Node, body: Bytes) -> Result<EncodedMessage, Failure> {
    let mut request: pb::LeaseGrantRequest = decode(body)?;
    validate::lease_grant(&request)?;
    if request.id == 0 {
        request.id = node.lease_ids.next();
    }
    request.ttl = request.ttl.max(node.limits.min_lease_ttl);
    let Reply::LeaseGrant { id, ttl, revision } =
        node.propose(CommandKind::LeaseGrant, request.encode_to_vec().into()).await?
    else {
        return Err(Failure::unexpected());
    };
    let header = Some(node.header(revision));
    Ok(EncodedMessage::message(&pb::LeaseGrantResponse { header, id, ttl, error: String::new() }))
}

pub(super) async fn revoke(node: &Node, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::LeaseRevokeRequest>(body.clone())?;
    let Reply::LeaseRevoke { revision } = node.propose(CommandKind::LeaseRevoke, body).await? else {
        return Err(Failure::unexpected());
    };
    Ok(EncodedMessage::message(&pb::LeaseRevokeResponse { header: Some(node.header(revision)) }))
}

pub(super) async fn time_to_live(node: &Node, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::LeaseTimeToLiveRequest = decode(body)?;
    let mut response = pb::LeaseTimeToLiveResponse {
        header: None,
        id: request.id,
        ttl: NO_LEASE_TTL,
        granted_ttl: 0,
        keys: Vec::new(),
    };
    if let LeaseAnswer::Alive { remaining_s, granted_s } = node.lease(request.id, false).await? {
        response.ttl = remaining_s;
        response.granted_ttl = granted_s;
        if request.keys {
            node.linearize().await?;
            response.keys = lease_keys(node, request.id).await;
        }
    }
    response.header = Some(node.header_now());
    Ok(EncodedMessage::message(&response))
}

/// The keys of a lease. Other tasks run between the steps.
async fn lease_keys(node: &Node, lease: i64) -> Vec<Bytes> {
    let mut scan = node.reader.lease_keys(lease);
    loop {
        match scan.step() {
            Some(keys) => return keys,
            None => tokio::task::yield_now().await,
        }
    }
}

pub(super) async fn leases(node: &Node, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::LeaseLeasesRequest>(body)?;
    let mut leases = Vec::new();
    let mut next = list_leases(&node.reader, i64::MIN, &mut leases);
    while let Some(from) = next {
        tokio::task::yield_now().await;
        next = list_leases(&node.reader, from, &mut leases);
    }
    Ok(EncodedMessage::message(&pb::LeaseLeasesResponse { header: Some(node.header_now()), leases }))
}

/// Lists the next leases, in one hold of the store's lock. Returns where to go on; `None` at the end.
fn list_leases(reader: &Reader, from: i64, into: &mut Vec<pb::LeaseStatus>) -> Option<i64> {
    let found = reader.leases(from, MAX_LEASES_PER_STEP);
    let last = found.last().filter(|_| found.len() == MAX_LEASES_PER_STEP).map(|lease| lease.id);
    into.extend(found.into_iter().map(|lease| pb::LeaseStatus { id: lease.id }));
    last.and_then(|last| last.checked_add(1))
}

/// Renewals are answered in the order they came, each as soon as the leader has confirmed it and those before it.
pub(super) async fn keep_alive(
    node: Arc<Node>,
    call: Call,
    requests: CountedRequests,
) -> Result<Responses, Failure> {
    Ok(Responses::of(|sink| async move {
        // The revision from before the renewal: a renewal must not look newer than a revocation that preceded it.
        let submit = |lease| (node.header_now(), node.lease(lease, true));
        call::while_led(&node, &call, keep_alive::answer_all(requests, submit, &sink)).await
    }))
}
