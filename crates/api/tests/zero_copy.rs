//! Decoding from `Bytes` shares the buffer: a value is never copied on its way to the log.

use api::etcdserverpb::request_op::Request;
use api::etcdserverpb::{PutRequest, RequestOp, TxnRequest};
use bytes::Bytes;
use prost::Message;

fn lies_within(part: &Bytes, whole: &Bytes) -> bool {
    !part.is_empty() && whole.as_ptr_range().contains(&part.as_ptr())
}

fn put() -> PutRequest {
    PutRequest { key: "key".into(), value: vec![7; 1 << 20].into(), ..Default::default() }
}

#[test]
fn a_put_shares_the_buffer_it_was_decoded_from() {
    let wire = Bytes::from(put().encode_to_vec());
    let decoded = PutRequest::decode(wire.clone()).expect("own encoding");
    assert_eq!(decoded, put());
    assert!(lies_within(&decoded.key, &wire));
    assert!(lies_within(&decoded.value, &wire));
}

#[test]
fn so_does_a_put_inside_a_transaction() {
    let op = RequestOp { request: Some(Request::RequestPut(put())) };
    let txn = TxnRequest { success: vec![op], ..Default::default() };
    let wire = Bytes::from(txn.encode_to_vec());
    let decoded = TxnRequest::decode(wire.clone()).expect("own encoding");
    let Some(Request::RequestPut(inner)) = &decoded.success[0].request else {
        panic!("the operation is a put");
    };
    assert!(lies_within(&inner.value, &wire));
}

#[test]
fn a_cut_message_is_an_error() {
    let wire = Bytes::from(put().encode_to_vec());
    assert!(PutRequest::decode(wire.slice(..wire.len() - 1)).is_err());
}
