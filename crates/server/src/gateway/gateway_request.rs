//! A request of the JSON gateway, and the connection that it came by.
//!
//! Belongs here: what all files of the gateway know of a request before its body is read. What is done with it stands
//! in `mod.rs`, `gateway_call.rs` and `websocket.rs`.

use std::sync::Arc;

use axum::http::request;
use gateway::Route;
use tokio_util::sync::CancellationToken;

use super::transcoder::Transcoder;
use crate::rpc::Dispatch;

/// What the gateway needs to know of the connection of a request, which carries it as an extension.
#[derive(Clone)]
pub(crate) struct GatewayConnection {
    /// Serves its calls, without a common name.
    pub(crate) dispatch: Dispatch,
    /// Its client has shown a certificate with a common name, and `--client-cert-auth` demands one.
    pub(crate) has_common_name: bool,
    /// Cancelled when the member stops.
    pub(crate) stop: CancellationToken,
    /// What the connection holds as long as it lasts, also as a WebSocket.
    pub(crate) _held: Arc<dyn Send + Sync>,
}

/// One request whose path and method are right, with the call to be made of it.
pub(super) struct GatewayRequest {
    pub(super) route: Route,
    pub(super) connection: GatewayConnection,
    pub(super) head: request::Parts,
    /// Of all requests.
    pub(super) transcoder: Transcoder,
}
