//! The KV service.
//!
//! Reads are served right here, on the worker that took them, once the local state is fresh enough. Writes are proposed as
//! they came: the request's own bytes are what the log keeps.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::validate;
use bytes::Bytes;
use member::batch::Kind;
use pb::request_op::Request;
use prost::Message;
use store::{Reply, Response};

use super::stream::{Gone, Requests, Responses, Sink, responses};
use super::{Call, Encoded, Failure, decode};
use crate::node::Node;

/// Keys of the first piece of a streamed range; later pieces grow or shrink towards the request limit.
const FIRST_PIECE_KEYS: usize = 10;

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
    let reply = if only_reads(&request) {
        if !only_serializable(&request) {
            node.linearize().await?;
        }
        read_txn(node, &request).await?
    } else {
        write(node, Kind::Txn, body).await?
    };
    let Response::Txn(mut response) = resolve(node, &reply).await? else { return Err(Failure::unexpected()) };
    fill(node, &mut response.header);
    Ok(Encoded::message(&response))
}

pub(super) async fn compact(node: &Node, body: Bytes) -> Result<Encoded, Failure> {
    decode::<pb::CompactionRequest>(body.clone())?;
    write(node, Kind::Compaction, body).await?;
    Ok(Encoded::message(&pb::CompactionResponse { header: Some(node.header_now()) }))
}

pub(super) async fn range(node: &Node, body: Bytes) -> Result<Encoded, Failure> {
    let request: pb::RangeRequest = decode(body)?;
    validate::range(&request)?;
    if !request.serializable {
        node.linearize().await?;
    }
    loop {
        let _pin = node.pin();
        let reply = node.reader.range(&request)?;
        match store::resolve_range(&reply, node.values.as_ref()) {
            Ok(mut response) => {
                fill(node, &mut response.header);
                return Ok(Encoded::message(&response));
            }
            Err(damaged) => node.heal(&damaged).await?,
        }
    }
}

pub(super) async fn range_stream(
    node: Arc<Node>,
    call: Call,
    mut requests: Requests,
) -> Result<Responses, Failure> {
    let request: pb::RangeRequest = match requests.next().await {
        Some(body) => decode(body)?,
        None => return Err(Failure::new(api::Code::InvalidArgument, "the request is missing")),
    };
    validate::range_stream(&request)?;
    if !request.serializable {
        node.linearize().await?;
    }
    let (sink, stream) = responses();
    tokio::spawn(async move {
        tokio::select! {
            ended = send_pieces(&node, &request, &sink) => {
                if let Err(failure) = ended {
                    sink.fail(failure).await;
                }
            }
            failure = super::leader_lost(&node, &call) => sink.fail(failure).await,
        }
    });
    Ok(stream)
}

/// Sends a range piece by piece at one pinned revision, each piece near the size of the request limit.
async fn send_pieces(node: &Node, request: &pb::RangeRequest, sink: &Sink) -> Result<(), Failure> {
    let _pin = node.pin();
    let mut pieces = node.reader.range_stream(request)?;
    let mut keys = FIRST_PIECE_KEYS;
    while let Some(piece) = pieces.next_chunk(keys) {
        let mut response = loop {
            match store::resolve_range(&piece, node.values.as_ref()) {
                Ok(response) => break response,
                Err(damaged) => node.heal(&damaged).await?,
            }
        };
        if let Some(header) = &mut response.header {
            *header = node.header(header.revision);
        }
        let encoded = Encoded::message(&pb::RangeStreamResponse { range_response: Some(response) });
        keys = next_piece_keys(keys, encoded.len(), node.limits.max_request_bytes);
        if let Err(Gone) = sink.send(encoded).await {
            break;
        }
    }
    Ok(())
}

/// Doubles or halves when the last piece was far from the target; staying near it avoids swinging.
fn next_piece_keys(keys: usize, bytes: usize, target: usize) -> usize {
    if bytes < target / 2 {
        keys * 2
    } else if bytes > target * 2 {
        (keys / 2).max(1)
    } else {
        keys
    }
}

async fn write(node: &Node, kind: Kind, body: Bytes) -> Result<Reply, Failure> {
    validate::size(body.len(), node.limits.max_request_bytes)?;
    Ok(node.propose(kind, body).await?)
}

/// A transaction without writes needs no entry: it is evaluated against the local state, at one revision.
async fn read_txn(node: &Node, request: &pb::TxnRequest) -> Result<Reply, Failure> {
    loop {
        let _pin = node.pin();
        match node.reader.txn(request) {
            Ok(reply) => return Ok(reply?),
            Err(damaged) => node.heal(&damaged).await?,
        }
    }
}

/// Reads the values a reply names, waiting for damaged ones to be healed.
async fn resolve(node: &Node, reply: &Reply) -> Result<Response, Failure> {
    loop {
        match store::resolve(reply, node.values.as_ref()) {
            Ok(response) => return Ok(response),
            Err(damaged) => node.heal(&damaged).await?,
        }
    }
}

/// Completes the header of which the store knows only the revision.
fn fill(node: &Node, header: &mut Option<pb::ResponseHeader>) {
    let revision = header.as_ref().map_or(0, |header| header.revision);
    *header = Some(node.header(revision));
}

fn all_operations(request: &pb::TxnRequest, test: &impl Fn(&Request) -> bool) -> bool {
    request.success.iter().chain(&request.failure).all(|op| match &op.request {
        Some(Request::RequestTxn(nested)) => all_operations(nested, test),
        Some(operation) => test(operation),
        None => true,
    })
}

fn only_reads(request: &pb::TxnRequest) -> bool {
    all_operations(request, &|operation| matches!(operation, Request::RequestRange(_)))
}

fn only_serializable(request: &pb::TxnRequest) -> bool {
    all_operations(request, &|operation| matches!(operation, Request::RequestRange(range) if range.serializable))
}

#[cfg(test)]
mod tests {
    //! Which transactions read only, and how piece sizes move.
    use super::*;

    fn op(request: Request) -> pb::RequestOp {
        pb::RequestOp { request: Some(request) }
    }

    #[test]
    fn a_write_anywhere_makes_a_transaction_a_write() {
        let read = op(Request::RequestRange(pb::RangeRequest { serializable: true, ..Default::default() }));
        let write = op(Request::RequestPut(pb::PutRequest::default()));
        let reads = pb::TxnRequest { success: vec![read.clone()], ..Default::default() };
        assert!(only_reads(&reads) && only_serializable(&reads));
        let nested = pb::TxnRequest { failure: vec![write], ..Default::default() };
        let mixed = pb::TxnRequest {
            success: vec![read, op(Request::RequestTxn(nested))],
            ..Default::default()
        };
        assert!(!only_reads(&mixed));
    }

    #[test]
    fn pieces_grow_to_the_target_and_shrink_back() {
        assert_eq!(next_piece_keys(10, 100, 1000), 20);
        assert_eq!(next_piece_keys(10, 900, 1000), 10);
        assert_eq!(next_piece_keys(10, 2100, 1000), 5);
        assert_eq!(next_piece_keys(1, 9000, 1000), 1);
    }
}
