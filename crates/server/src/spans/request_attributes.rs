//! What the span of an operation is called, and what it says of the request: etcd's names.
//!
//! Keys are cut off: a key may be a megabyte, and spans wait in memory.

use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use api::methods;
use bytes::Bytes;
use prost::Message;
use store::ReadTxn;

use super::otlp::SpanAttribute;

/// Bytes of a key in a span.
const MAX_KEY_BYTES: usize = 1_024;

/// What a message asks for.
pub(crate) enum InnerOperation {
    /// To create a watch.
    Watch(pb::WatchCreateRequest),
    /// To renew the lease of this id.
    Renewal(i64),
    /// To stream a range.
    RangeStream(pb::RangeRequest),
}

/// The span of what a request asks for; `None` for methods that have no span of their own in etcd, and for bytes that
/// are not the message. `granted` is the id that a lease was given.
pub(super) fn operation(
    path: &str,
    body: &Bytes,
    granted: Option<i64>,
) -> Option<(&'static str, Vec<SpanAttribute>)> {
    let body = body.clone();
    Some(match path {
        methods::KV_RANGE => ("range", range(&pb::RangeRequest::decode(body).ok()?)),
        methods::KV_PUT => ("put", vec![key("key", &pb::PutRequest::decode(body).ok()?.key)]),
        methods::KV_DELETE_RANGE => {
            let request = pb::DeleteRangeRequest::decode(body).ok()?;
            ("delete_range", vec![key("range_begin", &request.key), key("range_end", &request.range_end)])
        }
        methods::KV_TXN => ("txn", txn(&pb::TxnRequest::decode(body).ok()?)),
        methods::KV_COMPACT => {
            let request = pb::CompactionRequest::decode(body).ok()?;
            let physical = SpanAttribute::truth("is_physical", request.physical);
            ("compact", vec![physical, SpanAttribute::number("rev", request.revision)])
        }
        methods::LEASE_GRANT => {
            let request = pb::LeaseGrantRequest::decode(body).ok()?;
            let id = SpanAttribute::number("id", granted.unwrap_or(request.id));
            ("lease_grant", vec![id, SpanAttribute::number("ttl", request.ttl)])
        }
        methods::LEASE_REVOKE => {
            let request = pb::LeaseRevokeRequest::decode(body).ok()?;
            ("lease_revoke", vec![SpanAttribute::number("id", request.id)])
        }
        _ => return None,
    })
}

/// The span of what one message of a call asks for.
pub(super) fn inner_operation(operation: &InnerOperation) -> (&'static str, Vec<SpanAttribute>) {
    match operation {
        InnerOperation::Watch(request) => ("watch", watch(request)),
        InnerOperation::Renewal(id) => ("lease_renew", vec![SpanAttribute::number("id", *id)]),
        InnerOperation::RangeStream(request) => {
            let mut attributes = range(request);
            // The last one is of keys alone, which etcd does not tell of a streamed range.
            attributes.pop();
            ("range_streaming", attributes)
        }
    }
}

/// As etcd reads the request: no key is the smallest one, and an end of a zero byte is written as none.
fn watch(request: &pb::WatchCreateRequest) -> Vec<SpanAttribute> {
    let first = if request.key.is_empty() { &b"\0"[..] } else { &request.key };
    let end = if request.range_end[..] == *b"\0" { &b""[..] } else { &request.range_end };
    vec![
        key("key", first),
        key("range_end", end),
        SpanAttribute::number("start_rev", request.start_revision),
        SpanAttribute::truth("progress_notify", request.progress_notify),
        SpanAttribute::truth("prev_kv", request.prev_kv),
        SpanAttribute::truth("fragment", request.fragment),
    ]
}

/// Bytes as a text: what is no UTF-8 is replaced, because the protocol carries nothing else.
fn key(name: &str, bytes: &[u8]) -> SpanAttribute {
    SpanAttribute::text(name, String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_KEY_BYTES)]))
}

fn range(request: &pb::RangeRequest) -> Vec<SpanAttribute> {
    vec![
        key("range_begin", &request.key),
        key("range_end", &request.range_end),
        SpanAttribute::number("rev", request.revision),
        SpanAttribute::number("limit", request.limit),
        SpanAttribute::truth("count_only", request.count_only),
        SpanAttribute::truth("keys_only", request.keys_only),
    ]
}

/// The key of an operation; empty for a transaction.
fn op_key(op: &pb::RequestOp) -> &[u8] {
    match &op.request {
        Some(Request::RequestRange(range)) => &range.key,
        Some(Request::RequestPut(put)) => &put.key,
        Some(Request::RequestDeleteRange(delete)) => &delete.key,
        Some(Request::RequestTxn(_)) | None => &[],
    }
}

/// The first key that is not empty.
fn first_key<'k>(mut keys: impl Iterator<Item = &'k [u8]>) -> &'k [u8] {
    keys.find(|key| !key.is_empty()).unwrap_or_default()
}

/// What an operation is, if it is any.
fn op_type(op: &pb::RequestOp) -> Option<&'static str> {
    Some(match op.request.as_ref()? {
        Request::RequestRange(_) => "range",
        Request::RequestPut(_) => "put",
        Request::RequestDeleteRange(_) => "delete_range",
        Request::RequestTxn(_) => "txn",
    })
}

/// As in etcd: the first key is the first that is not empty, and the lease that of the first put, -1 without one.
fn txn(request: &pb::TxnRequest) -> Vec<SpanAttribute> {
    let compared = first_key(request.compare.iter().map(|compare| &compare.key[..]));
    let first_op_key = first_key(request.success.iter().map(op_key));
    let first_type = request.success.iter().find_map(op_type).unwrap_or_default();
    let first_lease = request.success.iter().find_map(|op| match &op.request {
        Some(Request::RequestPut(put)) => Some(put.lease),
        _ => None,
    });
    let count = |name, count: usize| SpanAttribute::number(name, count as i64);
    vec![
        key("compare_first_key", compared),
        key("success_first_key", first_op_key),
        SpanAttribute::text("success_first_type", first_type),
        SpanAttribute::number("success_first_lease", first_lease.unwrap_or(-1)),
        count("compare_len", request.compare.len()),
        count("success_len", request.success.len()),
        count("failure_len", request.failure.len()),
        SpanAttribute::truth("read_only", ReadTxn::of(request).is_some()),
    ]
}

#[cfg(test)]
mod tests {
    //! What is cut off, and what is no request. Names and values are compared with etcd's by `tests/go/tracing`.
    use super::*;

    #[test]
    fn long_keys_are_cut_off_and_malformed_requests_have_no_span() {
        let put = pb::PutRequest { key: vec![b'k'; 1 << 20].into(), ..pb::PutRequest::default() };
        let (name, attributes) =
            operation(methods::KV_PUT, &put.encode_to_vec().into(), None).expect("a put");
        assert_eq!((name, attributes), ("put", vec![SpanAttribute::text("key", "k".repeat(MAX_KEY_BYTES))]));
        assert_eq!(operation(methods::KV_PUT, &Bytes::from_static(b"\x0a\x7f"), None), None);
        assert_eq!(operation(methods::AUTH_USER_ADD, &Bytes::new(), None), None, "it may hold a password");
    }

    #[test]
    fn a_lease_has_the_id_that_it_was_given() {
        let request = pb::LeaseGrantRequest { ttl: 9, id: 0 };
        let (_, attributes) =
            operation(methods::LEASE_GRANT, &request.encode_to_vec().into(), Some(77)).expect("a grant");
        assert_eq!(attributes, [SpanAttribute::number("id", 77), SpanAttribute::number("ttl", 9)]);
    }
}
