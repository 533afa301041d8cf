//! The gRPC services: bytes in, bytes out, over tonic.
//!
//! [`dispatch`] maps a path to a handler; [`raw`] is the codec that leaves messages encoded; the other modules hold
//! one service each. A handler gets the shared [`crate::node::Node`], what the call's metadata said ([`Call`]) and the
//! request's bytes. None of them knows HTTP/2 or tonic's body types, so the layer below can be exchanged.

mod cluster;
mod counted;
mod dispatch;
mod failure;
mod health;
mod kv;
mod lease;
mod limit;
mod maintenance;
mod raw;
mod stream;
mod watch;

pub(crate) use dispatch::Dispatch;
pub(crate) use failure::Failure;
pub(crate) use raw::Encoded;

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use crate::node::Node;

/// Metadata key by which a client asks to be refused while there is no leader.
const HAS_LEADER: &str = "hasleader";

/// Metadata key of the client's API version, counted by the metrics.
const CLIENT_VERSION: &str = "client-api-version";

/// What a call's metadata said.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Refuse, or end the stream, while there is no leader.
    pub(crate) require_leader: bool,
    /// The client's API version, `unknown` when it did not say.
    pub(crate) client_version: String,
}

impl Call {
    /// Reads the metadata.
    ///
    /// # Errors
    /// A client version that is not text.
    fn from_headers(headers: &HeaderMap) -> Result<Call, Failure> {
        let require_leader = headers.get(HAS_LEADER).is_some_and(|value| value == "true");
        let client_version = match headers.get(CLIENT_VERSION) {
            None => "unknown".to_owned(),
            Some(value) => {
                value.to_str().map_err(|_| Failure::from(api::Error::InvalidClientApiVersion))?.to_owned()
            }
        };
        Ok(Call { require_leader, client_version })
    }
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
