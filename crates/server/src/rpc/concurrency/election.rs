//! The Election service.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::mvccpb::KeyValue;
use api::mvccpb::event::EventType;
use api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};
use bytes::Bytes;
use pb::range_request::SortOrder;
use pb::request_op::Request;

use super::key_watch::KeyWatch;
use super::queue::{by_creation, created_at, operations};
use super::{error, linearize, plain, queue, read, session, txn};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::{self, Call, decode, decode_in_stream};
use crate::rpc::streaming_call::{CountedRequests, ResponseSink, Responses};

/// The texts of etcd.
const NO_LEADER_KEY: &str = "\"leader\" field must be provided";
const NOT_LEADER: &str = "election: not leader";
const NO_LEADER: &str = "election: no leader";

pub(in crate::rpc) async fn campaign(
    node: &Arc<Node>,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let request: CampaignRequest = decode(body)?;
    let call = call::bind_to_user(node, call).await.map_err(plain)?;
    let response = win(node, &call, request).await.map_err(plain)?;
    Ok(EncodedMessage::message(&response))
}

async fn win(node: &Arc<Node>, call: &Call, request: CampaignRequest) -> Result<CampaignResponse, Failure> {
    let CampaignRequest { name, lease, value } = request;
    let prefix = queue::prefix(&name);
    let lease = session(node, call, lease).await?;
    let mut queued = queue::enqueue(node, call, &prefix, lease, value.clone()).await?;
    let header = queued.header;
    let leader = LeaderKey { name, key: queued.key.clone(), rev: queued.revision, lease };
    if queued.found.as_ref().is_some_and(|found| *found != value) {
        publish(node, call, &leader, value).await?;
    }
    if queue::wait(node, &prefix, &mut queued).await?.is_none() {
        return Err(error(NOT_LEADER));
    }
    queued.keep();
    Ok(CampaignResponse { header, leader: Some(leader) })
}

pub(in crate::rpc) async fn proclaim(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let request: ProclaimRequest = decode(body)?;
    let mut leader = request.leader.ok_or_else(|| error(NO_LEADER_KEY))?;
    leader.lease = session(node, call, leader.lease).await.map_err(plain)?;
    let header = publish(node, call, &leader, request.value).await.map_err(plain)?;
    Ok(EncodedMessage::message(&ProclaimResponse { header }))
}

/// Changes the value of a leadership.
async fn publish(
    node: &Node,
    call: &Call,
    leader: &LeaderKey,
    value: Bytes,
) -> Result<Option<pb::ResponseHeader>, Failure> {
    let put = pb::PutRequest { key: leader.key.clone(), value, lease: leader.lease, ..Default::default() };
    let answer = if_leading(node, call, leader, Request::RequestPut(put)).await?;
    if answer.succeeded { Ok(answer.header) } else { Err(error(NOT_LEADER)) }
}

pub(in crate::rpc) async fn resign(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: ResignRequest = decode(body)?;
    let leader = request.leader.ok_or_else(|| error(NO_LEADER_KEY))?;
    let delete = pb::DeleteRangeRequest { key: leader.key.clone(), ..Default::default() };
    let answer = if_leading(node, call, &leader, Request::RequestDeleteRange(delete)).await.map_err(plain)?;
    Ok(EncodedMessage::message(&ResignResponse { header: answer.header }))
}

/// Does something if the leadership is still the one that was won.
async fn if_leading(
    node: &Node,
    call: &Call,
    leader: &LeaderKey,
    then: Request,
) -> Result<pb::TxnResponse, Failure> {
    let request = pb::TxnRequest {
        compare: vec![created_at(&leader.key, leader.rev)],
        success: operations([then]),
        failure: Vec::new(),
    };
    txn(node, call, &request).await
}

pub(in crate::rpc) async fn leader(
    node: &Arc<Node>,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let request: LeaderRequest = decode(body)?;
    node.linearize().await.map_err(|error| plain(error.into()))?;
    let (header, kv) = oldest(node, call, &queue::prefix(&request.name)).await.map_err(plain)?;
    let kv = kv.ok_or_else(|| error(NO_LEADER))?;
    Ok(EncodedMessage::message(&LeaderResponse { header: Some(header), kv: Some(kv) }))
}

/// The oldest key of an election in this member's own state, and the header of the read.
async fn oldest(
    node: &Arc<Node>,
    call: &Call,
    prefix: &Bytes,
) -> Result<(pb::ResponseHeader, Option<KeyValue>), Failure> {
    let first = pb::RangeRequest { limit: 1, ..by_creation(prefix, SortOrder::Ascend) };
    let found = read(node, call, first).await?;
    Ok((found.header.unwrap_or_default(), found.kvs.into_iter().next()))
}

/// Sends the leader, each value that it proclaims, and each leader after it.
pub(in crate::rpc) async fn observe(
    node: Arc<Node>,
    call: Call,
    mut requests: CountedRequests,
) -> Result<Responses, Failure> {
    let request: LeaderRequest = decode_in_stream(requests.only().await?)?;
    let prefix = queue::prefix(&request.name);
    Ok(Responses::of(|sink| async move {
        let call = call::bind_to_user(&node, &call).await?;
        call::while_led(&node, &call, send_leaders(&node, &call, &prefix, &sink)).await
    }))
}

async fn send_leaders(
    node: &Arc<Node>,
    call: &Call,
    prefix: &Bytes,
    sink: &ResponseSink,
) -> Result<(), Failure> {
    let send = async |header: pb::ResponseHeader, kv: KeyValue| {
        let response = LeaderResponse { header: Some(header), kv: Some(kv) };
        sink.send(EncodedMessage::message(&response)).await;
    };
    loop {
        linearize(node).await?;
        let (header, found) = oldest(node, call, prefix).await?;
        let (header, kv) = match found {
            Some(kv) => (header, kv),
            None => match first_put(node, call, prefix, header.revision + 1).await? {
                Some(found) => found,
                None => continue,
            },
        };
        let mut watch = KeyWatch::open(node, call);
        watch.add(kv.key.clone(), Bytes::new(), header.revision + 1);
        send(header, kv).await;
        let mut leads = true;
        while leads {
            let answer = watch.next().await?;
            let header = answer.header.unwrap_or_default();
            leads = !answer.canceled;
            for event in answer.events {
                leads &= event.r#type == EventType::Put as i32;
                match event.kv {
                    Some(kv) if leads => send(header, kv).await,
                    _ => break,
                }
            }
        }
    }
}

/// The first put of a key of the election from a revision on; `None` if that revision was compacted.
async fn first_put(
    node: &Arc<Node>,
    call: &Call,
    prefix: &Bytes,
    from: i64,
) -> Result<Option<(pb::ResponseHeader, KeyValue)>, Failure> {
    let mut watch = KeyWatch::open(node, call);
    watch.add(prefix.clone(), api::prefix_end(prefix), from);
    loop {
        let answer = watch.next().await?;
        if answer.canceled {
            return Ok(None);
        }
        let mut puts = answer.events.into_iter().filter(|event| event.r#type == EventType::Put as i32);
        if let Some(kv) = puts.next().and_then(|event| event.kv) {
            let revision = kv.mod_revision;
            return Ok(Some((pb::ResponseHeader { revision, ..answer.header.unwrap_or_default() }, kv)));
        }
    }
}
