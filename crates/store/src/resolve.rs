//! Turns replies into responses, by reading the values that a reply refers to.
//!
//! Runs after apply on any thread, without any lock. A file stays readable as long as a pin from before the reply
//! was made is held; without one, a value may have moved meanwhile, which is answered like damage and read again.

use std::borrow::Cow;

use api::etcdserverpb as pb;
use api::etcdserverpb::response_op::Response as Op;
use api::mvccpb;
use bytes::Bytes;

use crate::command::{DeleteReply, OpReply, PutReply, Reply, TxnReply};
use crate::range::RangeReply;
use crate::types::KvRef;
use crate::values::{Damaged, ValueRef, Values, read};

/// A response whose header has only the revision; the server fills in cluster, member and term.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// To a put.
    Put(pb::PutResponse),
    /// To a deletion.
    DeleteRange(pb::DeleteRangeResponse),
    /// To a transaction.
    Txn(pb::TxnResponse),
    /// To a compaction.
    Compaction(pb::CompactionResponse),
    /// To a grant.
    LeaseGrant(pb::LeaseGrantResponse),
    /// To a revocation.
    LeaseRevoke(pb::LeaseRevokeResponse),
    /// To a checkpoint of leases.
    LeaseCheckpoint(pb::LeaseCheckpointResponse),
    /// To an alarm request.
    Alarm(pb::AlarmResponse),
    /// To a command without a response.
    Done,
}

/// Turns a reply into the response.
///
/// # Errors
/// [`Damaged`] when a value cannot be read; repair it and call again.
pub fn resolve(reply: &Reply, values: &dyn Values) -> Result<Response, Damaged> {
    Ok(match reply {
        Reply::Put(reply) => Response::Put(put(reply, values)?),
        Reply::DeleteRange(reply) => Response::DeleteRange(delete_range(reply, values)?),
        Reply::Txn(reply) => Response::Txn(resolve_txn(reply, values)?),
        Reply::Compaction { revision } => {
            Response::Compaction(pb::CompactionResponse { header: header(*revision) })
        }
        Reply::LeaseGrant { id, ttl, revision } => Response::LeaseGrant(pb::LeaseGrantResponse {
            header: header(*revision),
            id: *id,
            ttl: *ttl,
            error: String::new(),
        }),
        Reply::LeaseRevoke { revision } => {
            Response::LeaseRevoke(pb::LeaseRevokeResponse { header: header(*revision) })
        }
        Reply::LeaseCheckpoint { revision } => {
            Response::LeaseCheckpoint(pb::LeaseCheckpointResponse { header: header(*revision) })
        }
        Reply::Alarm { revision, alarms } => {
            Response::Alarm(pb::AlarmResponse { header: header(*revision), alarms: alarms.clone() })
        }
        Reply::Auth { .. } | Reply::Done => Response::Done,
    })
}

/// Turns the answer to a range into the response.
///
/// # Errors
/// [`Damaged`] when a value cannot be read; repair it and call again.
pub fn resolve_range(reply: &RangeReply, values: &dyn Values) -> Result<pb::RangeResponse, Damaged> {
    let mut sorted_reply = Cow::Borrowed(reply);
    if reply.order.is_some() {
        sort(sorted_reply.to_mut(), values)?;
    }
    let kvs = if reply.keys_only {
        sorted_reply.kvs.iter().map(|kv| key_value(kv, Bytes::new())).collect()
    } else {
        with_values(&sorted_reply.kvs, values)?
    };
    Ok(pb::RangeResponse { header: header(reply.revision), kvs, more: reply.more, count: reply.count })
}

/// Sorts the keys of a reply and cuts them at the limit, if the reply requires it.
pub(crate) fn sort(reply: &mut RangeReply, values: &dyn Values) -> Result<(), Damaged> {
    reply.sort_by_number();
    let Some(by_value) = reply.order else { return Ok(()) };
    // Until all values are read, the reply stays as it is: after a repair the caller tries again.
    let read = read_all(&reply.kvs, values)?;
    reply.order = None;
    let kvs = std::mem::take(&mut reply.kvs);
    let mut sorted: Vec<(Bytes, KvRef)> = read.into_iter().zip(kvs).collect();
    sorted.sort_by(|(a, _), (b, _)| if by_value.descending { b.cmp(a) } else { a.cmp(b) });
    if by_value.limit > 0 {
        sorted.truncate(by_value.limit);
    }
    reply.kvs = sorted.into_iter().map(|(_, kv)| kv).collect();
    Ok(())
}

