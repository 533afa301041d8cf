//! What all handlers use of a call: its metadata, its request, and whether the cluster has a leader.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http2::RequestHead;
use store::Caller;

use crate::auth::{CREDENTIAL_KEYS, Credentials, Source};
use crate::call_times::CallTimes;
use crate::grpc::{AnswerRoom, Failure};
use crate::node::Node;
use crate::spans::InnerSpans;

/// Metadata key by which a client asks to be refused while there is no leader.
const HAS_LEADER: &str = "hasleader";

/// Metadata key of the client's API version, counted by the metrics.
const CLIENT_VERSION: &str = "client-api-version";

/// The version of a client that did not say.
const UNKNOWN_VERSION: &str = "unknown";

/// What a call's metadata said.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Refuse, or end the stream, while there is no leader.
    pub(super) require_leader: bool,
    /// The connection it came on: a number of its own within this process.
    pub(super) connection: u64,
    /// Who its client says it is, and where it comes from.
    pub(super) credentials: Credentials,
    /// What it has waited for.
    pub(super) times: CallTimes,
    /// Room for its answer, if it has one message.
    pub(super) room: AnswerRoom,
    /// Spans of what its messages ask for: of a call in which either side streams, if it is sampled.
    pub(super) spans: Option<InnerSpans>,
}

impl Call {
    /// Reads the metadata, and the API version that the client says it has.
    ///
    /// # Errors
    /// A version that is not text.
    pub(super) fn from_head<'a>(
        head: &'a RequestHead,
        connection: u64,
        source: Source,
        common_name: Option<&Arc<str>>,
    ) -> Result<(Call, &'a str), Failure> {
        let [token, authorization, gateway] = CREDENTIAL_KEYS;
        let keys = [CLIENT_VERSION, HAS_LEADER, token, authorization, gateway];
        let [version, has_leader, token, authorization, gateway] = head.get_each(keys);
        let version = version.map_or(Ok(UNKNOWN_VERSION), client_version)?;
        let require_leader = has_leader.is_some_and(|value| value == b"true");
        let credentials = Credentials::of_call([token, authorization, gateway], common_name, source);
        let times = CallTimes::default();
        let room = AnswerRoom::default();
        Ok((Call { require_leader, connection, credentials, times, room, spans: None }, version))
    }

    /// The call as one of the user that `caller` is, who stays its user when the token ends: for a call that lasts for
    /// long. The call of no user is what it is.
    pub(super) fn bind_to_user(self, caller: Caller) -> Call {
        match caller {
            Caller::User { name, .. } => Call { credentials: Credentials::of_user(name), ..self },
            Caller::Anonymous | Caller::Internal => self,
        }
    }
}

/// The call as one of the user that it names; see [`Call::bind_to_user`]. While auth is disabled, the call is what it
/// is.
///
/// # Errors
/// Those of [`Node::identify`].
pub(super) async fn bind_to_user(node: &Node, call: &Call) -> Result<Call, Failure> {
    Ok(call.clone().bind_to_user(node.identify(&call.credentials).await?))
}

/// The API version a client says it has.
///
/// # Errors
/// One that is not text.
fn client_version(version: &[u8]) -> Result<&str, Failure> {
    let is_text = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    let text = str::from_utf8(version).ok().filter(|_| version.iter().all(is_text));
    text.ok_or(api::Error::InvalidClientApiVersion.into())
}

/// Decodes a request of a call in which either side streams.
///
/// # Errors
/// When the bytes are not that message.
pub(super) fn decode_in_stream<M: prost::Message + Default>(body: Bytes) -> Result<M, Failure> {
    M::decode(body).map_err(|error| Failure::undecodable_in_stream(&error))
}

/// A stream that requires a leader ends when there was none at this many checks in a row; etcd's number.
const MAX_LEADERLESS_CHECKS: u32 = 3;

/// Time between two checks: about an election.
const LEADER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Decodes a request.
///
/// # Errors
/// When the bytes are not that message.
pub(super) fn decode<M: prost::Message + Default>(body: Bytes) -> Result<M, Failure> {
    M::decode(body).map_err(|error| Failure::undecodable(&error))
}

/// Awaits the work of a stream; ends it if the call requires a leader and there has been none for a while.
pub(super) async fn while_led(
    node: &Node,
    call: &Call,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::select! {
        ended = work => ended,
        failure = leader_lost(node, call) => Err(failure),
    }
}

/// Completes, with the error that ends the stream, when there has been no leader for a while; never for a call that
/// does not require one.
async fn leader_lost(node: &Node, call: &Call) -> Failure {
    if !call.require_leader {
        std::future::pending::<()>().await;
    }
    let mut without = 0;
    while without < MAX_LEADERLESS_CHECKS {
        tokio::time::sleep(LEADER_CHECK_INTERVAL).await;
        without = if node.has_leader() { 0 } else { without + 1 };
    }
    api::Error::NoLeader.into()
}
