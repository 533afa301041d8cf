//! The Lock and Election services. As in etcd they are clients of the other services: a lock, or a leadership, is held
//! by the oldest of the keys under a name, each attached to a lease. The keys are those of etcd's client, so programs
//! that use its `concurrency` package and programs that call these services take the same locks.
//!
//! ```text
//! lock "m", lease 1f   txn: m/1f does not exist -> put it   it is the oldest under m/: locked
//! lock "m", lease 2a   txn: m/2a does not exist -> put it   m/1f is older: wait until it is deleted
//! unlock m/1f          delete m/1f                          m/2a is the oldest: check that it is still there, locked
//! ```
//!
//! **What a call survives.** A wait looks at this member's own state, which has everything older than the call's key,
//! so it needs no leader; only at its end a linearizable read must show that the key, and so the session, still exists.
//! A call that ends before it got what it wanted (its client went, its key was deleted with its lease) removes its key,
//! so that those behind it need not wait for the lease. Its first transaction is completed even if the client goes
//! during it, because its key would remain otherwise.
//!
//! | file | holds |
//! |---|---|
//! | `queue` | the key of a call among those of a name, and waiting until it is the oldest |
//! | `key_watch` | a watch of a few keys |
//! | `lock`, `election` | the services |

mod election;
mod key_watch;
mod lock;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb as pb;
use bytes::Bytes;
use prost::Message;

use super::call::{Call, decode};
use super::streamed_range::UnaryResponse;
use super::{kv, lease};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

pub(super) use election::{campaign, leader, observe, proclaim, resign};
pub(super) use lock::{lock, unlock};

/// Seconds of a lease that a call without one is granted; that of a session of etcd's client.
const SESSION_TTL: i64 = 60;

/// Pause after a linearizable read that failed, while a client waits for it.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// What these services answer when another service refused: the same text, but as a plain error of Go.
fn plain(failure: Failure) -> Failure {
    Failure::new(api::Code::Unknown, failure.message)
}

/// An error of etcd's client library.
fn error(text: &'static str) -> Failure {
    Failure::new(api::Code::Unknown, text)
}

/// Decodes the response of another service.
fn response<M: Message + Default>(encoded: EncodedMessage) -> Result<M, Failure> {
    decode(Bytes::from(encoded.0.concat()))
}

/// The lease of a call: the one it names, or a new one.
async fn session(node: &Node, call: &Call, lease: i64) -> Result<i64, Failure> {
    if lease != 0 {
        return Ok(lease);
    }
    let request = pb::LeaseGrantRequest { ttl: SESSION_TTL, id: 0 };
    let granted = lease::grant(node, call, request.encode_to_vec().into()).await?;
    Ok(response::<pb::LeaseGrantResponse>(granted)?.id)
}

async fn txn(node: &Node, call: &Call, request: &pb::TxnRequest) -> Result<pb::TxnResponse, Failure> {
    response(kv::txn(node, call, request.encode_to_vec().into()).await?)
}

/// Reads this member's own state. The request has a limit.
async fn read(
    node: &Arc<Node>,
    call: &Call,
    request: pb::RangeRequest,
) -> Result<pb::RangeResponse, Failure> {
    let request = pb::RangeRequest { serializable: true, ..request };
    match kv::range(node, call, request.encode_to_vec().into()).await? {
        UnaryResponse::Whole(encoded) => response(encoded),
        UnaryResponse::Streamed(_) => Err(Failure::unexpected()),
    }
}

/// Waits until this member's own state has everything that was acknowledged before. Tries again while there is no
/// leader: the client decides how long it waits.
///
/// # Errors
/// When the member stops.
async fn linearize(node: &Node) -> Result<(), Failure> {
    loop {
        match node.linearize().await {
            Ok(()) => return Ok(()),
            Err(stopped @ (api::Error::Stopped | api::Error::NotTaken)) => return Err(stopped.into()),
            Err(_) => tokio::time::sleep(RETRY_DELAY).await,
        }
    }
}
