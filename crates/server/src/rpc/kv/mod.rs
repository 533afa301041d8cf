//! The KV service.
//!
//! Reads are served on the RPC worker that received them, once the local state is fresh enough; ranges of 1,000 keys
//! and more, of 2 MiB, or that examine as many keys and changes, are encoded on another thread (`streamed_range.rs`),
//! and so are transactions of ranges. Writes are proposed as they were received: the log keeps the request's own bytes.
//! Their answers are made in `written`.

mod written;

use std::sync::Arc;
use std::time::Instant;

use api::etcdserverpb as pb;
use api::validate::{self, RaftField};
use bytes::Bytes;
use member::batch::CommandKind;
use store::{ChunkSink, Damaged, NextChunk, PermittedRange, RangeStream, ReadTxn, Reader, Reply, Values};

use self::written::{answer_write, check_answer};
use super::call::{self, Call, decode, decode_in_stream};
use super::streamed_range::{StreamedRange, UnaryResponse};
use super::streaming_call::{CountedRequests, ResponseSink, Responses};
use crate::grpc::{AnswerRoom, EncodedMessage, Failure};
use crate::node::{MIN_LARGE_RANGE_STEPS, Node};
use crate::spans::InnerOperation;

/// Answers of this many bytes are encoded there too, while they are sent: more than one value has by default, and about
/// as much work.
const MIN_LARGE_RANGE_BYTES: usize = 2 << 20;

/// Keys of a chunk of `RangeStream`; its bytes are limited by the request limit. A chunk is made on the RPC worker, so
/// it is what other calls of that worker wait for.
const MAX_CHUNK_KEYS: usize = MIN_LARGE_RANGE_STEPS;

pub(super) async fn put(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::PutRequest = decode(body.clone())?;
    validate::put(&request)?;
    let reply = write(node, call, CommandKind::Put, body).await?;
    answer_write(node, call, reply).await
}

pub(super) async fn delete_range(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::DeleteRangeRequest = decode(body.clone())?;
    validate::delete_range(&request)?;
    let reply = write(node, call, CommandKind::DeleteRange, body).await?;
    answer_write(node, call, reply).await
}

pub(super) async fn txn(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::TxnRequest = decode(body.clone())?;
    validate::txn(&request, node.live.max_txn_ops())?;
    let began = Instant::now();
    let (times, answer) = match ReadTxn::of(&request) {
        Some(txn) => (&node.times.read_txns, read_txn(node, call, &request, &txn).await),
        None => (&node.times.txns, write_txn(node, call, body).await),
    };
    times.observe(answer.is_ok(), began.elapsed());
    answer
}

/// Carries out a transaction on all members.
async fn write_txn(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let reply = write(node, call, CommandKind::Txn, body).await?;
    answer_write(node, call, reply).await
}

/// Answers a transaction that only reads from the local state.
async fn read_txn(
    node: &Node,
    call: &Call,
    request: &pb::TxnRequest,
    txn: &ReadTxn<'_>,
) -> Result<EncodedMessage, Failure> {
    node.check_serves()?;
    if !txn.is_serializable() {
        node.admit_read()?;
        node.linearize_for(&call.times).await?;
    }
    call.room.wait().await;
    let caller = node.identify(&call.credentials).await?;
    node.reader.check_txn(&caller, request)?;
    let is_long = may_be_long(request, || {
        let counts = node.reader.counts();
        counts.keys.max(counts.history)
    });
    if is_long {
        node.admit_large_range(&call.room)?;
    }
    loop {
        let header = node.header_now();
        let answered = match is_long {
            true => {
                let (log, reader, values) = (node.log.clone(), node.reader.clone(), node.values.clone());
                let request = request.clone();
                let answer = move || answer_txn(&log, &reader, values.as_ref(), header, &request);
                node.large_ranges.begin(&call.room, answer).await.await.map_err(|_| Failure::unexpected())?
            }
            false => answer_txn(&node.log, &node.reader, node.values.as_ref(), header, request),
        };
        match answered {
            Ok(answer) => {
                let message = answer?;
                node.reader.check_unchanged(&caller)?;
                return Ok(message);
            }
            Err(damaged) => node.repair(&damaged).await?,
        }
    }
}

