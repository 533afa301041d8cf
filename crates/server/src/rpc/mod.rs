//! The gRPC services: bytes in, bytes out, over [`crate::grpc`].
//!
//! [`dispatch`] maps a path to a handler, [`counted`] counts, [`stream`] joins a streaming call to its handler,
//! [`listing`] makes long answers while they are sent; the other modules hold one service each. A handler gets the
//! shared [`crate::node::Node`], what the call's metadata said ([`Call`]) and the request's bytes. None of them knows
//! HTTP/2, so the layer below can be exchanged.

mod cluster;
mod counted;
mod dispatch;
mod health;
mod kv;
mod lease;
mod maintenance;
mod stream;
mod streamed_range;
mod watch;

pub(crate) use dispatch::Dispatch;

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::HeaderName;

pub(crate) use crate::grpc::{Encoded, Failure};
use crate::node::Node;

/// Metadata key by which a client asks to be refused while there is no leader.
const HAS_LEADER: HeaderName = HeaderName::from_static("hasleader");

/// Metadata key of the client's API version, counted by the metrics.
const CLIENT_VERSION: HeaderName = HeaderName::from_static("client-api-version");

/// The version of a client that did not say.
const UNKNOWN_VERSION: &str = "unknown";

/// What a call's metadata said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Refuse, or end the stream, while there is no leader.
    pub(crate) require_leader: bool,
    /// The connection it came on: a number of its own within this process.
    pub(crate) connection: u64,
}

impl Call {
    /// Reads the metadata.
    fn from_headers(headers: &HeaderMap, connection: u64) -> Call {
        let require_leader = headers.get(HAS_LEADER).is_some_and(|value| value == "true");
        Call { require_leader, connection }
    }
}

/// The API version a client says it has.
///
/// # Errors
/// One that is not text.
fn client_version(headers: &HeaderMap) -> Result<&str, Failure> {
    let Some(version) = headers.get(CLIENT_VERSION) else { return Ok(UNKNOWN_VERSION) };
    version.to_str().map_err(|_| api::Error::InvalidClientApiVersion.into())
}

/// A stream that asked for a leader is ended when there was none at this many looks in a row; etcd's number.
const LEADERLESS_LOOKS: u32 = 3;

/// Time between two looks: about an election.
const LEADER_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Decodes a request.
///
/// # Errors
/// When the bytes are not that message.
fn decode<M: prost::Message + Default>(body: Bytes) -> Result<M, Failure> {
    M::decode(body).map_err(|error| Failure::undecodable(&error))
}

/// Does the work of a stream, unless there is no leader for a while and the call asked to be told.
async fn while_led(
    node: &Node,
    call: &Call,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::select! {
        ended = work => ended,
        failure = leader_lost(node, call) => Err(failure),
    }
}

/// Completes, with the error to end the stream with, when there has been no leader for a while and the call asked to
/// be told.
async fn leader_lost(node: &Node, call: &Call) -> Failure {
    if !call.require_leader {
        std::future::pending::<()>().await;
    }
    let mut without = 0;
    while without < LEADERLESS_LOOKS {
        tokio::time::sleep(LEADER_LOOK_INTERVAL).await;
        without = if node.has_leader() { 0 } else { without + 1 };
    }
    api::Error::NoLeader.into()
}
