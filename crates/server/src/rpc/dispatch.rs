//! From a path to a handler: the one table of the methods that are served.
//!
//! A path that is not in the table is answered `Unimplemented`, in the words of grpc-go.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use api::{Code, methods};
use bytes::Bytes;
use http2::RequestHead;

use super::call::{Call, client_version};
use super::call_metrics::{CallMetrics, RunningCall};
use super::streamed_range::{StreamedRange, UnaryResponse};
use super::streaming_call::{CountedRequests, Responses};
use super::{backup, cluster, concurrency, health, kv, lease, maintenance, watch};
use crate::grpc::{CallFuture, CallReply, ClientGone, Failure, GrpcService, RequestStream};
use crate::node::Node;

/// Bytes of a message beyond the request limit: the envelope of a request of exactly that size.
const MESSAGE_OVERHEAD_BYTES: usize = 512 * 1024;

/// Methods in which either side streams. They run long by design, so there is no warning about it.
const STREAMS: [&str; 6] = [
    methods::KV_RANGE_STREAM,
    methods::WATCH_WATCH,
    methods::LEASE_KEEP_ALIVE,
    methods::MAINTENANCE_SNAPSHOT,
    methods::ELECTION_OBSERVE,
    health::WATCH,
];

/// Methods that a learner serves, as in etcd: of ranges only those that are serializable.
const SERVED_BY_LEARNERS: [&str; 3] =
    [methods::KV_RANGE, methods::MAINTENANCE_STATUS, methods::MAINTENANCE_SNAPSHOT];

/// The gRPC side of the client port.
#[derive(Clone)]
pub(crate) struct Dispatch {
    node: Arc<Node>,
    methods: Arc<HashMap<&'static str, ServedMethod>>,
    connection: u64,
}

/// A method that is served.
struct ServedMethod {
    metrics: CallMetrics,
    serve: fn(Exchange) -> CallFuture,
}

/// What the future of a call begins with.
struct Exchange {
    node: Arc<Node>,
    metrics: CallMetrics,
    call: Call,
    requests: RequestStream,
    reply: CallReply,
}

impl Dispatch {
    /// Serves the methods over `node`.
    pub(crate) fn new(node: Arc<Node>) -> Dispatch {
        let method = |path: &'static str| {
            // Methods that are not served have metrics too, with zeros.
            let metrics =
                CallMetrics::new(path, STREAMS.contains(&path), &node.metrics, node.limits.slow_request);
            Some((path, ServedMethod { metrics, serve: server(path)? }))
        };
        let methods = methods::ALL.into_iter().chain(health::ALL).filter_map(method).collect();
        Dispatch { methods: Arc::new(methods), node, connection: 0 }
    }

    /// The same for one connection.
    pub(crate) fn for_connection(&self, connection: u64) -> Dispatch {
        Dispatch { connection, ..self.clone() }
    }

    /// Bytes of the largest message a client may send.
    pub(crate) fn max_message_bytes(&self) -> usize {
        self.node.limits.max_request_bytes.saturating_add(MESSAGE_OVERHEAD_BYTES)
    }

    /// Finds the method; refuses what a learner does not serve, and a call that asked for a leader while there is none.
    /// All are counted by the client's version.
    fn admit(&self, head: &RequestHead) -> Result<(&ServedMethod, Call), Failure> {
        let path = String::from_utf8_lossy(head.path());
        let method = self.methods.get(&*path).ok_or_else(|| unknown(&path))?;
        let version = client_version(head)?;
        self.node.metrics.events.client_request(method.metrics.is_stream(), version);
        if self.node.is_learner() && !SERVED_BY_LEARNERS.contains(&&*path) {
            return Err(api::Error::NotSupportedForLearner.into());
        }
        let call = Call::from_head(head, self.connection);
        if call.require_leader && !self.node.has_leader() {
            return Err(api::Error::NoLeader.into());
        }
        Ok((method, call))
    }
}

impl GrpcService for Dispatch {
    fn call(&self, head: &RequestHead, requests: RequestStream, reply: CallReply) -> CallFuture {
        match self.admit(head).and_then(|method| requests.supported().map(|()| method)) {
            Ok((method, call)) => {
                let (node, metrics) = (self.node.clone(), method.metrics.clone());
                (method.serve)(Exchange { node, metrics, call, requests, reply })
            }
            Err(failure) => {
                reply.finish(Err(&failure));
                Box::pin(std::future::ready(()))
            }
        }
    }
}

