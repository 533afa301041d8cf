//! Which HTTP requests the client URLs accept: by host name and by origin. Also rewrites the old path of the gateway.
//!
//! A page of any origin can make a browser send requests to `localhost` under another name (DNS rebinding); the list
//! of host names prevents that. It matters for connections without TLS only: TLS proves the name.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, HOST, ORIGIN,
    UPGRADE,
};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;

use super::answer::error;
use super::connection::IsSecure;
use crate::config::HttpAccess;

/// Puts the checks before everything `router` serves, its gateway included.
///
/// `access` is asked for the lists in force, at each request.
pub(crate) fn guard(
    router: Router,
    access: impl Fn() -> Arc<HttpAccess> + Clone + Send + Sync + 'static,
) -> Router {
    let check = move |request: Request, next: Next| {
        let access = access();
        async move { check(&access, request, next).await }
    };
    // As a fallback the router decides on the path after it was rewritten.
    Router::new().fallback_service(router).layer(middleware::from_fn(check))
}

async fn check(access: &HttpAccess, mut request: Request, next: Next) -> Response {
    let host = host(&request);
    let is_secure = request.extensions().get() == Some(&IsSecure(true));
    if !is_secure && !allows(&access.host_whitelist, &host) {
        tracing::warn!(host, "rejecting HTTP request to prevent DNS rebinding attacks");
        let text = format!(
            "The Host header {host:?} of this request is not one this member serves without TLS.\n\nUse TLS, or name it: \
             --host-whitelist {host:?}\n\nThis protects against DNS rebinding (CVE-2018-5702)."
        );
        return error(StatusCode::MISDIRECTED_REQUEST, &text);
    }
    let origin = allowed_origin(access, &request);
    // Browsers ask for no permission before a WebSocket, let its page read the answers, and send cookies along.
    if origin.is_none() && request.headers().contains_key(UPGRADE) && request.headers().contains_key(ORIGIN) {
        let text = "The origin of this WebSocket is not one of --cors.";
        return error(StatusCode::FORBIDDEN, text);
    }
    let mut response = if request.method() == Method::OPTIONS {
        Response::new(Body::empty())
    } else {
        rewrite_beta(&mut request);
        next.run(request).await
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.append(
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE"),
        );
        headers.append(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("accept, content-type, authorization"),
        );
    }
    response
}

/// The name this member was addressed by, without the port.
fn host(request: &Request) -> String {
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host =
        header.or_else(|| request.uri().authority().map(|authority| authority.as_str())).unwrap_or_default();
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address.to_owned(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned(),
    }
}

fn allows(list: &[String], item: &str) -> bool {
    list.is_empty() || list.iter().any(|allowed| allowed == "*" || allowed == item)
}

fn allowed_origin(access: &HttpAccess, request: &Request) -> Option<HeaderValue> {
    if allows(&access.cors, "*") {
        return Some(HeaderValue::from_static("*"));
    }
    let origin = request.headers().get(ORIGIN)?;
    origin.to_str().ok().filter(|origin| allows(&access.cors, origin))?;
    Some(origin.clone())
}

/// `/v3beta/` is what `/v3/` was called once.
fn rewrite_beta(request: &mut Request) {
    let Some(rest) = request.uri().path_and_query().and_then(|path| path.as_str().strip_prefix("/v3beta/"))
    else {
        return;
    };
    if let Ok(uri) = format!("/v3/{rest}").parse::<Uri>() {
        *request.uri_mut() = uri;
    }
}
