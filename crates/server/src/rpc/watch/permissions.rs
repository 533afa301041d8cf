//! Whether the watches of a stream are permitted: when they begin, and whenever permissions change.
//!
//! A response is checked on both sides of the moment at which it is taken from the stream. The auth revision is raised
//! before the events of later commands are published, so a response that was taken between two equal revisions has no
//! event from after a change:
//!
//! ```text
//! recheck: auth revision 4, ann may read k
//!                                    revoke k from ann (revision 5); put k "secret" is published
//! next -> events of k with "secret"
//! recheck: auth revision 5, ann may not read k: the watch is canceled, the response is dropped
//! ```

use std::sync::Arc;

use api::Error;
use api::etcdserverpb as pb;
use store::Caller;
use store::watch::WatchStream;

use crate::grpc::Failure;
use crate::node::Node;
use crate::rpc::call::Call;

/// Why a watch is refused or canceled: etcd's text, which is that of a Go error of gRPC.
pub(super) fn text(error: Error) -> String {
    format!("rpc error: code = {} desc = {}", error.code().name(), error.message())
}

/// What decides about watches.
pub(super) trait Permissions {
    /// Whether this member has not applied yet what the caller's token was issued by. A linearizable read helps.
    fn is_behind(&self) -> bool;

    /// Whether a watch may begin.
    ///
    /// # Errors
    /// Why not.
    fn check_create(&mut self, request: &pb::WatchCreateRequest) -> Result<(), Error>;

    /// Cancels the watches that are not permitted any more, if permissions have changed. Returns the auth revision.
    fn recheck(&mut self, watchers: &mut WatchStream) -> u64;

    /// The same if the auth revision is not `revision` any more; returns the watches that were canceled.
    fn recheck_since(&mut self, revision: u64, watchers: &mut WatchStream) -> Vec<i64>;
}

/// The permissions of a call.
pub(super) struct CallPermissions<'a> {
    node: &'a Node,
    call: &'a Call,
    /// The user that the call named when it last created a watch. The watches stay the user's when the token ends.
    user: Option<Arc<str>>,
    /// What [`Node::auth_shown`] was when all watches were checked.
    checked: u64,
}

impl<'a> CallPermissions<'a> {
    /// Those of a call that has no watches yet.
    ///
    /// # Errors
    /// None that a client can cause: a token that is not valid refuses watches, not the stream.
    pub(super) async fn new(node: &'a Node, call: &'a Call) -> Result<CallPermissions<'a>, Failure> {
        // The entry of its token is applied here from now on, so that requests can look it up at once.
        if node.identify_now(&call.credentials).is_none() {
            node.linearize().await?;
        }
        Ok(CallPermissions { node, call, user: None, checked: node.auth_shown() })
    }

    fn identify(&self) -> Result<Caller, Error> {
        self.node.identify_now(&self.call.credentials).unwrap_or(Err(Error::InvalidAuthToken))
    }

    /// The caller of the watches that exist: the user that created them, whatever the auth revision is by now.
    fn present(&self) -> Result<Caller, Error> {
        let named = self.user.clone().map(|name| Caller::User { name, revision: u64::MAX });
        match named.map_or_else(|| self.identify(), Ok)? {
            Caller::User { name, .. } => Ok(Caller::User { name, revision: u64::MAX }),
            other => Ok(other),
        }
    }
}

impl Permissions for CallPermissions<'_> {
    fn is_behind(&self) -> bool {
        self.node.identify_applied(&self.call.credentials).is_none()
    }

    fn check_create(&mut self, request: &pb::WatchCreateRequest) -> Result<(), Error> {
        let caller = self.identify()?;
        let start: &[u8] = if request.key.is_empty() { &[0] } else { &request.key };
        self.node.reader.check_range(&caller, start, &request.range_end)?;
        if let Caller::User { name, .. } = caller {
            self.user = Some(name);
        }
        Ok(())
    }

    fn recheck(&mut self, watchers: &mut WatchStream) -> u64 {
        let checked = self.checked;
        self.recheck_since(checked, watchers);
        self.checked
    }

    fn recheck_since(&mut self, revision: u64, watchers: &mut WatchStream) -> Vec<i64> {
        let now = self.node.auth_shown();
        if now == revision {
            return Vec::new();
        }
        let reader = &self.node.reader;
        // A change while this runs is met at the next check: `now` is older than it.
        let present = self.present();
        let refused = |(id, start, end): (i64, &[u8], &[u8])| {
            let checked = present.clone().and_then(|caller| reader.check_range(&caller, start, end));
            checked.err().map(|error| (id, error))
        };
        let refused: Vec<(i64, Error)> = watchers.ranges().filter_map(refused).collect();
        for (id, error) in &refused {
            watchers.revoke(*id, text(*error));
        }
        self.checked = now;
        refused.into_iter().map(|(id, _)| id).collect()
    }
}
