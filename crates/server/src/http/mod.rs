//! The HTTP/1 endpoints beside gRPC: health, version, metrics, and what other members' tools ask the peer port.
//!
//! Paths, bodies, content types and refusals are etcd's; `tests/contract/http-endpoints.txt` holds them and
//! `tests.rs` checks each line. The routers know the member only as [`Health`]; who listens, TLS and gRPC are not
//! theirs.
//!
//! | router | for |
//! |---|---|
//! | [`client_router`] | the client URLs: health, `/version`, `/metrics`; wrap it in [`guard`] together with the gateway |
//! | [`metrics_router`] | `--listen-metrics-urls`: health and `/metrics` |
//! | [`peer_router`] | the peer URLs: `/members`, `/version`, probes; etcd's own peer protocol is refused |

mod access;
mod answer;
mod checks;
mod health;
mod peer;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use api::etcdserverpb::{AlarmType, Member};
use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::any;

use crate::metrics::{self, Metrics, Source};

pub use access::guard;
use answer::{JSON, allow, answer, error, not_found};

/// A future of a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the endpoints ask of a member. Reasons are for people; etcd's texts are expected where they exist.
pub trait Health: Send + Sync + 'static {
    /// Waits until a linearizable read would be served; bounded by the request timeout.
    fn linearizable_read(&self) -> BoxFuture<'_, Result<(), String>>;
    /// Waits until a serializable read would be served.
    fn serializable_read(&self) -> BoxFuture<'_, Result<(), String>>;
    /// Whether a leader is known.
    fn has_leader(&self) -> bool;
    /// Whether this member is a learner.
    fn is_learner(&self) -> bool;
    /// Kinds of the active alarms, of all members.
    fn alarms(&self) -> Vec<AlarmType>;
    /// All members, by id.
    fn members(&self) -> Vec<Member>;
    /// Id of the cluster.
    fn cluster_id(&self) -> u64;
    /// Version of the cluster, `3.7.0`; none before it is decided.
    fn cluster_version(&self) -> Option<String>;
    /// Version of the storage, `3.7.0`; none before it is known.
    fn storage_version(&self) -> Option<String>;
    /// Whether a downgrade is under way.
    fn is_downgrading(&self) -> bool;
    /// etcd's hash of everything up to a revision (0: the newest).
    fn hash_kv(&self, revision: i64) -> BoxFuture<'_, Result<HashKv, String>>;
}

/// An answer of [`Health::hash_kv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKv {
    /// The hash.
    pub hash: u32,
    /// Revision below which history was gone.
    pub compact_revision: i64,
    /// Revision that was hashed.
    pub hash_revision: i64,
    /// Newest revision.
    pub revision: i64,
}

/// What the handlers share.
#[derive(Clone)]
pub struct Endpoints {
    /// The member.
    pub health: Arc<dyn Health>,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// Where states for the metrics come from.
    pub source: Arc<dyn Source>,
}

/// Endpoints of the client URLs.
pub fn client_router(endpoints: Endpoints) -> Router {
    observing_routes().route("/version", any(version)).fallback(not_found).with_state(endpoints)
}

/// Endpoints of `--listen-metrics-urls`.
pub fn metrics_router(endpoints: Endpoints) -> Router {
    observing_routes().fallback(not_found).with_state(endpoints)
}

/// HTTP endpoints of the peer URLs.
pub fn peer_router(endpoints: Endpoints) -> Router {
    peer::routes().route("/version", any(version)).fallback(not_found).with_state(endpoints)
}

fn observing_routes() -> Router<Endpoints> {
    health::routes().merge(checks::routes()).route("/metrics", any(render_metrics))
}

async fn render_metrics(State(endpoints): State<Endpoints>) -> Response {
    match endpoints.metrics.render(endpoints.source.as_ref()) {
        Ok(text) => answer(StatusCode::OK, metrics::CONTENT_TYPE, text),
        Err(e) => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("An error has occurred while serving metrics:\n\n{e}"),
        ),
    }
}

async fn version(State(endpoints): State<Endpoints>, method: Method) -> Response {
    if let Some(refusal) = allow(&method, &Method::GET) {
        return refusal;
    }
    let cluster = endpoints.health.cluster_version().unwrap_or_else(|| "not_decided".to_owned());
    let storage = endpoints.health.storage_version().unwrap_or_else(|| "unknown".to_owned());
    let server = api::version::ETCD_VERSION;
    let body = format!(r#"{{"etcdserver":"{server}","etcdcluster":"{cluster}","storage":"{storage}"}}"#);
    answer(StatusCode::OK, JSON, body)
}

#[cfg(test)]
mod tests;
