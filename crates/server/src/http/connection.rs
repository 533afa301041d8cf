//! A router as the requests of one connection find it: each request is given what is known of its connection.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Extensions;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use tower::{BoxError, Service};

/// Whether a request came with TLS. A request without this extension did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IsSecure(pub(crate) bool);

/// A router, and what is known of the connection.
#[derive(Clone, Default)]
pub(crate) struct ConnectionRouter {
    router: Router,
    extensions: Extensions,
}

impl ConnectionRouter {
    /// Gives `extensions` to each request.
    pub(crate) fn new(router: Router, extensions: Extensions) -> ConnectionRouter {
        ConnectionRouter { router, extensions }
    }
}

/// A router whose requests need not know their connection.
impl From<Router> for ConnectionRouter {
    fn from(router: Router) -> ConnectionRouter {
        ConnectionRouter::new(router, Extensions::new())
    }
}

impl<B> Service<Request<B>> for ConnectionRouter
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // A router is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> RouteFuture<Infallible> {
        request.extensions_mut().extend(self.extensions.clone());
        self.router.call(request.map(Body::new))
    }
}
