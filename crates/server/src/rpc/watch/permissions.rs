//! Who the caller of a watch stream is. What it may watch is decided in the store (`store/src/calls/watches.rs`).

use api::Error;
use store::{Caller, WatchCaller};

use crate::grpc::Failure;
use crate::node::Node;
use crate::rpc::call::Call;

/// The caller of a call.
pub(super) struct CallPermissions<'a> {
    node: &'a Node,
    call: &'a Call,
}

impl<'a> CallPermissions<'a> {
    /// That of a call which has no watches yet.
    ///
    /// # Errors
    /// As [`Node::resolve_token`]: too many calls of its source wait for the check of their tokens. A token that is not
    /// valid refuses watches, not the stream.
    pub(super) async fn new(node: &'a Node, call: &'a Call) -> Result<CallPermissions<'a>, Failure> {
        // Requests can look its token up at once from now on.
        if node.identify_now(&call.credentials).is_none() {
            node.resolve_token(&call.credentials).await?;
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

    /// [`Node::resolve_token`] helps.
    fn is_behind(&self) -> bool {
        self.node.identify_applied(&self.call.credentials).is_none()
    }
}
