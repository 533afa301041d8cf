//! The form of fields: one `"Name" : value` on each line.

use api::{etcdserverpb as pb, mvccpb};

use super::View;
use super::simple::{event_kind, line};
use cli::text::quote::quoted;

/// An id, in hexadecimal digits if asked for.
pub(crate) fn id(out: &mut Vec<u8>, name: &str, id: u64, view: View) {
    if view.hex {
        line(out, format_args!("\"{name}\" : {id:x}"))
    } else {
        line(out, format_args!("\"{name}\" : {id}"))
    }
}

/// The fields of a header; the revision only where it has one.
pub(crate) fn header(out: &mut Vec<u8>, header: &Option<pb::ResponseHeader>, view: View) {
    let header = header.unwrap_or_default();
    id(out, "ClusterID", header.cluster_id, view);
    id(out, "MemberID", header.member_id, view);
    if header.revision > 0 {
        line(out, format_args!("\"Revision\" : {}", header.revision));
    }
    line(out, format_args!("\"RaftTerm\" : {}", header.raft_term));
}

/// A key and its value.
pub(crate) fn key_value(out: &mut Vec<u8>, prefix: &str, kv: &mvccpb::KeyValue, view: View) {
    line(out, format_args!("\"{prefix}Key\" : {}", quoted(&kv.key)));
    line(out, format_args!("\"{prefix}CreateRevision\" : {}", kv.create_revision));
    line(out, format_args!("\"{prefix}ModRevision\" : {}", kv.mod_revision));
    line(out, format_args!("\"{prefix}Version\" : {}", kv.version));
    line(out, format_args!("\"{prefix}Value\" : {}", quoted(&kv.value)));
    lease(out, &format!("{prefix}Lease"), kv.lease, view);
}

/// The id of a lease.
pub(crate) fn lease(out: &mut Vec<u8>, name: &str, id: i64, view: View) {
    if view.hex {
        line(out, format_args!("\"{name}\" : {id:016x}"));
    } else {
        line(out, format_args!("\"{name}\" : {id}"));
    }
}

/// A range.
pub(crate) fn range(out: &mut Vec<u8>, response: &pb::RangeResponse, view: View) {
    header(out, &response.header, view);
    for kv in &response.kvs {
        key_value(out, "", kv, view);
    }
    line(out, format_args!("\"More\" : {}", response.more));
    line(out, format_args!("\"Count\" : {}", response.count));
}

/// A put.
pub(crate) fn put(out: &mut Vec<u8>, response: &pb::PutResponse, view: View) {
    header(out, &response.header, view);
    if let Some(kv) = &response.prev_kv {
        key_value(out, "Prev", kv, view);
    }
}

/// A delete.
pub(crate) fn delete(out: &mut Vec<u8>, response: &pb::DeleteRangeResponse, view: View) {
    header(out, &response.header, view);
    line(out, format_args!("\"Deleted\" : {}", response.deleted));
    for kv in &response.prev_kvs {
        key_value(out, "Prev", kv, view);
    }
}

/// A transaction with the answers of its requests.
pub(crate) fn txn(out: &mut Vec<u8>, response: &pb::TxnResponse, view: View) {
    use pb::response_op::Response;
    header(out, &response.header, view);
    line(out, format_args!("\"Succeeded\" : {}", response.succeeded));
    for response in &response.responses {
        match &response.response {
            Some(Response::ResponseRange(response)) => range(out, response, view),
            Some(Response::ResponsePut(response)) => put(out, response, view),
            Some(Response::ResponseDeleteRange(response)) => delete(out, response, view),
            Some(Response::ResponseTxn(_)) | None => line(out, format_args!("\"Unknown\" : \"\"")),
        }
    }
}

/// The events of a watch.
pub(crate) fn events(out: &mut Vec<u8>, response: &pb::WatchResponse, view: View) {
    header(out, &response.header, view);
    for event in &response.events {
        line(out, format_args!("\"Type\" : {}", event_kind(event)));
        if let Some(kv) = &event.prev_kv {
            key_value(out, "Prev", kv, view);
        }
        if let Some(kv) = &event.kv {
            key_value(out, "", kv, view);
        }
    }
}
