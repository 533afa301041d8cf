//! The Lease service.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::validate;
use bytes::Bytes;
use member::batch::CommandKind;
use member::peer_message::LeaseAnswer;
use prost::Message;
use store::Reply;

use super::call::{self, Call, decode};
use super::stream::{CountedRequests, ResponseSink, Responses};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

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
            response.keys = node.reader.lease_keys(request.id).unwrap_or_default();
        }
    }
    response.header = Some(node.header_now());
    Ok(EncodedMessage::message(&response))
}

pub(super) async fn leases(node: &Node, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::LeaseLeasesRequest>(body)?;
    let leases = node
        .reader
        .leases(i64::MIN, usize::MAX)
        .into_iter()
        .map(|lease| pb::LeaseStatus { id: lease.id })
        .collect();
    Ok(EncodedMessage::message(&pb::LeaseLeasesResponse { header: Some(node.header_now()), leases }))
}

/// Renewals are answered in the order they came, each as soon as the leader has confirmed it.
pub(super) async fn keep_alive(
    node: Arc<Node>,
    call: Call,
    requests: CountedRequests,
) -> Result<Responses, Failure> {
    Ok(Responses::of(
        |sink| async move { call::while_led(&node, &call, renew_all(&node, requests, &sink)).await },
    ))
}

async fn renew_all(node: &Node, mut requests: CountedRequests, sink: &ResponseSink) -> Result<(), Failure> {
    while let Some(body) = requests.next().await? {
        let request: pb::LeaseKeepAliveRequest = decode(body)?;
        // The revision from before the renewal: a renewal must not look newer than a revocation that preceded it.
        let header = Some(node.header_now());
        let ttl = match node.lease(request.id, true).await? {
            LeaseAnswer::Alive { granted_s, .. } => granted_s,
            LeaseAnswer::NotFound | LeaseAnswer::NotLeader => 0,
        };
        let response = pb::LeaseKeepAliveResponse { header, id: request.id, ttl };
        sink.send(EncodedMessage::message(&response)).await;
    }
    Ok(())
}
