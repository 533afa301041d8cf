//! `GET /members/hashkv` on the peer URLs of another member: its hash up to a revision, as etcd's members ask for it.

use std::collections::BTreeMap;
use std::time::Duration;

use api::etcdserverpb::Member;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use serde::Deserialize;
use store::HashKvReply;

use crate::config::Url;
use crate::http::{LINEAGE, lineage_of};
use crate::peers::PeerHttp;

/// Longest answer that is read: four numbers.
const MAX_ANSWER_BYTES: usize = 4 << 10;

/// What a member answered.
#[derive(Clone, Debug)]
pub(super) struct PeerHash {
    /// The member.
    pub(super) id: u64,
    /// Its peer URLs.
    pub(super) urls: Vec<String>,
    /// Its hash, or why there is none.
    pub(super) answer: Result<HashKvReply, PeerHashError>,
}

/// Why a peer has no hash for a revision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PeerHashError {
    /// It compacted the revision.
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    /// It has not come to the revision yet.
    #[error("etcdserver: mvcc: required revision is a future revision")]
    Future,
    /// It is a member of another cluster, or of another lineage of this one.
    #[error("etcdserver: cluster ID mismatch")]
    OtherCluster,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

#[derive(Deserialize)]
struct AnswerJson {
    #[serde(default)]
    header: HeaderJson,
    #[serde(default)]
    hash: u32,
    #[serde(default)]
    compact_revision: i64,
    #[serde(default)]
    hash_revision: i64,
}

#[derive(Default, Deserialize)]
struct HeaderJson {
    #[serde(default)]
    revision: i64,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) cluster_id: u64,
    /// A force keeps the cluster id: members of the old cluster and of the forced one differ in this.
    pub(super) lineage: u64,
    pub(super) member_id: u64,
}

/// The hash that a quorum of so many members has, if there is one.
pub(super) fn hash_of_quorum(members_by_hash: &BTreeMap<u32, Vec<u64>>, members: usize) -> Option<u32> {
    members_by_hash.iter().find(|(_, ids)| ids.len() > members / 2).map(|(hash, _)| *hash)
}

/// Asks a member at its URLs, one after the other, until it answers.
pub(super) async fn ask(
    peers: &PeerHttp,
    asker: Asker,
    member: Member,
    revision: i64,
    timeout: Duration,
) -> PeerHash {
    let mut answer = Err(PeerHashError::Failed("it has no peer URL".to_owned()));
    for url in &member.peer_urls {
        let asking = tokio::time::timeout(timeout, ask_at(peers, url, asker, revision));
        answer = asking.await.unwrap_or_else(|_| Err(PeerHashError::Failed("it does not answer".to_owned())));
        match &answer {
            Ok(_) => break,
            Err(error) => tracing::warn!(
                local_member_id = format!("{:x}", asker.member_id),
                requested_revision = revision,
                remote_peer_endpoint = url.as_str(),
                %error,
                "failed hash kv request"
            ),
        }
    }
    PeerHash { id: member.id, urls: member.peer_urls, answer }
}

async fn ask_at(
    peers: &PeerHttp,
    url: &str,
    asker: Asker,
    revision: i64,
) -> Result<HashKvReply, PeerHashError> {
    let url = Url::parse(url).map_err(|error| PeerHashError::Failed(error.to_string()))?;
    let request = Request::get("/members/hashkv")
        .header(CONTENT_TYPE, "application/json")
        .header("x-etcd-cluster-id", format!("{:x}", asker.cluster_id))
        .header(LINEAGE, format!("{:x}", asker.lineage));
    let body = Body::from(format!(r#"{{"revision":{revision}}}"#));
    let response = peers.send(&url, request, body).await.map_err(PeerHashError::Failed)?;
    let status = response.status();
    let lineage = lineage_of(response.headers());
    let body = axum::body::to_bytes(Body::new(response.into_body()), MAX_ANSWER_BYTES).await;
    let body = body.map_err(|error| PeerHashError::Failed(error.to_string()))?;
    let answer = read_answer(status, &body)?;
    // One that does not know lineages does not check that of its asker.
    if lineage == Some(asker.lineage) { Ok(answer) } else { Err(PeerHashError::OtherCluster) }
}

/// Reads the answer as etcd does.
pub(super) fn read_answer(status: StatusCode, body: &[u8]) -> Result<HashKvReply, PeerHashError> {
    let text = String::from_utf8_lossy(body);
    match status {
        StatusCode::OK => {
            let read: AnswerJson =
                serde_json::from_slice(body).map_err(|error| PeerHashError::Failed(error.to_string()))?;
            let AnswerJson { header, hash, compact_revision, hash_revision } = read;
            Ok(HashKvReply { hash, hash_revision, compact_revision, revision: header.revision })
        }
        StatusCode::BAD_REQUEST if text.contains("mvcc: required revision has been compacted") => {
            Err(PeerHashError::Compacted)
        }
        StatusCode::BAD_REQUEST if text.contains("mvcc: required revision is a future revision") => {
            Err(PeerHashError::Future)
        }
        StatusCode::PRECONDITION_FAILED if text.contains("cluster ID mismatch") => {
            Err(PeerHashError::OtherCluster)
        }
        _ => Err(PeerHashError::Failed(format!("unknown error: {}", text.trim_end()))),
    }
}
