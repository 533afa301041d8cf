//! From a path to a handler: the one table of the methods that are served.
//!
//! A path that is not in the table is answered `Unimplemented`, in the words of grpc-go.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use api::{Code, methods};
use bytes::Bytes;
use http::request;

use super::counted::{Counted, Underway};
use super::stream::{Requests, Responses};
use super::streamed_range::{Answer, StreamedRange};
use super::{Call, Failure, client_version, cluster, health, kv, lease, maintenance, watch};
use crate::grpc::{self, Gone, Reply, Service, Serving};
use crate::node::Node;

/// Bytes a message may have beyond the request limit: the envelope of a request that is just small enough.
const MESSAGE_OVERHEAD_BYTES: usize = 512 * 1024;

/// The gRPC side of the client port.
#[derive(Clone)]
pub(crate) struct Dispatch {
    node: Arc<Node>,
    methods: Arc<HashMap<&'static str, Method>>,
    connection: u64,
}

/// A method that is served.
struct Method {
    counted: Counted,
    serve: fn(Exchange) -> Serving,
}

/// All a method's future begins with.
struct Exchange {
    node: Arc<Node>,
    counted: Counted,
    call: Call,
    requests: grpc::Requests,
    reply: Reply,
}

impl Dispatch {
    /// Serves the methods over `node`.
    pub(crate) fn new(node: Arc<Node>) -> Dispatch {
        let method = |path: &'static str| {
            // Those that are not served are counted too, as zeros.
            let counted = Counted::new(path, &node.metrics, node.limits.slow_request);
            Some((path, Method { counted, serve: server(path)? }))
        };
        let methods = methods::ALL.into_iter().chain(health::ALL).filter_map(method).collect();
        Dispatch { methods: Arc::new(methods), node, connection: 0 }
    }

    /// The same for one connection.
    pub(crate) fn for_connection(&self, connection: u64) -> Dispatch {
        Dispatch { connection, ..self.clone() }
    }

    /// Bytes a message of a client may have.
    pub(crate) fn max_message_bytes(&self) -> usize {
        self.node.limits.max_request_bytes.saturating_add(MESSAGE_OVERHEAD_BYTES)
    }

    /// Finds the method; refuses a call that asked for a leader while there is none. All are counted by the client's
    /// version.
    fn admit(&self, head: &request::Parts) -> Result<(&Method, Call), Failure> {
        let path = head.uri.path();
        let method = self.methods.get(path).ok_or_else(|| unknown(path))?;
        let version = client_version(&head.headers)?;
        self.node.metrics.events.client_request(method.counted.is_stream(), version);
        let call = Call::from_headers(&head.headers, self.connection);
        if call.require_leader && !self.node.has_leader() {
            return Err(api::Error::NoLeader.into());
        }
        Ok((method, call))
    }
}

impl Service for Dispatch {
    fn call(&self, head: &request::Parts, requests: grpc::Requests, reply: Reply) -> Serving {
        match self.admit(head) {
            Ok((method, call)) => {
                let (node, counted) = (self.node.clone(), method.counted.clone());
                (method.serve)(Exchange { node, counted, call, requests, reply })
            }
            Err(failure) => {
                reply.finish(Err(&failure));
                Box::pin(std::future::ready(()))
            }
        }
    }
}

/// What serves a method. Each method's future is boxed by itself: a put must not carry the size of a watch.
fn server(path: &str) -> Option<fn(Exchange) -> Serving> {
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
        methods::MAINTENANCE_ALARM => unary!(maintenance::alarm),
        methods::MAINTENANCE_STATUS => unary!(maintenance::status),
        methods::MAINTENANCE_DEFRAGMENT => unary!(maintenance::defragment),
        methods::MAINTENANCE_HASH => unary!(maintenance::hash),
        methods::MAINTENANCE_HASH_KV => unary!(maintenance::hash_kv),
        methods::MAINTENANCE_MOVE_LEADER => unary!(maintenance::move_leader),
        health::CHECK => unary!(health::check),
        health::LIST => unary!(health::list),
        health::WATCH => streaming!(health::watch),
        _ => return None,
    })
}

/// Why a path is not served: it has another form, or a service or a method nobody knows.
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

/// One message, one answer.
async fn unary<F, H, A>(exchange: Exchange, handler: H)
where
    H: FnOnce(Arc<Node>, Bytes) -> F,
    F: Future<Output = Result<A, Failure>>,
    A: Into<Answer>,
{
    let Exchange { node, counted, mut requests, mut reply, .. } = exchange;
    let body = match requests.only().await {
        Ok(body) => body,
        Err(failure) => return reply.finish(Err(&failure)),
    };
    let mut underway = counted.begin();
    counted.received();
    let Ok(answer) = reply.unless_gone(handler(node, body)).await else { return };
    match answer.map(Into::into) {
        Ok(Answer::Whole(message)) => {
            underway.sent();
            underway.ended(Ok(()));
            reply.answer(message);
        }
        Ok(Answer::Growing(listing)) => grow(listing, reply, underway).await,
        Err(failure) => end(Ok(Err(failure)), underway, reply),
    }
}

/// Ends a call as it went, unless its client has gone.
fn end(sent: Result<Result<(), Failure>, Gone>, mut underway: Underway, reply: Reply) {
    let Ok(ended) = sent else { return };
    underway.ended(ended.as_ref().copied());
    reply.finish(ended.as_ref().copied());
}

/// Answers with a list, as it is made. It may be that it ends amid its message, with a failure.
async fn grow(mut listing: StreamedRange, mut reply: Reply, underway: Underway) {
    let sent = async {
        reply.begin_message(listing.len())?;
        while let Some(piece) = reply.unless_gone(listing.next()).await? {
            match piece {
                Ok(pieces) => pieces.into_iter().try_for_each(|piece| reply.continue_message(piece))?,
                Err(failure) => return Ok(Err(failure)),
            }
        }
        underway.sent();
        Ok(Ok(()))
    };
    end(sent.await, underway, reply);
}

/// A stream of answers to one message or many.
async fn streaming<F, H>(exchange: Exchange, handler: H)
where
    H: FnOnce(Arc<Node>, Call, Requests) -> F,
    F: Future<Output = Result<Responses, Failure>>,
{
    let Exchange { node, counted, call, requests, mut reply } = exchange;
    let underway = counted.begin();
    let requests = Requests::new(requests, counted);
    let sent = async {
        let mut responses = match reply.unless_gone(handler(node, call, requests)).await? {
            Ok(responses) => responses,
            Err(failure) => return Ok(Err(failure)),
        };
        reply.begin()?;
        while let Some(messages) = reply.unless_gone(responses.next()).await? {
            let messages = match messages {
                Ok(messages) => messages,
                Err(failure) => return Ok(Err(failure)),
            };
            let count = messages.len();
            reply.send(messages).await?;
            (0..count).for_each(|_| underway.sent());
        }
        Ok(Ok(()))
    };
    end(sent.await, underway, reply);
}
