//! HTTP on the peer port: the members, promotion, a probe, hashes. etcd's own peer protocol is refused in etcd's words,
//! so that an etcd member that was pointed here by mistake logs a useful error.

use std::time::{SystemTime, UNIX_EPOCH};

use api::etcdserverpb::Member;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use axum::routing::any;
use serde::{Deserialize, Serialize};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime as Clock};

use super::answer::{JSON, PLAIN, allow, answer, error};
use super::endpoints::Endpoints;
use crate::auth::Credentials;

/// Header that carries the id of the cluster.
const CLUSTER_ID: &str = "x-etcd-cluster-id";
/// Names the lineage of a cluster that was forced to go on with one of its members; its joiners must show it.
pub(crate) const LINEAGE: &str = "x-stele-lineage";

/// The lineage that headers name: 0 if none, `None` if it is no number.
pub(crate) fn lineage_of(headers: &HeaderMap) -> Option<u64> {
    let Some(value) = headers.get(LINEAGE) else { return Some(0) };
    u64::from_str_radix(value.to_str().ok()?, 16).ok()
}

pub(super) fn routes() -> Router<Endpoints> {
    Router::new()
        .route("/members", any(members))
        .route("/members/promote/{id}", any(promote))
        .route("/members/hashkv", any(hash_kv))
        .route("/downgrade/enabled", any(downgrade))
        .route("/leases", any(only_grpc))
        .route("/leases/internal", any(only_grpc))
        .route("/raft", any(foreign_post))
        .route("/raft/snapshot", any(foreign_post))
        .route("/raft/stream/{*rest}", any(foreign_stream))
        .route("/raft/probing", any(probe))
}

/// A member as etcd's peers write it.
#[derive(Serialize)]
struct MemberJson {
    id: u64,
    #[serde(rename = "peerURLs")]
    peer_urls: Vec<String>,
    #[serde(rename = "isLearner", skip_serializing_if = "std::ops::Not::not")]
    is_learner: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(rename = "clientURLs", skip_serializing_if = "Vec::is_empty")]
    client_urls: Vec<String>,
}

impl From<Member> for MemberJson {
    fn from(member: Member) -> MemberJson {
        let Member { id, name, peer_urls, client_urls, is_learner } = member;
        MemberJson { id, peer_urls, is_learner, name, client_urls }
    }
}

async fn members(State(endpoints): State<Endpoints>, method: Method) -> Response {
    if let Some(refusal) = allow(&method, &Method::GET) {
        return refusal;
    }
    let members: Vec<_> = endpoints.health.members().into_iter().map(MemberJson::from).collect();
    json(&endpoints, &members, "\n")
}

/// Promotes a learner, as etcd's members ask their leader to. The texts are etcd's.
async fn promote(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    if let Some(refusal) = allow(&method, &Method::POST) {
        return refusal;
    }
    let Ok(number) = id.parse() else {
        let text = format!("member {id} not found in cluster");
        return with_cluster(&endpoints, error(StatusCode::NOT_FOUND, &text));
    };
    let refused = |status, text: &str| with_cluster(&endpoints, error(status, text));
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    match endpoints.health.promote(number, Credentials::of_header(authorization)).await {
        Ok(members) => {
            let members: Vec<_> = members.into_iter().map(MemberJson::from).collect();
            json(&endpoints, &members, "\n")
        }
        Err(api::Error::MemberNotFound) => refused(StatusCode::NOT_FOUND, "membership: ID not found"),
        Err(api::Error::MemberNotLearner) => {
            refused(StatusCode::PRECONDITION_FAILED, "membership: can only promote a learner member")
        }
        Err(why @ api::Error::LearnerNotReady) => refused(StatusCode::PRECONDITION_FAILED, &why.to_string()),
        Err(why) => {
            tracing::warn!(member_id = id, error = %why, "failed to promote a member");
            let text = "{\"message\":\"Internal Server Error\"}".to_owned();
            with_cluster(&endpoints, answer(StatusCode::INTERNAL_SERVER_ERROR, JSON, text))
        }
    }
}

#[derive(Deserialize)]
struct HashKvRequestJson {
    #[serde(default)]
    revision: i64,
}

#[derive(Serialize)]
struct HashKvHeaderJson {
    #[serde(skip_serializing_if = "is_zero")]
    revision: i64,
}

