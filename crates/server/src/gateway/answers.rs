//! Answers as HTTP has them.

use std::convert::Infallible;

use api::Code;
use axum::body::{Body, Bytes};
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::stream;
use gateway::{error_body, error_line, http_status, result_line};

use super::gateway_call::GatewayCall;
use crate::grpc::Failure;
use crate::http::{JSON, answer};

/// The one header that calls are answered with, as grpc-gateway passes it on.
const CALL_CONTENT_TYPE: &str = "grpc-metadata-content-type";

/// An error.
pub(super) fn failure(failure: &Failure) -> Response {
    let mut response = json(status(failure), error_body(failure.code, &failure.message));
    if failure.code == Code::Unauthenticated
        && let Ok(message) = HeaderValue::from_str(&failure.message)
    {
        response.headers_mut().insert(WWW_AUTHENTICATE, message);
    }
    if let Some(after) = failure.retry_after {
        // In whole seconds, so that no client comes too early.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// The answer of a call that has one message.
pub(super) async fn one(mut call: GatewayCall) -> Response {
    let answered = match call.only().await {
        Ok(message) => call.json(message).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(text) => called(json(StatusCode::OK, text)),
        Err(error) => failure(&error),
    }
}

/// The answer of a call that streams. It begins with the first message: a call that fails before that has an HTTP
/// status, and its one line says why.
pub(super) async fn stream(mut call: GatewayCall) -> Response {
    match next_line(&mut call).await {
        Some(Ok(first)) => called(json(StatusCode::OK, lines(first, call))),
        Some(Err(error)) => json(status(&error), error_line(error.code, &error.message)),
        None => Response::new(Body::empty()),
    }
}

/// A first line, and then those of a call as they come.
fn lines(first: Vec<u8>, call: GatewayCall) -> Body {
    let state = (Some(first), Some(call));
    Body::from_stream(stream::unfold(state, |(first, call)| async {
        if let Some(first) = first {
            return Some((Ok::<_, Infallible>(Bytes::from(first)), (None, call)));
        }
        let mut call = call?;
        match next_line(&mut call).await? {
            Ok(line) => Some((Ok(line.into()), (None, Some(call)))),
            Err(error) => Some((Ok(error_line(error.code, &error.message).into()), (None, None))),
        }
    }))
}

/// The next line of a call that streams: `{"result":...}`.
///
/// # Errors
/// How the call failed.
pub(super) async fn next_line(call: &mut GatewayCall) -> Option<Result<Vec<u8>, Failure>> {
    match call.next().await? {
        Ok(message) => Some(call.json(message).await.map(result_line)),
        Err(error) => Some(Err(error)),
    }
}

fn status(failure: &Failure) -> StatusCode {
    StatusCode::from_u16(http_status(failure.code)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    answer(status, JSON, body)
}

fn called(mut response: Response) -> Response {
    response.headers_mut().insert(CALL_CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