/// Reads the value of one version.
///
/// # Errors
/// [`Damaged`] when it cannot be read.
pub fn resolve_kv(kv: &KvRef, values: &dyn Values) -> Result<mvccpb::KeyValue, Damaged> {
    let value = read(values, &kv.value).map_err(|damaged| named(damaged, std::slice::from_ref(kv)))?;
    Ok(key_value(kv, value))
}

fn header(revision: i64) -> Option<pb::ResponseHeader> {
    Some(pb::ResponseHeader { revision, ..Default::default() })
}

fn key_value(kv: &KvRef, value: Bytes) -> mvccpb::KeyValue {
    mvccpb::KeyValue {
        key: kv.key.clone(),
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision.main,
        version: kv.version,
        value,
        lease: kv.lease,
    }
}

/// Reads the values of all versions at once.
fn read_all(kvs: &[KvRef], values: &dyn Values) -> Result<Vec<Bytes>, Damaged> {
    let wanted: Vec<ValueRef> = kvs.iter().map(|kv| kv.value).filter(|value| value.len > 0).collect();
    let read = values.read_many(&wanted).map_err(|damaged| named(damaged, kvs))?;
    let mut read = read.into_iter();
    let value_of = |kv: &KvRef| match kv.value.len {
        0 => Bytes::new(),
        _ => read.next().expect("as many values as were requested"),
    };
    Ok(kvs.iter().map(value_of).collect())
}

/// Names the key of a damaged value.
fn named(damaged: Damaged, kvs: &[KvRef]) -> Damaged {
    damaged.among(kvs.iter().map(|kv| (&*kv.key, kv.value)))
}

fn with_values(kvs: &[KvRef], values: &dyn Values) -> Result<Vec<mvccpb::KeyValue>, Damaged> {
    let read = read_all(kvs, values)?;
    Ok(kvs.iter().zip(read).map(|(kv, value)| key_value(kv, value)).collect())
}

fn put(reply: &PutReply, values: &dyn Values) -> Result<pb::PutResponse, Damaged> {
    let prev_kv = reply.previous.as_ref().map(|kv| resolve_kv(kv, values)).transpose()?;
    Ok(pb::PutResponse { header: header(reply.revision), prev_kv })
}

fn delete_range(reply: &DeleteReply, values: &dyn Values) -> Result<pb::DeleteRangeResponse, Damaged> {
    let prev_kvs = with_values(&reply.previous, values)?;
    Ok(pb::DeleteRangeResponse { header: header(reply.revision), deleted: reply.deleted, prev_kvs })
}

/// Turns the answer to a transaction into the response.
///
/// # Errors
/// [`Damaged`] when a value cannot be read; repair it and call again.
pub fn resolve_txn(reply: &TxnReply, values: &dyn Values) -> Result<pb::TxnResponse, Damaged> {
    let responses = reply.replies.iter().map(|reply| op(reply, values)).collect::<Result<_, _>>()?;
    Ok(pb::TxnResponse { header: header(reply.revision), succeeded: reply.succeeded, responses })
}

fn op(reply: &OpReply, values: &dyn Values) -> Result<pb::ResponseOp, Damaged> {
    let response = match reply {
        OpReply::Range(reply) => Some(Op::ResponseRange(resolve_range(reply, values)?)),
        OpReply::Put(reply) => Some(Op::ResponsePut(put(reply, values)?)),
        OpReply::DeleteRange(reply) => Some(Op::ResponseDeleteRange(delete_range(reply, values)?)),
        OpReply::Txn(reply) => Some(Op::ResponseTxn(resolve_txn(reply, values)?)),
        OpReply::Nothing => None,
    };
    Ok(pb::ResponseOp { response })
}
