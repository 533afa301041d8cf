//! The Cluster service. Members are listed; changing them comes with membership changes.

use api::etcdserverpb as pb;
use bytes::Bytes;

use super::{Encoded, Failure, decode};
use crate::node::Node;

pub(super) async fn member_list(node: &Node, body: Bytes) -> Result<Encoded, Failure> {
    let request: pb::MemberListRequest = decode(body)?;
    if request.linearizable {
        node.linearize().await?;
    }
    let members = node.reader.members().into_iter().map(member).collect();
    // etcd leaves the revision out of this header.
    Ok(Encoded::message(&pb::MemberListResponse { header: Some(node.header(0)), members }))
}

fn member(member: store::Member) -> pb::Member {
    pb::Member {
        id: member.id,
        name: member.name,
        peer_urls: member.peer_urls,
        client_urls: member.client_urls,
        is_learner: member.learner,
    }
}
