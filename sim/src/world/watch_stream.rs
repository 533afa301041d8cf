//! A watch stream on a member: requests that have arrived, and between them and the watches the order that a server
//! keeps (`store::ServedWatches`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::task::Poll;

use api::etcdserverpb::watch_request::RequestUnion;
use api::etcdserverpb::{WatchCreateRequest, WatchRequest};
use store::watch::WatchStream;
use store::{PermittedWatches, ServedStep, ServedWatches, WatchRequests};

use super::watch_caller::SimWatchCaller;

/// A stream. It ends with its process, or with its client's connection.
pub(crate) struct SimWatchStream {
    served: ServedWatches<SimWatchCaller, Infallible>,
    requests: SimWatchRequests,
}

/// The client's side of the stream.
#[derive(Default)]
struct SimWatchRequests {
    arrived: VecDeque<WatchRequest>,
    /// Requests that were taken, and creations that were decided, since they were looked at.
    taken: Vec<RequestUnion>,
    decided: Vec<DecidedWatch>,
    /// A defect: requests wait until the stream has nothing to send.
    wait_for_events: bool,
}

/// A create request that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct DecidedWatch {
    /// The request.
    pub(crate) request: WatchCreateRequest,
    /// Whether the watch was created, or refused.
    pub(crate) is_created: bool,
}

impl SimWatchStream {
    /// A stream that takes at most so many requests between two responses with events.
    pub(crate) fn new(
        watches: PermittedWatches<SimWatchCaller>,
        max_requests_at_once: usize,
        wait_for_events: bool,
    ) -> SimWatchStream {
        let requests = SimWatchRequests { wait_for_events, ..SimWatchRequests::default() };
        SimWatchStream { served: ServedWatches::new(watches, max_requests_at_once), requests }
    }

    /// A request arrives, and waits until the stream takes it.
    pub(crate) fn arrive(&mut self, request: RequestUnion) {
        self.requests.arrived.push_back(WatchRequest { request_union: Some(request) });
    }

    /// Requests that have arrived and are not taken.
    pub(crate) fn arrived(&self) -> usize {
        self.requests.arrived.len()
    }

    /// The stream, which waits for requests, takes the first one that has arrived.
    pub(crate) fn take_arrived(&mut self) {
        if !self.served.takes_requests() {
            return;
        }
        let Some(request) = self.requests.arrived.pop_front() else { return };
        self.requests.taken.extend(request.request_union.clone());
        self.served.take(Some(Ok(request)), &mut self.requests);
    }

    /// What the stream does next.
    pub(crate) fn next(&mut self) -> ServedStep<Infallible> {
        self.served.next(&mut self.requests, 0)
    }

    /// The member has caught up with what the caller's token was issued by.
    pub(crate) fn catch_up(&mut self) {
        self.served.caller().set_behind(false);
        self.served.create_held(Ok(()), &mut self.requests);
    }

    /// The watches.
    pub(crate) fn stream(&mut self) -> &mut WatchStream {
        self.served.stream()
    }

    /// Whose they are.
    pub(crate) fn caller(&mut self) -> &mut SimWatchCaller {
        self.served.caller()
    }

    /// The requests that were taken.
    pub(crate) fn take_taken(&mut self) -> Vec<RequestUnion> {
        std::mem::take(&mut self.requests.taken)
    }

    /// The create requests that were carried out.
    pub(crate) fn take_decided(&mut self) -> Vec<DecidedWatch> {
        std::mem::take(&mut self.requests.decided)
    }
}

impl WatchRequests for SimWatchRequests {
    type Failure = Infallible;

    fn next_request(&mut self) -> Poll<Option<Result<WatchRequest, Infallible>>> {
        if self.wait_for_events {
            return Poll::Pending;
        }
        let Some(request) = self.arrived.pop_front() else { return Poll::Pending };
        self.taken.extend(request.request_union.clone());
        Poll::Ready(Some(Ok(request)))
    }

    fn created(&mut self, id: Option<i64>, request: &WatchCreateRequest) {
        self.decided.push(DecidedWatch { request: request.clone(), is_created: id.is_some() });
    }

    fn canceled(&mut self, _id: i64) {}
}