/// Whether a transaction that only reads may examine so many keys that it is answered on another thread. A store with
/// few keys has no long ranges.
fn may_be_long(request: &pb::TxnRequest, keys: impl FnOnce() -> u64) -> bool {
    let is_range = |op: &pb::RequestOp| match &op.request {
        Some(pb::request_op::Request::RequestRange(range)) => !range.range_end.is_empty(),
        // What is in it is not looked at.
        Some(pb::request_op::Request::RequestTxn(_)) => true,
        _ => false,
    };
    let has_ranges = request.success.iter().chain(&request.failure).any(is_range)
        || request.compare.iter().any(|compare| !compare.range_end.is_empty());
    has_ranges && keys() >= MIN_LARGE_RANGE_STEPS as u64
}

/// The encoded answer to a transaction that only reads, from the local state; `header` is that of the response but for
/// its revision. Runs on any thread.
fn answer_txn(
    log: &log::Reader,
    reader: &Reader,
    values: &dyn Values,
    header: pb::ResponseHeader,
    request: &pb::TxnRequest,
) -> Result<Result<EncodedMessage, Failure>, Damaged> {
    let _pin = log.pin();
    let Some(txn) = ReadTxn::of(request) else { return Ok(Err(Failure::unexpected())) };
    let reply = match reader.txn(&txn)? {
        Ok(reply) => reply,
        Err(error) => return Ok(Err(error.into())),
    };
    if let Err(failure) = check_answer(&reply) {
        return Ok(Err(failure));
    }
    let mut response = store::resolve_txn(&reply, values)?;
    let revision = response.header.as_ref().map_or(0, |header| header.revision);
    response.header = Some(pb::ResponseHeader { revision, ..header });
    Ok(Ok(EncodedMessage::message(&response)))
}

pub(super) async fn compact(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::CompactionRequest>(body.clone())?;
    write(node, call, CommandKind::Compaction, body).await?;
    Ok(EncodedMessage::message(&pb::CompactionResponse { header: Some(node.header_now()) }))
}

pub(super) async fn range(node: &Arc<Node>, call: &Call, body: Bytes) -> Result<UnaryResponse, Failure> {
    let request: pb::RangeRequest = decode(body)?;
    validate::range(&request)?;
    node.check_serves()?;
    if !request.serializable {
        if node.is_learner() {
            return Err(api::Error::NotSupportedForLearner.into());
        }
        node.admit_read()?;
        node.linearize_for(&call.times).await?;
    }
    call.room.wait().await;
    let caller = node.identify(&call.credentials).await?;
    node.reader.check_range(&caller, &request.key, &request.range_end)?;
    let began = Instant::now();
    let answer = find_range(node, &call.room, request).await;
    node.times.ranges.observe(answer.is_ok(), began.elapsed());
    node.reader.check_unchanged(&caller)?;
    answer
}

