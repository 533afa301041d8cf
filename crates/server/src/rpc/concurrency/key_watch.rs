//! A watch of a few keys, for a call that waits.

use std::sync::Arc;

use api::etcdserverpb as pb;
use bytes::Bytes;
use store::watch::{NextResponse, WatchStream};
use tokio::sync::Notify;

use super::response;
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::Call;
use crate::rpc::coalescing_notifier::CoalescingNotifier;
use crate::rpc::watcher_repairs::WatcherRepairs;

/// The connection that these watches are woken with: none of a client, whose writes they could share.
const NO_CONNECTION: u64 = 0;

/// Watchers of one stream.
pub(super) struct KeyWatch<'a> {
    node: &'a Node,
    call: &'a Call,
    watchers: WatchStream,
    woken: Arc<Notify>,
    repairs: WatcherRepairs<'a>,
    /// What [`store::Reader::auth_shown`] was when the permissions were checked.
    checked: Option<u64>,
}

impl<'a> KeyWatch<'a> {
    pub(super) fn open(node: &'a Node, call: &'a Call) -> KeyWatch<'a> {
        let woken = Arc::new(Notify::new());
        let watchers = node.hub.open(CoalescingNotifier::wake(NO_CONNECTION, &woken), usize::MAX);
        KeyWatch { node, call, watchers, woken, repairs: WatcherRepairs::new(), checked: None }
    }

    /// Watches a key, or the keys up to `range_end` if it is not empty, from a revision on.
    pub(super) fn add(&mut self, key: Bytes, range_end: Bytes, start_revision: i64) {
        self.checked = None;
        let request = pb::WatchCreateRequest { key, range_end, start_revision, ..Default::default() };
        self.watchers.create(&request);
    }

    /// Waits for events, or until a watcher ended because what it needs was compacted.
    ///
    /// # Errors
    /// The caller may not read the keys any more.
    pub(super) async fn next(&mut self) -> Result<pb::WatchResponse, Failure> {
        loop {
            self.check().await?;
            match self.watchers.next(self.node.status.term()) {
                Ok(NextResponse::Send(frame)) => {
                    let encoded = EncodedMessage(vec![frame.head, frame.events]);
                    let answer: pb::WatchResponse = response(encoded)?;
                    if answer.canceled || !answer.events.is_empty() {
                        // The events may be from after a change: it was made before they were published.
                        self.check().await?;
                        return Ok(answer);
                    }
                }
                Ok(NextResponse::Busy) => tokio::task::yield_now().await,
                Ok(NextResponse::Idle) => tokio::select! {
                    () = self.woken.notified() => {}
                    address = self.repairs.ended() => self.watchers.retry_damaged(address),
                },
                Err(damaged) => self.repairs.begin(self.node, damaged),
            }
        }
    }

    /// Whether the caller may still read what is watched. A change of users and roles wakes this, too.
    async fn check(&mut self) -> Result<(), Failure> {
        let now = self.node.reader.auth_shown();
        if self.checked == Some(now) {
            return Ok(());
        }
        // Another change meanwhile is met at the next check.
        let caller = self.node.identify(&self.call.credentials).await?.at_present();
        let mut ranges = self.watchers.ranges();
        ranges.try_for_each(|(_, start, end)| self.node.reader.check_range(&caller, start, end))?;
        self.checked = Some(now);
        Ok(())
    }
}
