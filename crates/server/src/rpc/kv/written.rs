//! Answers to writes, and which of them are sent.
//!
//! A reply names the versions that a write replaced or deleted. Their values are read when its caller is answered: on
//! the RPC worker if they are few, else on another thread, in turn with long ranges. An answer that is too large is
//! refused before its values are read.

use std::sync::Arc;

use api::etcdserverpb as pb;
use store::{Damaged, MAX_TXN_ANSWER_BYTES, Reply, Response, TxnReply, Values};

use crate::grpc::{EncodedMessage, Failure};
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
pub(super) async fn answer_write(
    node: &Node,
    call: &Call,
    mut reply: Reply,
) -> Result<EncodedMessage, Failure> {
    if let Reply::Txn(reply) = &mut reply {
        reply.sort_by_number();
    }
    check_reply(&reply)?;
    call.room.wait().await;
    let reply = Arc::new(reply);
    let mut known = KnownDamage::default();
    loop {
        match encode_write(&node.large_ranges, &node.values, node.header_now(), &reply).await? {
            Ok(message) => return message,
            Err(damaged) => known.repair(node, &damaged).await?,
        }
    }
}

/// The encoded response to a write, made on another thread if it has many versions.
async fn encode_write(
    large_ranges: &LargeRanges,
    values: &Arc<dyn Values>,
    header: pb::ResponseHeader,
    reply: &Arc<Reply>,
) -> Result<Result<Result<EncodedMessage, Failure>, Damaged>, Failure> {
    if reply.versions() < MIN_LARGE_RANGE_STEPS {
        return Ok(encode_reply(values.as_ref(), header, reply));
    }
    let (reply, values) = (reply.clone(), values.clone());
    let encode = move || encode_reply(values.as_ref(), header, &reply);
    large_ranges.begin(encode).await.await.map_err(|_| Failure::unexpected())
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
mod tests {
    //! Which answers are sent, and which threads read their values.
    use bytes::Bytes;
    use store::{DeleteReply, KvRef, OpReply, RangeReply, Revision, ValueRef};

    use super::*;
    use crate::rpc::call::decode;

    fn kv(value_bytes: u32) -> KvRef {
        KvRef {
            key: "k".into(),
            create_revision: 2,
            mod_revision: Revision { main: 2, sub: 0 },
            version: 1,
            lease: 0,
            value: ValueRef { address: 1, len: value_bytes, checksum: 0 },
        }
    }

    /// The answer of a transaction with so many ranges that found one value of 1 MiB each, in a nested transaction.
    fn answer(ranges: usize, keys_only: bool) -> TxnReply {
        let range = OpReply::Range(RangeReply { kvs: vec![kv(1 << 20)], keys_only, ..RangeReply::default() });
        let nested = TxnReply { replies: vec![range; ranges], ..TxnReply::default() };
        TxnReply { replies: vec![OpReply::Txn(nested)], ..TxnReply::default() }
    }

    #[test]
    fn an_answer_that_would_not_fit_into_memory_is_refused_before_its_values_are_read() {
        assert!(check_answer(&answer(255, false)).is_ok());
        assert!(check_answer(&answer(1_000, true)).is_ok(), "it has no values");
        let failure =
            check_answer(&answer(256, false)).expect_err("one range is enough to be above the limit");
        assert_eq!(failure.code, api::Code::ResourceExhausted);
        let cut = TxnReply { is_too_large: true, ..TxnReply::default() };
        assert!(check_answer(&cut).is_err());
    }

    /// Remembers which threads read values.
    #[derive(Default)]
    struct ReadingThreads(parking_lot::Mutex<Vec<std::thread::ThreadId>>);

    impl Values for ReadingThreads {
        fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
            self.0.lock().push(std::thread::current().id());
            Ok(vec![b'v'; value.len as usize].into())
        }

        fn retain(&self, _: &ValueRef) {}

        fn release(&self, _: &ValueRef) {}
    }

    fn deleted(keys: usize, value_bytes: u32) -> DeleteReply {
        DeleteReply { revision: 3, deleted: keys as i64, previous: vec![kv(value_bytes); keys] }
    }

    #[tokio::test]
    async fn answers_to_writes_with_many_versions_leave_the_worker() {
        let ranges = LargeRanges::default();
        let header = pb::ResponseHeader { cluster_id: 5, raft_term: 2, revision: 9, ..Default::default() };
        let nested = |keys| {
            let replies = vec![OpReply::DeleteRange(deleted(keys, 3))];
            Reply::Txn(TxnReply { revision: 3, replies, ..TxnReply::default() })
        };
        for (reply, leaves) in [
            (Reply::DeleteRange(deleted(MIN_LARGE_RANGE_STEPS - 1, 3)), false),
            (Reply::DeleteRange(deleted(MIN_LARGE_RANGE_STEPS, 3)), true),
            (nested(1), false),
            (nested(MIN_LARGE_RANGE_STEPS), true),
        ] {
            let reading = Arc::new(ReadingThreads::default());
            let values: Arc<dyn Values> = reading.clone();
            let is_deletion = matches!(reply, Reply::DeleteRange(_));
            let message = encode_write(&ranges, &values, header, &Arc::new(reply)).await;
            let message = message.unwrap().expect("no value is damaged").unwrap();
            let here = std::thread::current().id();
            assert_eq!(reading.0.lock().iter().all(|thread| *thread != here), leaves);
            if is_deletion {
                let response: pb::DeleteRangeResponse = decode(message.0.concat().into()).unwrap();
                assert_eq!(response.header, Some(pb::ResponseHeader { revision: 3, ..header }));
                assert_eq!(response.prev_kvs.len() as i64, response.deleted);
                assert_eq!(&response.prev_kvs[0].value[..], b"vvv");
            }
        }
    }

    #[test]
    fn the_answer_to_a_deletion_is_refused_past_the_longest_message() {
        let largest = u32::MAX / 2;
        let failure = check_reply(&Reply::DeleteRange(deleted(1, largest))).unwrap_err();
        assert_eq!(failure.code, api::Code::ResourceExhausted);
        assert!(failure.message.contains("trying to send message larger than max"), "{}", failure.message);
        assert!(check_reply(&Reply::DeleteRange(deleted(1, largest - 100))).is_ok());
        assert!(
            check_reply(&Reply::DeleteRange(deleted(3, largest / 2))).is_err(),
            "together they are too long"
        );
    }
}
