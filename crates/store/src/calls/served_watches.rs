//! A watch stream between the client's requests and the watch hub: what goes next.
//!
//! A stream may have a long history to send to a slow client. Its requests do not wait for that: between two responses
//! with events the stream takes what has arrived, and the answers leave first. A request waits only for the messages
//! that are ahead of the connection.
//!
//! ```text
//! client    create 0 from revision 1            create 1         cancel 0
//! stream    created 0, events 0, events 0, events 0, created 1, events 0, canceled 0, (events of 1 only)
//! ```

use std::task::Poll;

use api::etcdserverpb as pb;
use api::{Error, validate};
use pb::watch_request::RequestUnion;

use super::watches::{PermittedWatches, WatchCaller};
use crate::values::Damaged;
use crate::watch::{EncodedResponse, NextResponse, WatchStream};

/// Requests that are taken between two responses with events. With fewer, a client that creates thousands of watches
/// would wait for thousands of events between; with more, other watches of the stream would wait for long, and more
/// answers would be in memory.
pub const MAX_REQUESTS_AT_ONCE: usize = 64;

/// The client's side of a stream.
pub trait WatchRequests {
    /// What ends a stream.
    type Failure;

    /// The next request, if it has arrived; `None` when the client sends no more, but keeps watching until it goes.
    /// Not asked for again behind that, or behind a failure.
    fn next_request(&mut self) -> Poll<Option<Result<pb::WatchRequest, Self::Failure>>>;

    /// The stream carries a request out: a watch was created with this id; or it was refused.
    fn created(&mut self, id: Option<i64>, request: &pb::WatchCreateRequest);

    /// The stream carries a request out: a watch is canceled, if there is one with this id.
    fn canceled(&mut self, id: i64);
}

/// A watch stream with its two directions.
pub struct ServedWatches<C, F> {
    watches: PermittedWatches<C>,
    max_requests_at_once: usize,
    /// Requests that were taken since the last step that was no answer.
    taken: usize,
    /// The answers to them are being sent, and no more are taken meanwhile.
    is_answering: bool,
    /// The client may send more.
    is_open: bool,
    /// A watch that is created once this member knows what the caller's token was issued by. Later requests wait.
    held: Option<pb::WatchCreateRequest>,
    /// What is wrong with the last request. The stream ends with it when the requests before are answered.
    failure: Option<F>,
}

/// What a stream does next.
pub enum ServedStep<F> {
    /// This leaves.
    Send(EncodedResponse),
    /// There is more after a bounded amount of work; other tasks may run.
    Busy,
    /// There is nothing to do until a request or an event comes.
    Idle,
    /// The next watch can be created once the caller's token is known ([`ServedWatches::create_held`]); the whole
    /// stream waits meanwhile.
    Behind,
    /// A value must be repaired; its watchers wait meanwhile.
    Damaged(Damaged),
    /// The stream ends: this is wrong with a request. Those before it are answered.
    Failed(F),
}

impl<C: WatchCaller, F> ServedWatches<C, F> {
    /// A stream that takes at most so many requests between two responses with events.
    pub fn new(watches: PermittedWatches<C>, max_requests_at_once: usize) -> Self {
        let (held, failure) = (None, None);
        Self { watches, max_requests_at_once, taken: 0, is_answering: false, is_open: true, held, failure }
    }

    /// The watches.
    pub fn stream(&mut self) -> &mut WatchStream {
        self.watches.stream()
    }

    /// Whose they are.
    pub fn caller(&mut self) -> &mut C {
        self.watches.caller()
    }

    /// Takes requests that have arrived, unless the last ones are not answered yet, and decides what leaves next:
    /// answers first, then one other response. To be called when that can leave at once, so that what comes meanwhile
    /// may go first.
    pub fn next(&mut self, requests: &mut impl WatchRequests<Failure = F>, raft_term: u64) -> ServedStep<F> {
        while !self.is_answering && self.takes_requests() && self.taken < self.max_requests_at_once {
            let Poll::Ready(next) = requests.next_request() else { break };
            self.take(next, requests);
        }
        self.is_answering = self.stream().has_answers();
        if !self.is_answering {
            self.taken = 0;
            if let Some(failure) = self.failure.take() {
                return ServedStep::Failed(failure);
            }
            if self.held.is_some() {
                return ServedStep::Behind;
            }
        }
        match self.watches.next(raft_term) {
            Ok(NextResponse::Send(response)) => ServedStep::Send(response),
            Ok(NextResponse::Busy) => ServedStep::Busy,
            Ok(NextResponse::Idle) => ServedStep::Idle,
            Err(damaged) => ServedStep::Damaged(damaged),
        }
    }

    /// Whether the stream waits for requests when it is idle.
    pub fn takes_requests(&self) -> bool {
        self.is_open && self.held.is_none()
    }

    /// Takes a request, or the end of the requests, for which an idle stream has waited.
    pub fn take(
        &mut self,
        next: Option<Result<pb::WatchRequest, F>>,
        requests: &mut impl WatchRequests<Failure = F>,
    ) {
        self.taken += 1;
        match next {
            Some(Ok(request)) => self.carry_out(request, requests),
            Some(Err(failure)) => (self.is_open, self.failure) = (false, Some(failure)),
            None => self.is_open = false,
        }
    }

    /// Creates the watch that was held, by what is known of the caller's token now; refuses it if that has failed.
    pub fn create_held(
        &mut self,
        resolved: Result<(), Error>,
        requests: &mut impl WatchRequests<Failure = F>,
    ) {
        match (self.held.take(), resolved) {
            (Some(request), Ok(())) => self.create(&request, requests),
            (Some(_), Err(error)) => self.watches.refuse(error),
            (None, _) => {}
        }
    }

    fn carry_out(&mut self, request: pb::WatchRequest, requests: &mut impl WatchRequests<Failure = F>) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => match validate::watch_start(&create) {
                Ok(()) if self.caller().is_behind() => self.held = Some(create),
                Ok(()) => self.create(&create, requests),
                Err(error) => self.stream().refuse(error.message()),
            },
            Some(RequestUnion::CancelRequest(cancel)) => {
                requests.canceled(cancel.watch_id);
                self.stream().cancel(cancel.watch_id);
            }
            Some(RequestUnion::ProgressRequest(_)) => self.stream().progress(),
            // etcd ignores what it does not know, so that newer clients can ask.
            None => {}
        }
    }

    fn create(&mut self, request: &pb::WatchCreateRequest, requests: &mut impl WatchRequests<Failure = F>) {
        let id = self.watches.create(request);
        requests.created(id, request);
    }
}