/// The function that serves a method. The future of each method is boxed on its own: a put must not have the size of a
/// watch.
fn server(path: &str) -> Option<fn(Exchange) -> CallFuture> {
    macro_rules! unary {
        ($handler:path) => {
            |exchange| Box::pin(unary(exchange, |node, body| async move { $handler(&node, body).await }))
        };
    }
    macro_rules! streaming {
        ($handler:path) => {
            |exchange| Box::pin(streaming(exchange, $handler))
        };
    }
    Some(match path {
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
        methods::CLUSTER_MEMBER_ADD => unary!(cluster::member_add),
        methods::CLUSTER_MEMBER_REMOVE => unary!(cluster::member_remove),
        methods::CLUSTER_MEMBER_UPDATE => unary!(cluster::member_update),
        methods::CLUSTER_MEMBER_PROMOTE => unary!(cluster::member_promote),
        methods::MAINTENANCE_ALARM => unary!(maintenance::alarm),
        methods::MAINTENANCE_STATUS => unary!(maintenance::status),
        methods::MAINTENANCE_DEFRAGMENT => unary!(maintenance::defragment),
        methods::MAINTENANCE_HASH => unary!(maintenance::hash),
        methods::MAINTENANCE_HASH_KV => unary!(maintenance::hash_kv),
        methods::MAINTENANCE_MOVE_LEADER => unary!(maintenance::move_leader),
        methods::MAINTENANCE_SNAPSHOT => streaming!(backup::snapshot),
        methods::LOCK_LOCK => unary!(concurrency::lock),
        methods::LOCK_UNLOCK => unary!(concurrency::unlock),
        methods::ELECTION_CAMPAIGN => unary!(concurrency::campaign),
        methods::ELECTION_PROCLAIM => unary!(concurrency::proclaim),
        methods::ELECTION_LEADER => unary!(concurrency::leader),
        methods::ELECTION_OBSERVE => streaming!(concurrency::observe),
        methods::ELECTION_RESIGN => unary!(concurrency::resign),
        health::CHECK => unary!(health::check),
        health::LIST => unary!(health::list),
        health::WATCH => streaming!(health::watch),
        _ => return None,
    })
}

/// Why a path is not served: its form is wrong, or its service or method is unknown.
fn unknown(path: &str) -> Failure {
    let known = |service: &str| {
        let prefix = format!("/{service}/");
        methods::ALL.iter().chain(&health::ALL).any(|method| method.starts_with(&prefix))
    };
    let message = match path.strip_prefix('/').and_then(|path| path.rsplit_once('/')) {
        None => format!("malformed method name: {path:?}"),
        Some((service, _)) if !known(service) => format!("unknown service {service}"),
        Some((service, method)) => format!("unknown method {method} for service {service}"),
    };
    Failure::new(Code::Unimplemented, message)
}

/// Runs a call of one request and one response.
async fn unary<F, H, A>(exchange: Exchange, handler: H)
where
    H: FnOnce(Arc<Node>, Bytes) -> F,
    F: Future<Output = Result<A, Failure>>,
    A: Into<UnaryResponse>,
{
    let Exchange { node, metrics, mut requests, mut reply, .. } = exchange;
    let body = match requests.first().await {
        Ok(body) => body,
        Err(failure) => return reply.finish(Err(&failure)),
    };
    let mut running = metrics.begin();
    metrics.received();
    let Ok(answer) = reply.unless_gone(handler(node, body)).await else { return };
    match answer.map(Into::into) {
        Ok(UnaryResponse::Whole(message)) => {
            running.sent();
            running.ended(Ok(()));
            reply.answer(message);
        }
        Ok(UnaryResponse::Streamed(range)) => send_range(range, reply, running).await,
        Err(failure) => end(Ok(Err(failure)), running, reply),
    }
}

/// Ends a call with its result, unless its client has gone.
fn end(sent: Result<Result<(), Failure>, ClientGone>, mut running: RunningCall, reply: CallReply) {
    let Ok(ended) = sent else { return };
    running.ended(ended.as_ref().copied());
    reply.finish(ended.as_ref().copied());
}

/// Answers with a range while it is encoded. If a value is damaged and no peer has an intact copy, the call fails
/// partway through its message.
async fn send_range(mut range: StreamedRange, mut reply: CallReply, running: RunningCall) {
    let sent = async {
        reply.begin_message(range.len())?;
        while let Some(chunk) = reply.unless_gone(range.next()).await? {
            match chunk {
                Ok(parts) => parts.into_iter().try_for_each(|part| reply.continue_message(part))?,
                Err(failure) => return Ok(Err(failure)),
            }
        }
        running.sent();
        Ok(Ok(()))
    };
    end(sent.await, running, reply);
}

/// Runs a call in which either side streams.
async fn streaming<F, H>(exchange: Exchange, handler: H)
where
    H: FnOnce(Arc<Node>, Call, CountedRequests) -> F,
    F: Future<Output = Result<Responses, Failure>>,
{
    let Exchange { node, metrics, call, requests, mut reply } = exchange;
    let running = metrics.begin();
    let requests = CountedRequests::new(requests, metrics);
    let sent = async {
        let mut responses = match reply.unless_gone(handler(node, call, requests)).await? {
            Ok(responses) => responses,
            Err(failure) => return Ok(Err(failure)),
        };
        while let Some(messages) = reply.unless_gone(responses.next()).await? {
            let messages = match messages {
                Ok(messages) => messages,
                Err(failure) => return Ok(Err(failure)),
            };
            let count = messages.len();
            reply.send(messages).await?;
            (0..count).for_each(|_| running.sent());
        }
        Ok(Ok(()))
    };
    end(sent.await, running, reply);
}
