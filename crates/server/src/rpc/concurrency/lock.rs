//! The Lock service.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::v3lockpb;
use bytes::Bytes;
use prost::Message;

use super::{error, plain, queue, response, session};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::{Call, bind_to_user, decode};
use crate::rpc::kv;

/// The session's key is gone.
const SESSION_EXPIRED: &str = "mutex: session is expired";

pub(in crate::rpc) async fn lock(
    node: &Arc<Node>,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let request: v3lockpb::LockRequest = decode(body)?;
    let call = bind_to_user(node, call).await.map_err(plain)?;
    let response = take(node, &call, request).await.map_err(plain)?;
    Ok(EncodedMessage::message(&response))
}

async fn take(
    node: &Arc<Node>,
    call: &Call,
    request: v3lockpb::LockRequest,
) -> Result<v3lockpb::LockResponse, Failure> {
    let prefix = queue::prefix(&request.name);
    let lease = session(node, call, request.lease).await?;
    let mut queued = queue::enqueue(node, call, &prefix, lease, Bytes::new()).await?;
    let header = if queued.was_oldest {
        queued.header
    } else {
        let found = queue::wait(node, &prefix, &mut queued).await?;
        Some(found.ok_or_else(|| error(SESSION_EXPIRED))?)
    };
    queued.keep();
    Ok(v3lockpb::LockResponse { header, key: queued.key.clone() })
}

pub(in crate::rpc) async fn unlock(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: v3lockpb::UnlockRequest = decode(body)?;
    let delete = pb::DeleteRangeRequest { key: request.key, ..Default::default() };
    let deleted = kv::delete_range(node, call, delete.encode_to_vec().into()).await.map_err(plain)?;
    let header = response::<pb::DeleteRangeResponse>(deleted)?.header;
    Ok(EncodedMessage::message(&v3lockpb::UnlockResponse { header }))
}
