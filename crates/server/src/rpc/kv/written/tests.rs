//! Which answers are sent, and which threads read their values.
use api::etcdserverpb::range_request::SortTarget;
use bytes::Bytes;
use store::{DeleteReply, KvRef, OpReply, RangeReply, ReplyOrder, Revision, ValueRef};

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
    let failure = check_answer(&answer(256, false)).expect_err("one range is enough to be above the limit");
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
        let message = encode_write(&ranges, &AnswerRoom::default(), &values, header, &Arc::new(reply)).await;
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

/// Beside an earlier range, which needs no sorting, in a nested transaction.
#[tokio::test]
async fn ranges_of_transactions_are_sorted_and_cut_however_long_they_are() {
    let ranges = LargeRanges::default();
    for keys in [5, 2 * MIN_LARGE_RANGE_STEPS as i64] {
        let kvs = (1..=keys).map(|version| KvRef { version, ..kv(3) }).collect();
        let order = Some(ReplyOrder { by: SortTarget::Version, descending: true, limit: 3 });
        let unsorted = OpReply::Range(RangeReply { kvs, order, ..RangeReply::default() });
        let sorted = OpReply::Range(RangeReply { kvs: vec![kv(3)], ..RangeReply::default() });
        let nested = TxnReply { replies: vec![sorted, unsorted], ..TxnReply::default() };
        let reply = TxnReply { replies: vec![OpReply::Txn(nested)], ..TxnReply::default() };
        assert!(reply.is_unsorted());
        let Ok(Reply::Txn(mut reply)) = sort_reply(&ranges, &AnswerRoom::default(), Reply::Txn(reply)).await
        else {
            panic!("it is the same reply")
        };
        assert!(!reply.is_unsorted());
        let Some(OpReply::Txn(mut nested)) = reply.replies.pop() else { panic!("it is nested") };
        let Some(OpReply::Range(range)) = nested.replies.pop() else { panic!("it has two ranges") };
        let versions: Vec<i64> = range.kvs.iter().map(|kv| kv.version).collect();
        assert_eq!(versions, [keys, keys - 1, keys - 2]);
    }
}

#[test]
fn the_answer_to_a_deletion_is_refused_past_the_longest_message() {
    let largest = u32::MAX / 2;
    let failure = check_reply(&Reply::DeleteRange(deleted(1, largest))).unwrap_err();
    assert_eq!(failure.code, api::Code::ResourceExhausted);
    assert!(failure.message.contains("trying to send message larger than max"), "{}", failure.message);
    assert!(check_reply(&Reply::DeleteRange(deleted(1, largest - 100))).is_ok());
    assert!(check_reply(&Reply::DeleteRange(deleted(3, largest / 2))).is_err(), "together they are too long");
}
