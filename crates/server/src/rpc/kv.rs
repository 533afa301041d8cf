//! The KV service.
//!
//! Reads are served right here, on the worker that took them, once the local state is fresh enough. Writes
//! are proposed as they came: the request's own bytes are what the log keeps.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::validate;
use bytes::Bytes;
use member::batch::Kind;
use store::{Damaged, ReadTxn, Reply, Response};

use super::stream::{Requests, Responses, Sink};
use super::streamed_range::{Answer, StreamedRange};
use super::{Call, Encoded, Failure, decode};
use crate::node::Node;

/// Lists of this many keys and more are made on a thread of their own: about half a millisecond of work.
const LONG_LIST_KEYS: i64 = 1_000;

/// Keys of a piece of a streamed range at most; its bytes are limited by the request limit.
const PIECE_KEYS: usize = 10_000;

pub(super) async fn put(node: &Node, body: Bytes) -> Result<Encoded, Failure> {
    let request: pb::PutRequest = decode(body.clone())?;
    validate::put(&request)?;
    let reply = write(node, Kind::Put, body).await?;
    let Response::Put(mut response) = resolve(node, &reply).await? else { return Err(Failure::unexpected()) };
    fill(node, &mut response.header);
    Ok(Encoded::message(&response))
}

pub(super) async fn delete_range(node: &Node, body: Bytes) -> Result<Encoded, Failure> {
    let request: pb::DeleteRangeRequest = decode(body.clone())?;
    validate::delete_range(&request)?;
    let reply = write(node, Kind::DeleteRange, body).await?;
    let Response::DeleteRange(mut response) = resolve(node, &reply).await? else {
        return Err(Failure::unexpected());
    };
    fill(node, &mut response.header);
    Ok(Encoded::message(&response))
}

pub(super) async fn txn(node: &Node, body: Bytes) -> Result<Encoded, Failure> {
    let request: pb::TxnRequest = decode(body.clone())?;
    validate::txn(&request, node.limits.max_txn_ops)?;
    if let Some(txn) = ReadTxn::of(&request) {
        return read_txn(node, &txn).await;
    }
    let reply = write(node, Kind::Txn, body).await?;
    let Response::Txn(mut response) = resolve(node, &reply).await? else { return Err(Failure::unexpected()) };
    fill(node, &mut response.header);
    Ok(Encoded::message(&response))
}

/// Answers a transaction that only reads from the local state.
async fn read_txn(node: &Node, txn: &ReadTxn<'_>) -> Result<Encoded, Failure> {
    if !txn.is_serializable() {
        node.linearize().await?;
    }
    loop {
        let _pin = node.pin();
        let answered = match node.reader.txn(txn) {
            Ok(reply) => store::resolve_txn(&reply?, node.values.as_ref()),
            Err(damaged) => Err(damaged),
        };
        match answered {
            Ok(mut response) => {
                fill(node, &mut response.header);
                return Ok(Encoded::message(&response));
            }
            Err(damaged) => node.repair(&damaged).await?,
        }
    }
}

pub(super) async fn compact(node: &Node, body: Bytes) -> Result<Encoded, Failure> {
    decode::<pb::CompactionRequest>(body.clone())?;
    write(node, Kind::Compaction, body).await?;
    Ok(Encoded::message(&pb::CompactionResponse { header: Some(node.header_now()) }))
}

pub(super) async fn range(node: &Arc<Node>, body: Bytes) -> Result<Answer, Failure> {
    let request: pb::RangeRequest = decode(body)?;
    validate::range(&request)?;
    if !request.serializable {
        node.linearize().await?;
    }
    if is_long(node, &request) {
        return Ok(Answer::Growing(StreamedRange::begin(node, request).await?));
    }
    loop {
        match list(node, &request) {
            Ok(pieces) => return Ok(Encoded(pieces?).into()),
            Err(damaged) => node.repair(&damaged).await?,
        }
    }
}

/// Whether a range would keep its worker, and the other connections there, for long.
fn is_long(node: &Node, request: &pb::RangeRequest) -> bool {
    let bounded = request.limit > 0 && request.limit < LONG_LIST_KEYS;
    if request.range_end.is_empty() || request.count_only || bounded {
        return false;
    }
    // What is wrong with the request is told when it is carried out.
    node.reader.count(request).is_ok_and(|keys| keys >= LONG_LIST_KEYS)
}

fn list(node: &Node, request: &pb::RangeRequest) -> Result<Result<Vec<Bytes>, api::Error>, Damaged> {
    let _pin = node.pin();
    let mut pieces = Vec::new();
    let listed = node.reader.encode_range(request, |revision| node.header(revision), &mut pieces)?;
    Ok(listed.map(|()| pieces))
}

pub(super) async fn range_stream(
    node: Arc<Node>,
    call: Call,
    mut requests: Requests,
) -> Result<Responses, Failure> {
    let request: pb::RangeRequest = match requests.next().await? {
        Some(body) => decode(body)?,
        None => return Err(Failure::new(api::Code::InvalidArgument, "the request is missing")),
    };
    validate::range_stream(&request)?;
    if !request.serializable {
        node.linearize().await?;
    }
    Ok(Responses::of(|sink| async move {
        super::while_led(&node, &call, send_pieces(&node, &request, &sink)).await
    }))
}

/// Sends a range piece by piece at one pinned revision, each piece near the size of the request limit.
async fn send_pieces(node: &Node, request: &pb::RangeRequest, sink: &Sink) -> Result<(), Failure> {
    let _pin = node.pin();
    let mut pieces = node.reader.range_stream(request)?;
    while let Some(piece) = pieces.next_chunk(PIECE_KEYS, node.limits.max_request_bytes) {
        let mut met = Met::default();
        let encoded = loop {
            match piece.encode(|revision| node.header(revision), node.values.as_ref()) {
                Ok(pieces) => break Encoded(pieces),
                Err(damaged) => met.repair(node, &damaged).await?,
            }
        };
        sink.send(encoded).await;
    }
    Ok(())
}

async fn write(node: &Node, kind: Kind, body: Bytes) -> Result<Reply, Failure> {
    validate::size(body.len(), node.limits.max_request_bytes)?;
    Ok(node.propose(kind, body).await?)
}

/// Reads the values a reply names, waiting for damaged ones to be repaired.
async fn resolve(node: &Node, reply: &Reply) -> Result<Response, Failure> {
    let mut met = Met::default();
    loop {
        match store::resolve(reply, node.values.as_ref()) {
            Ok(response) => return Ok(response),
            Err(damaged) => met.repair(node, &damaged).await?,
        }
    }
}

/// What an answer has met that is already under way. Meeting the same damage after it was repaired means that the value
/// is gone for this answer: overwritten and compacted meanwhile.
#[derive(Default)]
pub(super) struct Met {
    address: Option<u64>,
}

impl Met {
    /// Has damage repaired.
    ///
    /// # Errors
    /// [`api::Error::Corrupt`] when it was met before, and those of repair.
    pub(super) async fn repair(&mut self, node: &Node, damaged: &store::Damaged) -> Result<(), api::Error> {
        if self.address.replace(damaged.address) == Some(damaged.address) {
            return Err(api::Error::Corrupt);
        }
        node.repair(damaged).await
    }
}

/// Completes the header of which the store knows only the revision.
fn fill(node: &Node, header: &mut Option<pb::ResponseHeader>) {
    let revision = header.as_ref().map_or(0, |header| header.revision);
    *header = Some(node.header(revision));
}
