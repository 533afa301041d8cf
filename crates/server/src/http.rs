//! temp
use crate::node::Node;
use axum::{Router, routing::get};
use std::sync::Arc;
pub(crate) fn client_router(node: Arc<Node>) -> Router {
    Router::new()
        .route(
            "/version",
            get({
                let node = node.clone();
                move || {
                    let v = node.reader.cluster_version().unwrap_or("not_decided".into());
                    async move {
                        (
                            http::StatusCode::OK,
                            format!(
                                "{{\"etcdserver\":\"3.7.3\",\"etcdcluster\":\"{v}\",\"storage\":\"3.7.0\"}}"
                            ),
                        )
                    }
                }
            }),
        )
        .route(
            "/health",
            get(move || {
                let node = node.clone();
                async move {
                    match node.linearize().await {
                        Ok(()) => (http::StatusCode::OK, "{\"health\":\"true\",\"reason\":\"\"}".to_owned()),
                        Err(e) => (
                            http::StatusCode::SERVICE_UNAVAILABLE,
                            format!("{{\"health\":\"false\",\"reason\":\"{e}\"}}"),
                        ),
                    }
                }
            }),
        )
}
pub(crate) fn peer_router(_node: Arc<Node>) -> Router {
    Router::new()
}
