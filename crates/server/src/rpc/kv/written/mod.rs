//! Answers to writes, and which of them are sent.
//!
//! A reply names the versions that a write replaced or deleted. Their values are read when its caller is answered: on
//! the RPC worker if they are few, else on another thread, in turn with long ranges, where ranges of transactions are
//! sorted as well. An answer that is too large is refused before its values are read.

use std::sync::Arc;

use api::etcdserverpb as pb;
use store::{Damaged, MAX_TXN_ANSWER_BYTES, Reply, Response, TxnReply, Values};

use crate::grpc::{AnswerRoom, EncodedMessage, Failure};
use crate::node::{LargeRanges, MIN_LARGE_RANGE_STEPS, Node};
use crate::rpc::call::Call;
use crate::rpc::streamed_range::{KnownDamage, check_length};

/// Bytes of a response to a deletion beside the deleted versions, at most: a header of four numbers, and how many.
const MAX_FRAME_OF_DELETION_BYTES: usize = 64;

/// Refuses to send an answer to a write that is too large, before its values are read. What was written is written.
fn check_reply(reply: &Reply) -> Result<(), Failure> {
    match reply {
        Reply::DeleteRange(reply) => check_length(reply.encoded_bytes() + MAX_FRAME_OF_DELETION_BYTES),
        Reply::Txn(reply) => check_answer(reply),
        _ => Ok(()),
    }
}

/// Refuses to send an answer of a transaction that is too large to be made, in the words of grpc-go. What the
/// transaction wrote is written.
pub(super) fn check_answer(reply: &TxnReply) -> Result<(), Failure> {
    let bytes = reply.answer_bytes();
    let text = match reply.is_too_large {
        true => "grpc: trying to send message larger than max (of a transaction's keys)".to_owned(),
        false if bytes > MAX_TXN_ANSWER_BYTES => {
            format!("grpc: trying to send message larger than max ({bytes} vs. {MAX_TXN_ANSWER_BYTES})")
        }
        false => return Ok(()),
    };
    Err(Failure::new(api::Code::ResourceExhausted, text))
}

/// Answers a write once there is room for the answer, after the values that its reply names are read and damaged ones
/// are repaired. Holds no pin, because the reply was made on another thread: a value that moved since is met as damage,
/// and read again where it is now (`store::resolve`).
pub(super) async fn answer_write(node: &Node, call: &Call, reply: Reply) -> Result<EncodedMessage, Failure> {
    let reply = sort_reply(&node.large_ranges, &call.room, reply).await?;
    check_reply(&reply)?;
    call.room.wait().await;
    let reply = Arc::new(reply);
    let mut known = KnownDamage::default();
    loop {
        match encode_write(&node.large_ranges, &call.room, &node.values, node.header_now(), &reply).await? {
            Ok(message) => return message,
            Err(damaged) => known.repair(node, &damaged).await?,
        }
    }
}

/// A reply with its ranges sorted by numbers: on another thread if it has many versions. A range is cut at its limit
/// when it is sorted, so a short answer may have many before.
async fn sort_reply(large_ranges: &LargeRanges, room: &AnswerRoom, reply: Reply) -> Result<Reply, Failure> {
    let is_large = reply.versions() >= MIN_LARGE_RANGE_STEPS;
    match reply {
        Reply::Txn(mut txn) if txn.is_unsorted() => {
            let sorted = move || {
                txn.sort_by_number();
                Reply::Txn(txn)
            };
            match is_large {
                true => large_ranges.begin(room, sorted).await.await.map_err(|_| Failure::unexpected()),
                false => Ok(sorted()),
            }
        }
        other => Ok(other),
    }
}

/// The encoded response to a write, made on another thread if it has many versions.
async fn encode_write(
    large_ranges: &LargeRanges,
    room: &AnswerRoom,
    values: &Arc<dyn Values>,
    header: pb::ResponseHeader,
    reply: &Arc<Reply>,
) -> Result<Result<Result<EncodedMessage, Failure>, Damaged>, Failure> {
    if reply.versions() < MIN_LARGE_RANGE_STEPS {
        return Ok(encode_reply(values.as_ref(), header, reply));
    }
    let (reply, values) = (reply.clone(), values.clone());
    let encode = move || encode_reply(values.as_ref(), header, &reply);
    large_ranges.begin(room, encode).await.await.map_err(|_| Failure::unexpected())
}

/// The encoded response to a write; `header` is that of the response but for its revision. Runs on any thread.
fn encode_reply(
    values: &dyn Values,
    header: pb::ResponseHeader,
    reply: &Reply,
) -> Result<Result<EncodedMessage, Failure>, Damaged> {
    // The store knows only the revision.
    let completed = |own: Option<pb::ResponseHeader>| {
        Some(pb::ResponseHeader { revision: own.map_or(0, |own| own.revision), ..header })
    };
    Ok(match store::resolve(reply, values)? {
        Response::Put(response) => {
            let header = completed(response.header);
            Ok(EncodedMessage::message(&pb::PutResponse { header, ..response }))
        }
        Response::DeleteRange(response) => {
            let header = completed(response.header);
            Ok(EncodedMessage::message(&pb::DeleteRangeResponse { header, ..response }))
        }
        Response::Txn(response) => {
            let header = completed(response.header);
            Ok(EncodedMessage::message(&pb::TxnResponse { header, ..response }))
        }
        _ => Err(Failure::unexpected()),
    })
}

#[cfg(test)]
mod tests;
