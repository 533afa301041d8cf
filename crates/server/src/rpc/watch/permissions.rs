//! Who the caller of a watch stream is. What it may watch is decided in the store (`store/src/calls/watches.rs`).

use api::Error;
use store::{Caller, WatchCaller};

use crate::grpc::Failure;
use crate::node::Node;
use crate::rpc::call::Call;

/// The caller of a stream, by what this member has applied.
pub(super) trait StreamCaller: WatchCaller {
    /// Whether this member has not applied yet what the caller's token was issued by. A linearizable read helps.
    fn is_behind(&self) -> bool;
}

/// The caller of a call.
pub(super) struct CallPermissions<'a> {
    node: &'a Node,
    call: &'a Call,
}

impl<'a> CallPermissions<'a> {
    /// That of a call which has no watches yet.
    ///
    /// # Errors
    /// None that a client can cause: a token that is not valid refuses watches, not the stream.
    pub(super) async fn new(node: &'a Node, call: &'a Call) -> Result<CallPermissions<'a>, Failure> {
        // The entry of its token is applied here from now on, so that requests can look it up at once.
        if node.identify_now(&call.credentials).is_none() {
            node.linearize().await?;
        }
        Ok(CallPermissions { node, call })
    }
}

impl WatchCaller for CallPermissions<'_> {
    fn identify(&self) -> Result<Caller, Error> {
        self.node.identify_now(&self.call.credentials).unwrap_or(Err(Error::InvalidAuthToken))
    }

    fn auth_shown(&self) -> u64 {
        self.node.reader.auth_shown()
    }
}

impl StreamCaller for CallPermissions<'_> {
    fn is_behind(&self) -> bool {
        self.node.identify_applied(&self.call.credentials).is_none()
    }
}
