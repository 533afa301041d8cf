//! The keep-alives of one stream: renewed together, answered in the order they came.
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
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use api::etcdserverpb as pb;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use member::peer_message::{LeaseAnswer, MAX_LEASES_PER_FRAME};

use crate::grpc::{EncodedMessage, Failure};
use crate::rpc::call::decode_in_stream;
use crate::rpc::streaming_call::ResponseSink;

/// Renewals of one stream that may wait for their answers: as many as one frame from a follower to its leader carries,
/// and a hundredth of the waiters that a member allows. Further requests stay in the stream's HTTP/2 window.
pub(super) const MAX_RENEWALS_IN_FLIGHT: usize = MAX_LEASES_PER_FRAME;

/// Answers the requests of a stream until the client has sent its last one. `submit` takes the header of the answer,
/// then submits a renewal; both have happened when it returns.
///
/// # Errors
/// That of the requests, after those before it were answered; and that of the first renewal that fails.
pub(super) async fn answer_all<R, S, A>(requests: R, submit: S, sink: &ResponseSink) -> Result<(), Failure>
where
    R: Stream<Item = Result<Bytes, Failure>> + Unpin,
    S: FnMut(i64) -> (pb::ResponseHeader, A),
    A: Future<Output = Result<LeaseAnswer, api::Error>> + Unpin,
{
    let mut renewals = Renewals { submit, requests: Requests::Open(requests), in_flight: VecDeque::new() };
    while let Some(answer) = std::future::poll_fn(|context| renewals.poll_answer(context)).await {
        sink.send(EncodedMessage::message(&answer?)).await;
    }
    Ok(())
}

/// The renewals of one stream.
struct Renewals<R, S, A> {
    requests: Requests<R>,
    submit: S,
    /// In the order of the requests.
    in_flight: VecDeque<Renewal<A>>,
}

/// A renewal that was submitted.
struct Renewal<A> {
    lease: i64,
    header: pb::ResponseHeader,
    answer: A,
}

/// What is known of the client's messages.
enum Requests<R> {
    Open(R),
    /// There are no more, because of this failure if there is one.
    Ended(Option<Failure>),
}

impl<R, S, A> Renewals<R, S, A>
where
    R: Stream<Item = Result<Bytes, Failure>> + Unpin,
    S: FnMut(i64) -> (pb::ResponseHeader, A),
    A: Future<Output = Result<LeaseAnswer, api::Error>> + Unpin,
{
    /// Submits what has arrived, then takes the next answer in order; `None` after the last.
    fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<pb::LeaseKeepAliveResponse, Failure>>> {
        self.submit_arrived(context);
        let Some(first) = self.in_flight.front_mut() else {
            return match &mut self.requests {
                Requests::Open(_) => Poll::Pending,
                Requests::Ended(failure) => Poll::Ready(failure.take().map(Err)),
            };
        };
        let answer = ready!(Pin::new(&mut first.answer).poll(context));
        let Some(Renewal { lease, header, .. }) = self.in_flight.pop_front() else { return Poll::Pending };
        let ttl = match answer {
            Ok(LeaseAnswer::Alive { granted_s, .. }) => granted_s,
            Ok(LeaseAnswer::NotFound | LeaseAnswer::NotLeader) => 0,
            Err(error) => return Poll::Ready(Some(Err(error.into()))),
        };
        Poll::Ready(Some(Ok(pb::LeaseKeepAliveResponse { header: Some(header), id: lease, ttl })))
    }

    /// Submits the renewals that have arrived, as far as the limit allows. Those of one call reach the raft loop
    /// together.
    fn submit_arrived(&mut self, context: &mut Context<'_>) {
        while self.in_flight.len() < MAX_RENEWALS_IN_FLIGHT {
            let Requests::Open(requests) = &mut self.requests else { return };
            let Poll::Ready(next) = requests.poll_next_unpin(context) else { return };
            match next.map(|body| decode_in_stream::<pb::LeaseKeepAliveRequest>(body?)) {
                Some(Ok(pb::LeaseKeepAliveRequest { id: lease })) => {
                    let (header, answer) = (self.submit)(lease);
                    self.in_flight.push_back(Renewal { lease, header, answer });
                }
                Some(Err(failure)) => self.requests = Requests::Ended(Some(failure)),
                None => self.requests = Requests::Ended(None),
            }
        }
    }
}
