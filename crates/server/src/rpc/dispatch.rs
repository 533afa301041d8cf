//! From a path to a handler: the one table of the methods that are served.
//!
//! A path that is not in the table is answered `Unimplemented`, in the words of grpc-go.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use api::{Code, methods};
use bytes::Bytes;
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;

use super::counted::{self, Counted};
use super::limit::Limited;
use super::raw::{Encoded, Raw};
use super::stream::{Requests, Responses};
use super::{Call, Failure, cluster, health, kv, lease, maintenance, watch};
use crate::node::Node;

/// Bytes a message may have beyond the request limit: the envelope of a request that is just small enough.
const MESSAGE_OVERHEAD_BYTES: usize = 512 * 1024;

type HttpResponse = Response<Body>;

/// The gRPC side of the client port, as a tower service.
#[derive(Clone)]
pub(crate) struct Dispatch {
    node: Arc<Node>,
    counted: Arc<BTreeMap<&'static str, Counted>>,
}

impl Dispatch {
    /// Serves the methods over `node`.
    pub(crate) fn new(node: Arc<Node>) -> Dispatch {
        let counted = Arc::new(counted::table(&node.metrics, node.limits.slow_request));
        Dispatch { node, counted }
    }
}

impl<B> tower::Service<Request<B>> for Dispatch
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = Serving;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(counted) = self.counted.get(request.uri().path()).cloned() else {
            let answer = unknown(request.uri().path());
            return Box::pin(std::future::ready(Ok(answer)));
        };
        let call = Call::from_headers(request.headers());
        match call.and_then(|call| admit(&self.node, &counted, call)) {
            Ok(call) => serve(self.node.clone(), counted, call, request),
            Err(failure) => Box::pin(std::future::ready(Ok(Status::from(failure).into_http()))),
        }
    }
}

type Serving = Pin<Box<dyn Future<Output = Result<HttpResponse, Infallible>> + Send>>;

/// Begins a call. Each method's future is boxed by itself: a put must not carry the size of a watch.
fn serve<B>(node: Arc<Node>, counted: Counted, call: Call, request: Request<B>) -> Serving
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    macro_rules! unary {
        ($handler:path) => {
            Box::pin(unary(node, counted, request, |node, body| async move { $handler(&node, body).await }))
        };
    }
    macro_rules! streaming {
        ($handler:path) => {{
            let handler = move |node, requests| $handler(node, call, requests);
            Box::pin(streaming(node, counted, request, handler))
        }};
    }
    match counted.path() {
        methods::KV_PUT => unary!(kv::put),
        methods::KV_RANGE => unary!(kv::range),
        methods::KV_TXN => unary!(kv::txn),
        methods::KV_DELETE_RANGE => unary!(kv::delete_range),
        methods::KV_COMPACT => unary!(kv::compact),
        methods::KV_RANGE_STREAM => streaming!(kv::range_stream),
        methods::WATCH_WATCH => streaming!(watch::watch),
        methods::LEASE_GRANT => unary!(lease::grant),
        methods::LEASE_REVOKE => unary!(lease::revoke),
        methods::LEASE_KEEP_ALIVE => streaming!(lease::keep_alive),
        methods::LEASE_TIME_TO_LIVE => unary!(lease::time_to_live),
        methods::LEASE_LEASES => unary!(lease::leases),
        methods::CLUSTER_MEMBER_LIST => unary!(cluster::member_list),
        methods::MAINTENANCE_ALARM => unary!(maintenance::alarm),
        methods::MAINTENANCE_STATUS => unary!(maintenance::status),
        methods::MAINTENANCE_DEFRAGMENT => unary!(maintenance::defragment),
        methods::MAINTENANCE_HASH => unary!(maintenance::hash),
        methods::MAINTENANCE_HASH_KV => unary!(maintenance::hash_kv),
        methods::MAINTENANCE_MOVE_LEADER => unary!(maintenance::move_leader),
        health::CHECK => unary!(health::check),
        health::LIST => unary!(health::list),
        health::WATCH => streaming!(health::watch),
        path => Box::pin(std::future::ready(Ok(unknown(path)))),
    }
}

/// Refuses a call that asked for a leader while there is none; all are counted by the client's version.
fn admit(node: &Node, counted: &Counted, call: Call) -> Result<Call, Failure> {
    node.metrics.events.client_request(counted.is_stream(), &call.client_version);
    if call.require_leader && !node.has_leader() { Err(api::Error::NoLeader.into()) } else { Ok(call) }
}

/// Refuses what is not in the table: a path of another form, a service or a method nobody knows.
fn unknown(path: &str) -> HttpResponse {
    let known = |service: &str| {
        let prefix = format!("/{service}/");
        methods::ALL.iter().chain(&health::ALL).any(|method| method.starts_with(&prefix))
    };
    let message = match path.strip_prefix('/').and_then(|path| path.rsplit_once('/')) {
        None => format!("malformed method name: {path:?}"),
        Some((service, _)) if !known(service) => format!("unknown service {service}"),
        Some((service, method)) => format!("unknown method {method} for service {service}"),
    };
    Status::from(Failure::new(Code::Unimplemented, message)).into_http()
}

/// The body of a request, its messages limited in size.
fn limited<B>(node: &Node, request: Request<B>) -> Request<Limited<Pin<Box<B>>>> {
    let largest = node.limits.max_request_bytes.saturating_add(MESSAGE_OVERHEAD_BYTES);
    request.map(|body| Limited::new(Box::pin(body), largest))
}

/// The protocol, without a limit of its own.
fn grpc() -> Grpc<Raw> {
    Grpc::new(Raw).max_decoding_message_size(usize::MAX)
}

async fn unary<B, F, H>(
    node: Arc<Node>,
    counted: Counted,
    request: Request<B>,
    handler: H,
) -> Result<HttpResponse, Infallible>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    H: Fn(Arc<Node>, Bytes) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Encoded, Failure>> + Send + 'static,
{
    let request = limited(&node, request);
    let mut grpc = grpc();
    let service = tower::service_fn(move |request: tonic::Request<Bytes>| {
        let mut underway = counted.begin();
        underway.received();
        let answer = handler(node.clone(), request.into_inner());
        async move {
            let answer = answer.await;
            underway.ended(answer.as_ref().map(|_| underway.sent()));
            Ok::<_, Status>(tonic::Response::new(answer?))
        }
    });
    Ok(grpc.unary(service, request).await)
}

async fn streaming<B, F, H>(
    node: Arc<Node>,
    counted: Counted,
    request: Request<B>,
    handler: H,
) -> Result<HttpResponse, Infallible>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    H: FnOnce(Arc<Node>, Requests) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Responses, Failure>> + Send + 'static,
{
    let request = limited(&node, request);
    let mut grpc = grpc();
    let service = tower::service_fn(move |request: tonic::Request<tonic::Streaming<Bytes>>| {
        let underway = counted.begin();
        let answer = (handler.clone())(node.clone(), Requests::new(request.into_inner()));
        async move { Ok::<_, Status>(tonic::Response::new(answer.await?.counted_by(underway))) }
    });
    Ok(grpc.streaming(service, request).await)
}
