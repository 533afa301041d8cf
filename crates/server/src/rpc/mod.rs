//! The gRPC services: bytes in, bytes out, over tonic.
//!
//! [`dispatch`] maps a path to a handler; [`raw`] is the codec that leaves messages encoded; the other modules hold one
//! service each. A handler gets the shared [`crate::node::Node`], what the call's metadata said ([`Call`]) and the request's
//! bytes. None of them knows HTTP/2 or tonic's body types, so the layer below can be exchanged.

mod cluster;
mod dispatch;
mod failure;
mod header;
mod kv;
mod lease;
mod maintenance;
mod raw;
mod stream;
mod watch;

pub(crate) use dispatch::Dispatch;
pub(crate) use failure::Failure;
pub(crate) use raw::Encoded;

use http::HeaderMap;

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
