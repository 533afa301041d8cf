//! The Cluster service: it lists the members. The calls that change them are not implemented yet.

use api::etcdserverpb as pb;
use bytes::Bytes;

use super::call::decode;
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

pub(super) async fn member_list(node: &Node, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::MemberListRequest = decode(body)?;
    if request.linearizable {
        node.linearize().await?;
    }
    // etcd leaves the revision out of this header.
    let (header, members) = (Some(node.header(0)), node.members());
    Ok(EncodedMessage::message(&pb::MemberListResponse { header, members }))
}
