//! The Lease service.

mod keep_alive;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use api::etcdserverpb as pb;
use api::validate;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use member::batch::CommandKind;
use member::peer_message::LeaseAnswer;
use prost::Message;
use store::{Caller, LeaseAccess, Reply};

use super::call::{self, Call, decode};
use super::streaming_call::{CountedRequests, Responses};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::spans::{InnerOperation, OpenSpan};

/// Leases that a listing copies in one hold of the store's lock: tens of microseconds.
const MAX_LEASES_PER_STEP: usize = 1_000;

/// Remaining TTL of a lease that does not exist.
const NO_LEASE_TTL: i64 = -1;

pub(super) async fn grant(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let mut request: pb::LeaseGrantRequest = decode(body)?;
    validate::lease_grant(&request)?;
    if request.id == 0 {
        request.id = node.lease_ids.next();
    }
    request.ttl = request.ttl.max(node.limits.min_lease_ttl);
    let caller = node.identify_writer(&call.credentials).await?;
    let Reply::LeaseGrant { id, ttl, revision } = node
        .propose_for(&call.times, CommandKind::LeaseGrant, caller, request.encode_to_vec().into())
        .await?
    else {
        return Err(Failure::unexpected());
    };
    let header = Some(node.header(revision));
    Ok(EncodedMessage::message(&pb::LeaseGrantResponse { header, id, ttl, error: String::new() }))
}

pub(super) async fn revoke(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::LeaseRevokeRequest>(body.clone())?;
    let caller = node.identify_writer(&call.credentials).await?;
    let proposed = node.propose_for(&call.times, CommandKind::LeaseRevoke, caller, body);
    let Reply::LeaseRevoke { revision } = proposed.await? else {
        return Err(Failure::unexpected());
    };
    Ok(EncodedMessage::message(&pb::LeaseRevokeResponse { header: Some(node.header(revision)) }))
}

pub(super) async fn time_to_live(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
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
            let caller = node.identify(&call.credentials).await?;
            response.keys = lease_keys(node, &caller, request.id).await?;
            node.reader.check_unchanged(&caller)?;
        }
    }
    response.header = Some(node.header_now());
    Ok(EncodedMessage::message(&response))
}

/// The keys of a lease, all of which the caller must be allowed to read. Other tasks run between the steps.
async fn lease_keys(node: &Node, caller: &Caller, lease: i64) -> Result<Vec<Bytes>, api::Error> {
    let mut scan = node.reader.lease_keys(lease);
    loop {
        match scan.step_as(caller)? {
            Some(keys) => return Ok(keys),
            None => tokio::task::yield_now().await,
        }
    }
}

/// Goes on with a check until its end. Other tasks run between the steps.
async fn permitted(mut access: LeaseAccess) -> Result<(), api::Error> {
    while !access.step()? {
        tokio::task::yield_now().await;
    }
    Ok(())
}

pub(super) async fn leases(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::LeaseLeasesRequest>(body)?;
    let caller = node.identify(&call.credentials).await?;
    let mut list = node.reader.list_leases(caller, MAX_LEASES_PER_STEP);
    let found = loop {
        match list.step()? {
            Some(found) => break found,
            None => tokio::task::yield_now().await,
        }
    };
    let leases = found.into_iter().map(|id| pb::LeaseStatus { id }).collect();
    Ok(EncodedMessage::message(&pb::LeaseLeasesResponse { header: Some(node.header_now()), leases }))
}

/// Renewals are answered in the order they came, each as soon as the leader has confirmed it and those before it.
pub(super) async fn keep_alive(
    node: Arc<Node>,
    call: Call,
    requests: CountedRequests,
) -> Result<Responses, Failure> {
    // Each renewal below can look the token up at once.
    if node.identify_applied(&call.credentials).is_none() {
        node.resolve_token(&call.credentials).await?;
    }
    Ok(Responses::of(|sink| async move {
        // The revision from before the renewal: a renewal must not look newer than a revocation that preceded it.
        let submit = |lease| {
            let span = call.spans.as_ref().map(|spans| spans.begin(InnerOperation::Renewal(lease)));
            (node.header_now(), SpannedRenewal { renewal: renew(&node, &call, lease), span })
        };
        call::while_led(&node, &call, keep_alive::answer_all(requests, submit, &sink)).await
    }))
}

/// A renewal, and its span if the call is sampled, which ends when it is answered.
struct SpannedRenewal<A> {
    renewal: A,
    span: Option<OpenSpan>,
}

impl<A: Future + Unpin> Future for SpannedRenewal<A> {
    type Output = A::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A::Output> {
        let answer = ready!(Pin::new(&mut self.renewal).poll(context));
        self.span = None;
        Poll::Ready(answer)
    }
}

/// Renews a lease, if the caller may write all of its keys.
fn renew(
    node: &Arc<Node>,
    call: &Call,
    lease: i64,
) -> impl Future<Output = Result<LeaseAnswer, api::Error>> + Unpin + use<> {
    let Some(caller) = node.identify_applied(&call.credentials) else {
        return Either::Right(Either::Left(renew_after_identifying(node.clone(), call.clone(), lease)));
    };
    let begun = caller.and_then(|caller| {
        let mut access = node.reader.access_to_renew(caller, lease);
        let is_permitted = access.step()?;
        Ok((access, is_permitted))
    });
    match begun {
        Ok((_, true)) => Either::Left(node.lease(lease, true)),
        // The lease has many keys: the renewal is submitted once they were visited.
        Ok((access, false)) => {
            let node = node.clone();
            let renewed = async move {
                permitted(access).await?;
                node.lease(lease, true).await
            };
            Either::Right(Either::Left(renewed.boxed()))
        }
        Err(error) => Either::Right(Either::Right(std::future::ready(Err(error)))),
    }
}

/// The same once this member has checked the caller's token and applied what it was issued by: a token that was signed
/// at a revision which the cluster has never had comes here each time.
fn renew_after_identifying(
    node: Arc<Node>,
    call: Call,
    lease: i64,
) -> BoxFuture<'static, Result<LeaseAnswer, api::Error>> {
    let renewed = async move {
        let caller = node.identify(&call.credentials).await?;
        permitted(node.reader.access_to_renew(caller, lease)).await?;
        node.lease(lease, true).await
    };
    renewed.boxed()
}
