//! The HTTP endpoints beside gRPC: health, version, metrics, and what other members' tools ask the peer port.
//!
//! Paths, bodies, content types and refusals are etcd's; `tests/contract/http-endpoints.txt` holds them and
//! `tests.rs` checks each line. The routers know the member only as [`Health`]; sockets, TLS and gRPC are not their
//! concern.
//!
//! | router | for |
//! |---|---|
//! | [`client_router`] | the client URLs: health, `/version`, `/metrics`; wrap it in [`guard`] together with the gateway |
//! | [`profile_routes`] | profiles, with `--enable-pprof`; merged into the client URLs |
//! | [`metrics_router`] | `--listen-metrics-urls`: health and `/metrics` |
//! | [`peer_router`] | the peer URLs: `/members`, `/version`, probes; etcd's own peer protocol is refused |

mod access;
mod answer;
mod checks;
mod connection;
mod endpoints;
mod health;
mod peer;
mod profiles;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::any;

use crate::metrics;

pub(crate) use access::guard;
pub(crate) use answer::{JSON, answer, error};
use answer::{allow, not_found};
pub(crate) use connection::{ConnectionRouter, IsSecure};
pub(crate) use endpoints::{BoxFuture, Endpoints, HashKvResult, Health};
pub(crate) use peer::{LINEAGE, lineage_of};
pub(crate) use profiles::profile_routes;

/// Endpoints of the client URLs.
pub(crate) fn client_router(endpoints: Endpoints) -> Router {
    observing_routes().route("/version", any(version)).fallback(not_found).with_state(endpoints)
}

/// Endpoints of `--listen-metrics-urls`.
pub(crate) fn metrics_router(endpoints: Endpoints) -> Router {
    observing_routes().fallback(not_found).with_state(endpoints)
}

/// HTTP endpoints of the peer URLs.
pub(crate) fn peer_router(endpoints: Endpoints) -> Router {
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
