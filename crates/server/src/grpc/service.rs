//! The contract between connections and the methods they serve.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use http2::RequestHead;

use super::reply::CallReply;
use super::request::RequestStream;
use super::room::ClientMemory;
use crate::config::GrpcKeepalive;

/// How client connections behave.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSettings {
    /// Calls of one connection at a time: what this is when the connection begins.
    pub(crate) max_concurrent_streams: Arc<AtomicU32>,
    /// When silent clients are pinged, and when they are given up.
    pub(crate) keepalive: GrpcKeepalive,
    /// What all connections hold or have reserved.
    pub(crate) memory: ClientMemory,
}

/// A call that runs. It answers through its [`CallReply`], or not at all when the client has gone.
///
/// Its connection polls it once when it begins, and then only when it was woken; a client that goes has it dropped. It
/// reads and answers only while its connection polls it.
pub(crate) type CallFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves calls.
pub(crate) trait GrpcService: Send + 'static {
    /// Whether there are calls at all. Without them a request of gRPC is one like others, for the HTTP of the
    /// connection.
    const SERVES_CALLS: bool = true;

    /// Bytes of the largest message that a client may send. It may be another one for the next call.
    fn max_message_bytes(&self) -> usize;

    /// Begins a call: `head` has its path and metadata.
    fn call(&self, head: &RequestHead, requests: RequestStream, reply: CallReply) -> CallFuture;

    /// Whether a call of this kind may last for as long as its client likes: a graceful end does not wait for it.
    fn is_endless(&self, _head: &RequestHead) -> bool {
        false
    }

    /// Whether a call of this kind begins, and is answered, although its client leaves other answers untaken.
    fn is_urgent(_head: &RequestHead) -> bool {
        false
    }
}

/// A connection without calls: HTTP alone.
pub(crate) struct NoCalls;

impl GrpcService for NoCalls {
    const SERVES_CALLS: bool = false;

    fn max_message_bytes(&self) -> usize {
        0
    }

    fn call(&self, _: &RequestHead, _: RequestStream, _: CallReply) -> CallFuture {
        // No request is one.
        Box::pin(std::future::ready(()))
    }

    fn is_endless(&self, _: &RequestHead) -> bool {
        false
    }
}
