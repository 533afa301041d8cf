//! The Cluster service: lists the members and changes them.
//!
//! A change is decided by the leader (`member/src/membership`). Before it is asked for, this member catches up with
//! what was acknowledged, so that a refusal is never about members as they were before an earlier answer.

use std::time::{SystemTime, UNIX_EPOCH};

use api::etcdserverpb as pb;
use bytes::Bytes;
use member::MembershipRequest;
use member::identity::member_id;

use super::call::{Call, decode};
use crate::config::Url;
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

pub(super) async fn member_list(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::MemberListRequest = decode(body)?;
    if request.linearizable {
        node.linearize().await?;
    }
    let (header, members) = (header(node), node.members());
    Ok(EncodedMessage::message(&pb::MemberListResponse { header, members }))
}

pub(super) async fn member_add(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::MemberAddRequest = decode(body)?;
    let peer_urls = checked_urls(&request.peer_urls)?;
    // etcd puts the second into the id, so that a member added again gets another one; the token it leaves out.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let id = member_id(&peer_urls, "", Some(now as i64));
    let learner = request.is_learner;
    let members =
        node.change_members(MembershipRequest::Add { id, peer_urls: peer_urls.clone(), learner }).await?;
    let member = Some(pb::Member { id, peer_urls, is_learner: learner, ..pb::Member::default() });
    Ok(EncodedMessage::message(&pb::MemberAddResponse { header: header(node), member, members }))
}

pub(super) async fn member_remove(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::MemberRemoveRequest = decode(body)?;
    let id = named(request.id)?;
    let members = node.change_members(MembershipRequest::Remove { id }).await?;
    Ok(EncodedMessage::message(&pb::MemberRemoveResponse { header: header(node), members }))
}

pub(super) async fn member_update(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::MemberUpdateRequest = decode(body)?;
    let (id, peer_urls) = (named(request.id)?, checked_urls(&request.peer_urls)?);
    let members = node.change_members(MembershipRequest::Update { id, peer_urls }).await?;
    Ok(EncodedMessage::message(&pb::MemberUpdateResponse { header: header(node), members }))
}

pub(super) async fn member_promote(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::MemberPromoteRequest = decode(body)?;
    let members = node.promote(named(request.id)?).await?;
    Ok(EncodedMessage::message(&pb::MemberPromoteResponse { header: header(node), members }))
}

/// etcd leaves the revision out of the headers of this service.
fn header(node: &Node) -> Option<pb::ResponseHeader> {
    Some(node.header(0))
}

/// No member has the id 0.
fn named(id: u64) -> Result<u64, api::Error> {
    if id == 0 { Err(api::Error::MemberNotFound) } else { Ok(id) }
}

/// The peer URLs of a request, sorted as etcd sorts them: at least one.
fn checked_urls(urls: &[String]) -> Result<Vec<String>, api::Error> {
    let parse = |url: &String| Url::parse(url.trim()).ok().map(|url| url.as_str().to_owned());
    let parsed: Option<Vec<String>> = urls.iter().map(parse).collect();
    let mut parsed = parsed.filter(|urls| !urls.is_empty()).ok_or(api::Error::BadMemberUrls)?;
    parsed.sort();
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    //! Which peer URLs are taken.
    use super::*;

    #[test]
    fn texts_that_are_no_urls_are_refused() {
        let checked =
            |urls: &[&str]| checked_urls(&urls.iter().map(|url| url.to_string()).collect::<Vec<_>>());
        let sorted = vec!["http://a:1".to_owned(), "http://b:1".to_owned()];
        assert_eq!(checked(&["http://b:1", " http://a:1"]), Ok(sorted));
        assert_eq!(checked(&["https://a:1"]), Ok(vec!["https://a:1".to_owned()]));
        for path in ["unix:///run/a", "unixs:///run/a"] {
            assert_eq!(checked(&[path]), Ok(vec![path.to_owned()]));
        }
        for bad in [&[][..], &["a:1"], &["http://a"], &["http://a:1/x"]] {
            assert_eq!(checked(bad), Err(api::Error::BadMemberUrls), "{bad:?}");
        }
    }
}
