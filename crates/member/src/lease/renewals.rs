//! The renewals of one keep-alive stream: submitted together, answered in the order of their requests.
//!
//! A client may keep thousands of leases alive on one stream, and does not wait for one answer before it sends the next
//! request. Each renewal needs proof that the leader still leads, which takes a round trip between members; renewals
//! that are submitted together share it. So a stream submits what has arrived, up to a limit, and waits for the oldest.
//!
//! ```text
//! request 1, 2, 3 arrive       submitted: 1 2 3      one submission to the raft loop, one ReadIndex round
//! 2 and 3 are answered         submitted: 1 2 3      1 is held: its recorded remainder is removed first
//! request 4 arrives            submitted: 1 2 3 4
//! 1 is answered                sent: 1 2 3           submitted: 4
//! ```

use std::collections::VecDeque;
use std::task::{Poll, ready};

use crate::peer_message::{LeaseAnswer, MAX_LEASES_PER_FRAME};

/// Renewals of one stream that may wait for their answers: as many as one frame from a follower to its leader carries,
/// and a hundredth of the waiters that a member allows. Further requests stay in the stream's HTTP/2 window.
pub const MAX_RENEWALS_IN_FLIGHT: usize = MAX_LEASES_PER_FRAME;

/// What a stream asks of its server. What is pending may be ready when the stream is asked again.
pub trait RenewalCalls {
    /// A renewal that was submitted.
    type Renewal;
    /// What ends a stream.
    type Failure;

    /// The lease of the client's next request; `None` when it sends no more. Not asked for again behind its end or a
    /// failure.
    fn next_request(&mut self) -> Poll<Option<Result<i64, Self::Failure>>>;

    /// Submits a renewal.
    fn submit(&mut self, lease: i64) -> Self::Renewal;

    /// The answer to a renewal. Not asked for again once it was there.
    fn answer(&mut self, renewal: &mut Self::Renewal) -> Poll<Result<LeaseAnswer, Self::Failure>>;
}

/// The renewals of one stream.
pub struct RenewalStream<R, F> {
    max_in_flight: usize,
    /// In the order of the requests.
    in_flight: VecDeque<R>,
    requests: Requests<F>,
}

/// What is known of the client's requests.
enum Requests<F> {
    Open,
    /// There are no more, because of this failure if there is one.
    Ended(Option<F>),
}

impl<R, F> RenewalStream<R, F> {
    /// A stream of which at most `max_in_flight` renewals wait for their answers.
    pub fn new(max_in_flight: usize) -> Self {
        Self { max_in_flight, in_flight: VecDeque::new(), requests: Requests::Open }
    }

    /// Submits what has arrived, then takes the next answer in order; `None` behind the last.
    ///
    /// # Errors
    /// That of the requests, behind the answers to those before it; and that of a renewal that fails, which ends the
    /// stream.
    pub fn next<C>(&mut self, calls: &mut C) -> Poll<Option<Result<(R, LeaseAnswer), F>>>
    where
        C: RenewalCalls<Renewal = R, Failure = F>,
    {
        self.submit_arrived(calls);
        let Some(oldest) = self.in_flight.front_mut() else {
            return match &mut self.requests {
                Requests::Open => Poll::Pending,
                Requests::Ended(failure) => Poll::Ready(failure.take().map(Err)),
            };
        };
        let answer = ready!(calls.answer(oldest));
        let Some(renewal) = self.in_flight.pop_front() else { return Poll::Pending };
        Poll::Ready(Some(answer.map(|answer| (renewal, answer))))
    }

    /// Submits the renewals that have arrived, as far as the limit allows. Those of one call reach the raft loop
    /// together.
    fn submit_arrived<C>(&mut self, calls: &mut C)
    where
        C: RenewalCalls<Renewal = R, Failure = F>,
    {
        while self.in_flight.len() < self.max_in_flight && matches!(self.requests, Requests::Open) {
            let Poll::Ready(next) = calls.next_request() else { return };
            match next {
                Some(Ok(lease)) => self.in_flight.push_back(calls.submit(lease)),
                Some(Err(failure)) => self.requests = Requests::Ended(Some(failure)),
                None => self.requests = Requests::Ended(None),
            }
        }
    }
}