#[derive(Serialize)]
struct HashKvJson {
    header: HashKvHeaderJson,
    hash: u32,
    #[serde(skip_serializing_if = "is_zero")]
    compact_revision: i64,
    #[serde(skip_serializing_if = "is_zero")]
    hash_revision: i64,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

async fn hash_kv(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(refusal) = allow(&method, &Method::GET) {
        return refusal;
    }
    // People who ask name no cluster; members of a cluster that was never forced name no lineage.
    let is_member = headers.get(CLUSTER_ID).is_some_and(|given| !given.is_empty());
    let expected = format!("{:x}", endpoints.health.cluster_id());
    if headers
        .get(CLUSTER_ID)
        .is_some_and(|given| !given.is_empty() && given.as_bytes() != expected.as_bytes())
        || is_member && lineage_of(&headers) != Some(endpoints.health.lineage())
    {
        return error(StatusCode::PRECONDITION_FAILED, "cluster ID mismatch");
    }
    let Ok(HashKvRequestJson { revision }) = serde_json::from_slice(&body) else {
        return error(StatusCode::BAD_REQUEST, "error unmarshalling request");
    };
    match endpoints.health.hash_kv(revision).await {
        Ok(found) => {
            let header = HashKvHeaderJson { revision: found.revision };
            let (compact_revision, hash_revision) = (found.compact_revision, found.hash_revision);
            json(&endpoints, &HashKvJson { header, hash: found.hash, compact_revision, hash_revision }, "")
        }
        Err(why) => error(StatusCode::BAD_REQUEST, &why),
    }
}

fn json(endpoints: &Endpoints, value: &impl Serialize, end: &str) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => with_cluster(endpoints, answer(StatusCode::OK, JSON, text + end)),
        Err(e) => error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    }
}

async fn downgrade(State(endpoints): State<Endpoints>, method: Method) -> Response {
    if let Some(refusal) = allow(&method, &Method::GET) {
        return refusal;
    }
    match endpoints.health.linearizable_read().await {
        Ok(()) => {
            let enabled = endpoints.health.is_downgrading().to_string();
            with_cluster(&endpoints, answer(StatusCode::OK, "text/plain", enabled))
        }
        Err(why) => error(StatusCode::INTERNAL_SERVER_ERROR, &format!("failed linearized read: {why}")),
    }
}

/// Requests that etcd members send to each other over HTTP, and Stele members in frames of their own.
async fn only_grpc(method: Method) -> Response {
    allow(&method, &Method::POST)
        .unwrap_or_else(|| error(StatusCode::NOT_IMPLEMENTED, "not served over HTTP; use the gRPC API"))
}

async fn foreign_post(State(endpoints): State<Endpoints>, method: Method) -> Response {
    match allow(&method, &Method::POST) {
        Some(refusal) => refusal,
        None => foreign(&endpoints),
    }
}

async fn foreign_stream(State(endpoints): State<Endpoints>, method: Method) -> Response {
    match allow(&method, &Method::GET) {
        Some(refusal) => refusal,
        None => foreign(&endpoints),
    }
}

fn foreign(endpoints: &Endpoints) -> Response {
    with_cluster(endpoints, error(StatusCode::PRECONDITION_FAILED, "incompatible version"))
}

async fn probe() -> Response {
    let mut now = String::new();
    // The probe asks only whether this process answers, so without a readable clock any time will do.
    if Clock.format_time(&mut Writer::new(&mut now)).is_err() || SystemTime::now() < UNIX_EPOCH {
        now = "1970-01-01T00:00:00Z".to_owned();
    }
    answer(StatusCode::OK, PLAIN, format!("{{\"OK\":true,\"Now\":\"{now}\"}}\n"))
}

fn with_cluster(endpoints: &Endpoints, mut response: Response) -> Response {
    if let Ok(value) = HeaderValue::from_str(&format!("{:x}", endpoints.health.cluster_id())) {
        response.headers_mut().insert(CLUSTER_ID, value);
    }
    let lineage = endpoints.health.lineage();
    if let Some(value) = HeaderValue::from_str(&format!("{lineage:x}")).ok().filter(|_| lineage != 0) {
        response.headers_mut().insert(LINEAGE, value);
    }
    response
}