/// Answers a range from the local state; a large one is captured, and encoded while it is sent.
async fn find_range(
    node: &Arc<Node>,
    room: &AnswerRoom,
    request: pb::RangeRequest,
) -> Result<UnaryResponse, Failure> {
    // Each attempt looks the keys up again, so a value that was compacted meanwhile is not met again and needs no note
    // of known damage.
    loop {
        match encode_short_range(node, &request) {
            Ok(Ok(Some(parts))) => return Ok(EncodedMessage(parts).into()),
            Ok(Ok(None)) => {
                node.admit_large_range(room)?;
                let range = StreamedRange::begin(node, room, request).await?;
                return Ok(UnaryResponse::Streamed(Box::new(range)));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(damaged) => node.repair(&damaged).await?,
        }
    }
}

/// The encoded answer; `None` if to encode it would delay the other connections of its RPC worker.
fn encode_short_range(
    node: &Node,
    request: &pb::RangeRequest,
) -> Result<Result<Option<Vec<Bytes>>, api::Error>, Damaged> {
    let _pin = node.pin();
    let mut short = ShortRange::default();
    let header = |revision| node.header(revision);
    let encoded = node.reader.encode_range_within(request, MIN_LARGE_RANGE_STEPS, header, &mut short)?;
    Ok(encoded.map(|is_encoded| (is_encoded && !short.is_long).then_some(short.parts)))
}

/// Takes an answer if it is short.
#[derive(Default)]
struct ShortRange {
    parts: Vec<Bytes>,
    is_long: bool,
}

impl ChunkSink for ShortRange {
    fn begin(&mut self, bytes: usize) {
        self.is_long = bytes >= MIN_LARGE_RANGE_BYTES;
    }

    fn next(&mut self, _: usize) -> NextChunk {
        if self.is_long { NextChunk::Stop } else { NextChunk::Make }
    }

    fn push(&mut self, chunk: Bytes) {
        self.parts.push(chunk);
    }
}

pub(super) async fn range_stream(
    node: Arc<Node>,
    call: Call,
    mut requests: CountedRequests,
) -> Result<Responses, Failure> {
    let request: pb::RangeRequest = decode_in_stream(requests.only().await?)?;
    validate::range_stream(&request)?;
    let span = call.spans.as_ref().map(|spans| spans.begin(InnerOperation::RangeStream(request.clone())));
    node.check_serves()?;
    if !request.serializable {
        node.admit_read()?;
        node.linearize_for(&call.times).await?;
    }
    let caller = node.identify(&call.credentials).await?;
    node.reader.check_range(&caller, &request.key, &request.range_end)?;
    let call = call.bind_to_user(caller);
    Ok(Responses::of(|sink| async move {
        let _span = span;
        call::while_led(&node, &call, send_chunks(&node, &call, &request, &sink)).await
    }))
}

/// Sends a range chunk by chunk at one pinned revision, each chunk near the size of the request limit.
async fn send_chunks(
    node: &Node,
    call: &Call,
    request: &pb::RangeRequest,
    sink: &ResponseSink,
) -> Result<(), Failure> {
    let _pin = node.pin();
    let stream = match node.reader.range_stream_within(request, MIN_LARGE_RANGE_STEPS)? {
        Some(stream) => stream,
        None => begin_long_stream(node, &call.room, request.clone()).await?,
    };
    let mut range = PermittedRange::new(&node.reader, request, stream);
    loop {
        match range.find(MAX_CHUNK_KEYS, node.live.max_request_bytes()) {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(()),
            Ok(Err(error)) => return Err(error.into()),
            Err(damaged) => {
                node.repair(&damaged).await?;
                continue;
            }
        }
        // The stream is long: permissions may have changed since it began.
        let caller = node.identify(&call.credentials).await?.at_present();
        match range.encode_as(&caller, |revision| node.header(revision), node.values.as_ref()) {
            Ok(parts) => sink.send(EncodedMessage(parts?)).await,
            Err(damaged) => node.repair(&damaged).await?,
        }
    }
}

/// Begins a stream that must count or sort many keys first, on another thread.
async fn begin_long_stream(
    node: &Node,
    room: &AnswerRoom,
    request: pb::RangeRequest,
) -> Result<RangeStream, Failure> {
    node.admit_large_range(room)?;
    let reader = node.reader.clone();
    let begun = node.large_ranges.begin(room, move || reader.range_stream(&request)).await;
    Ok(begun.await.map_err(|_| Failure::unexpected())??)
}

async fn write(node: &Node, call: &Call, kind: CommandKind, body: Bytes) -> Result<Reply, Failure> {
    node.admit_command(kind)?;
    // etcd's order: the token, the size, and then whether there is a user at all.
    let caller = node.identify(&call.credentials).await?;
    node.check_size(RaftField::Kv, body.len(), &caller)?;
    node.refuse_anonymous(&caller).await?;
    Ok(node.propose_for(&call.times, kind, caller, body).await?)
}

#[cfg(test)]
mod tests {
    //! Which transactions are long.
    use super::*;

    #[test]
    fn transactions_of_ranges_leave_the_worker_where_ranges_can_be_long() {
        let get = |key: &'static str, range_end: &'static str| {
            let range = pb::RangeRequest {
                key: key.into(),
                range_end: range_end.into(),
                ..pb::RangeRequest::default()
            };
            let request = Some(pb::request_op::Request::RequestRange(range));
            pb::TxnRequest { failure: vec![pb::RequestOp { request }], ..pb::TxnRequest::default() }
        };
        assert!(!may_be_long(&get("a", ""), || unreachable!("no key is counted for a get")));
        assert!(!may_be_long(&get("a", "b"), || 999));
        assert!(may_be_long(&get("a", "b"), || 1_000));
        let nested = pb::request_op::Request::RequestTxn(get("a", "b"));
        let nested = vec![pb::RequestOp { request: Some(nested) }];
        let nested = pb::TxnRequest { failure: nested, ..Default::default() };
        assert!(may_be_long(&nested, || 1_000));
        let compare = pb::Compare { range_end: "b".into(), ..pb::Compare::default() };
        let compares = pb::TxnRequest { compare: vec![compare], ..pb::TxnRequest::default() };
        assert!(may_be_long(&compares, || 1_000));
    }

    #[test]
    fn an_answer_of_two_mebibytes_leaves_the_worker() {
        for (bytes, is_long) in [((2 << 20) - 1, false), (2 << 20, true)] {
            let mut short = ShortRange::default();
            short.begin(bytes);
            assert_eq!((short.is_long, matches!(short.next(1), NextChunk::Stop)), (is_long, is_long));
        }
    }
}
