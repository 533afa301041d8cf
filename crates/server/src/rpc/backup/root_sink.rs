//! Where a backup is sent, as long as its caller has the role root.
//!
//! A backup has all keys and the hashes of all passwords, and takes as long as its client likes. So its caller is
//! checked for the role again whenever users or roles have changed, after the connection has made room and before the
//! next part is sent:
//!
//! ```text
//! send part 1      auth revision 4, adm is root: sent
//!                                                        revoke root from adm (revision 5)
//! send part 2      auth revision 5: permission denied, the stream ends
//! ```

use std::sync::Arc;

use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::Call;
use crate::rpc::streaming_call::ResponseSink;

/// The responses of one call.
pub(super) struct RootSink {
    sink: ResponseSink,
    node: Arc<Node>,
    /// As one of its user, who stays the same when the token ends.
    call: Call,
    /// What [`store::Reader::auth_shown`] was when the role was checked.
    checked: Option<u64>,
}

impl RootSink {
    /// The responses of `call`, which is one of its user ([`crate::rpc::call::bind_to_user`]).
    pub(super) fn new(sink: ResponseSink, node: Arc<Node>, call: Call) -> RootSink {
        RootSink { sink, node, call, checked: None }
    }

    /// Sends one message when there is room for it.
    ///
    /// # Errors
    /// The caller does not have the role root any more, or is no user since auth was enabled.
    pub(super) async fn send(&mut self, message: EncodedMessage) -> Result<(), Failure> {
        self.sink.room().await;
        self.check().await?;
        self.sink.send(message).await;
        Ok(())
    }

    async fn check(&mut self) -> Result<(), Failure> {
        let now = self.node.reader.auth_shown();
        if self.checked == Some(now) {
            return Ok(());
        }
        // A change while this runs is met at the next check: `now` is older than it.
        let caller = self.node.identify(&self.call.credentials).await?;
        self.node.reader.check_root(&caller)?;
        self.checked = Some(now);
        Ok(())
    }
}
