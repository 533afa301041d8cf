//! The JSON gateway: HTTP requests below `/v3/` become calls of gRPC methods, and their answers JSON.
//!
//! The crate `gateway` knows which path is which method and turns JSON into messages and back; here is what HTTP adds
//! to that. A call does not leave the process: it is a [`LocalCall`](crate::grpc::LocalCall) of the same
//! [`Dispatch`](crate::rpc::Dispatch) that serves gRPC, so admission, auth, limits and metrics are those of gRPC. It
//! runs inside of its request's future, and is dropped with it when the client goes.
//!
//! ```text
//!   POST /v3/watch {"create_request":{"key":"Zm9v"}}
//!     mod.rs            path and method of HTTP; 404, 501, 400 if they are wrong
//!     metadata.rs       Authorization, Grpc-Metadata-*, Grpc-Timeout: the head of the call
//!     json_requests.rs  the body, value by value, into messages
//!     transcoder.rs     large JSON, a few values at a time
//!     gateway_call.rs   the call, its deadline, its answers into JSON
//!     answers.rs        one JSON object, or {"result":...} lines as they come; errors with their HTTP status
//! ```
//!
//! `websocket.rs` does the same over a WebSocket: each of its messages is a part of the body, each line of the answer
//! is a message.
//!
//! Paths, bodies and statuses are etcd's, which uses grpc-gateway; `tests/go/gateway` compares them.
//!
//! Invariants: a request holds no more than [`JSON_PER_MESSAGE`](json_requests::JSON_PER_MESSAGE) times the limit of a
//! gRPC message; an answer that streams is read from its call only as fast as the client takes it; the common name of
//! a client's certificate is never the user of such a call.

mod answers;
mod gateway_call;
mod gateway_request;
mod json_requests;
mod metadata;
#[cfg(test)]
mod tests;
mod transcoder;
mod websocket;

use std::sync::Arc;

use api::Code;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::any;
use futures_util::StreamExt;
use gateway::Gateway;

use crate::grpc::Failure;
use crate::http::error;

pub(crate) use gateway_request::GatewayConnection;
use gateway_request::GatewayRequest;
use transcoder::Transcoder;

/// What etcd answers to a client with a certificate that names somebody, once auth is enabled.
const NAMED_BY_CERTIFICATE: &str =
    "CommonName of client sending a request against gateway will be ignored and not used as expected";

/// Serves everything below `/v3/`. Each request must carry a [`GatewayConnection`].
pub(crate) fn routes() -> Router {
    let shared = Arc::new((Gateway::new(), Transcoder::default()));
    let handler = move |request: Request| {
        let shared = shared.clone();
        async move { serve(&shared.0, &shared.1, request).await }
    };
    Router::new().route("/v3/", any(handler.clone())).route("/v3/{*path}", any(handler))
}

async fn serve(gateway: &Gateway, transcoder: &Transcoder, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    let Some(connection) = head.extensions.remove::<GatewayConnection>() else {
        return answers::failure(&Failure::new(Code::Unavailable, "the gateway is not served here"));
    };
    if connection.has_common_name && connection.dispatch.is_auth_enabled() {
        return error(StatusCode::BAD_REQUEST, NAMED_BY_CERTIFICATE);
    }
    let Some(route) = gateway.route(head.uri.path()).cloned() else {
        return answers::failure(&Failure::new(Code::NotFound, "Not Found"));
    };
    let request = GatewayRequest { route, connection, head, transcoder: transcoder.clone() };
    if websocket::is_wanted(&request.head.headers) {
        return websocket::serve(request).await;
    }
    if metadata::method(&request.head) != Method::POST {
        return answers::failure(&Failure::new(Code::Unimplemented, "Method Not Allowed"));
    }
    serve_post(request, body).await
}

async fn serve_post(request: GatewayRequest, body: Body) -> Response {
    let body = body.into_data_stream().map(|part| part.map_err(|_| gone()));
    let call = match gateway_call::begin(&request, Box::pin(body), true).await {
        Ok(call) => call,
        Err(failure) => return answers::failure(&failure),
    };
    match request.route.answers_stream {
        true => answers::stream(call).await,
        false => answers::one(call).await,
    }
}

/// The client stopped in the middle of its request.
fn gone() -> Failure {
    Failure::new(Code::Canceled, "context canceled")
}
