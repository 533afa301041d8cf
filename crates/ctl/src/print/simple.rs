//! The simple form: lines for people and for scripts.

use std::io::Write;

use api::{etcdserverpb as pb, mvccpb};

use super::View;

/// A line of text.
pub(crate) fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing into memory cannot fail.
    let _ = writeln!(out, "{text}");
}

/// A key and its value, each on a line; `--hex` writes bytes as `\x61`.
pub(crate) fn key_value(out: &mut Vec<u8>, kv: &mvccpb::KeyValue, view: View) {
    if !view.value_only {
        bytes_line(out, &kv.key, view.hex);
    }
    bytes_line(out, &kv.value, view.hex);
}

fn bytes_line(out: &mut Vec<u8>, bytes: &[u8], hex: bool) {
    if hex {
        for byte in bytes {
            let _ = write!(out, "\\x{byte:02x}");
        }
    } else {
        out.extend_from_slice(bytes);
    }
    out.push(b'\n');
}

/// The keys of a range.
pub(crate) fn range(out: &mut Vec<u8>, response: &pb::RangeResponse, view: View) {
    for kv in &response.kvs {
        key_value(out, kv, view);
    }
}

/// `OK`, and the value before.
pub(crate) fn put(out: &mut Vec<u8>, response: &pb::PutResponse, view: View) {
    out.extend_from_slice(b"OK\n");
    if let Some(kv) = &response.prev_kv {
        key_value(out, kv, view);
    }
}

/// How many keys were deleted, and the values before.
pub(crate) fn delete(out: &mut Vec<u8>, response: &pb::DeleteRangeResponse, view: View) {
    line(out, format_args!("{}", response.deleted));
    for kv in &response.prev_kvs {
        key_value(out, kv, view);
    }
}

/// Which branch was taken, and the answers of its requests.
pub(crate) fn txn(out: &mut Vec<u8>, response: &pb::TxnResponse, view: View) {
    use pb::response_op::Response;
    out.extend_from_slice(if response.succeeded { b"SUCCESS\n" } else { b"FAILURE\n" });
    for response in &response.responses {
        out.push(b'\n');
        match &response.response {
            Some(Response::ResponseRange(response)) => range(out, response, view),
            Some(Response::ResponsePut(response)) => put(out, response, view),
            Some(Response::ResponseDeleteRange(response)) => delete(out, response, view),
            Some(Response::ResponseTxn(_)) | None => line(out, format_args!("unexpected response")),
        }
    }
}

/// The kind of an event.
pub(crate) fn event_kind(event: &mvccpb::Event) -> &'static str {
    match event.r#type {
        0 => "PUT",
        _ => "DELETE",
    }
}

/// Events, each with its kind, the value before and the new one.
pub(crate) fn events(out: &mut Vec<u8>, response: &pb::WatchResponse, view: View) {
    for event in &response.events {
        line(out, format_args!("{}", event_kind(event)));
        for kv in event.prev_kv.iter().chain(&event.kv) {
            key_value(out, kv, view);
        }
    }
}
