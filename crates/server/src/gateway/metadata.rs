//! What HTTP headers say to a call: its metadata and its deadline. The rules are grpc-gateway's.

use std::time::Duration;

use api::Code;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, request};
use http2::RequestHead;

use crate::grpc::{Failure, decode_timeout};

/// Headers whose names begin with this are metadata, without it.
const PREFIX: &str = "grpc-metadata-";

/// Metadata of bytes; no method reads any.
const BINARY_SUFFIX: &str = "-bin";

/// The time the client gives its call.
const TIMEOUT: &str = "grpc-timeout";

/// With a form's content type, another method than the one of HTTP.
const METHOD_OVERRIDE: &str = "x-http-method-override";
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// The method a request means.
pub(super) fn method(head: &request::Parts) -> Method {
    let is_form = head.headers.get(CONTENT_TYPE).is_some_and(|content| content.as_bytes() == FORM);
    let other = head.headers.get(METHOD_OVERRIDE).filter(|_| is_form && head.method == Method::POST);
    let other = other.and_then(|name| Method::from_bytes(&name.as_bytes().to_ascii_uppercase()).ok());
    other.unwrap_or_else(|| head.method.clone())
}

/// The head of a call with the metadata of a request.
pub(super) fn call_head(method: &str, headers: &HeaderMap) -> RequestHead {
    let is_text = |value: &[u8]| value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let metadata = headers.iter().filter_map(|(name, value)| match name.as_str().strip_prefix(PREFIX) {
        Some(key) if !key.ends_with(BINARY_SUFFIX) && is_text(value.as_bytes()) => {
            Some((key, value.as_bytes()))
        }
        Some(_) => None,
        None if name == AUTHORIZATION => Some((AUTHORIZATION.as_str(), value.as_bytes())),
        None => None,
    });
    RequestHead::of_call(method, metadata)
}

/// The time of the call, if its client says one.
///
/// # Errors
/// When it is none.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let Some(text) = headers.get(TIMEOUT) else { return Ok(None) };
    decode_timeout(text.as_bytes()).map(Some).map_err(|_| {
        let text = String::from_utf8_lossy(text.as_bytes());
        Failure::new(Code::InvalidArgument, format!("invalid grpc-timeout: {text}"))
    })
}
