//! HTTP responses as Go's server writes them, and its query parameters.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;

/// Text for people.
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";
/// JSON.
pub(crate) const JSON: &str = "application/json";

/// A body with its type.
pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A plain text; browsers must not guess another type.
pub(super) fn plain(status: StatusCode, text: String) -> Response {
    let mut response = answer(status, PLAIN, text);
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// An error: its text and a line end.
pub(crate) fn error(status: StatusCode, text: &str) -> Response {
    plain(status, format!("{text}\n"))
}

/// A refusal unless the method is the one that is allowed.
pub(super) fn allow(method: &Method, allowed: &Method) -> Option<Response> {
    if method == allowed {
        return None;
    }
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    if let Ok(value) = HeaderValue::from_str(allowed.as_str()) {
        response.headers_mut().insert(ALLOW, value);
    }
    Some(response)
}

/// For paths that are not served.
pub(super) async fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// Values of a query parameter, decoded, in order. As in Go, a pair with a semicolon or with an escape that is none is
/// left out.
pub(super) fn values(query: Option<&str>, name: &str) -> Vec<String> {
    let is_well_formed = |pair: &&str| {
        let escapes = pair.split('%').skip(1);
        let is_escape =
            |rest: &str| rest.as_bytes().get(..2).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        !pair.is_empty() && !pair.contains(';') && escapes.into_iter().all(is_escape)
    };
    let pairs = query.unwrap_or_default().split('&').filter(is_well_formed);
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter(|(key, _)| decode(key) == name).map(|(_, value)| decode(value)).collect()
}

/// Undoes percent encoding; what is not well encoded stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |digit: u8| char::from(digit).to_digit(16);
        match (first, after) {
            (b'%', [high, low, after @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                let value = hex(*high).unwrap_or_default() * 16 + hex(*low).unwrap_or_default();
                bytes.push(value as u8);
                rest = after;
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
