//! The keep-alives of one stream, between its messages and the renewals that a member submits and answers. Which goes
//! next is decided in [`RenewalStream`].

use std::pin::Pin;
use std::task::{Context, Poll};

use api::etcdserverpb as pb;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use member::lease::{MAX_RENEWALS_IN_FLIGHT, RenewalCalls, RenewalStream};
use member::peer_message::LeaseAnswer;

use crate::grpc::{EncodedMessage, Failure};
use crate::rpc::call::decode_in_stream;
use crate::rpc::streaming_call::ResponseSink;

/// Answers the requests of a stream until the client has sent its last one. `submit` takes the header of the answer,
/// then submits a renewal; both have happened when it returns.
///
/// # Errors
/// As [`RenewalStream::next`].
pub(super) async fn answer_all<R, S, A>(
    mut requests: R,
    mut submit: S,
    sink: &ResponseSink,
) -> Result<(), Failure>
where
    R: Stream<Item = Result<Bytes, Failure>> + Unpin,
    S: FnMut(i64) -> (pb::ResponseHeader, A),
    A: Future<Output = Result<LeaseAnswer, api::Error>> + Unpin,
{
    let mut renewals = RenewalStream::new(MAX_RENEWALS_IN_FLIGHT);
    let mut next = |context: &mut Context<'_>| {
        renewals.next(&mut PolledCalls { requests: &mut requests, submit: &mut submit, context })
    };
    while let Some(answered) = std::future::poll_fn(&mut next).await {
        let (Renewal { lease, header, .. }, answer) = answered?;
        let ttl = match answer {
            LeaseAnswer::Alive { granted_s, .. } => granted_s,
            LeaseAnswer::NotFound | LeaseAnswer::NotLeader => 0,
        };
        let response = pb::LeaseKeepAliveResponse { header: Some(header), id: lease, ttl };
        sink.send(EncodedMessage::message(&response)).await;
    }
    Ok(())
}

/// A stream's calls while it is polled.
struct PolledCalls<'p, 'c, R, S> {
    requests: &'p mut R,
    submit: &'p mut S,
    context: &'p mut Context<'c>,
}

/// A renewal that was submitted.
struct Renewal<A> {
    lease: i64,
    header: pb::ResponseHeader,
    answer: A,
}

impl<R, S, A> RenewalCalls for PolledCalls<'_, '_, R, S>
where
    R: Stream<Item = Result<Bytes, Failure>> + Unpin,
    S: FnMut(i64) -> (pb::ResponseHeader, A),
    A: Future<Output = Result<LeaseAnswer, api::Error>> + Unpin,
{
    type Renewal = Renewal<A>;
    type Failure = Failure;

    fn next_request(&mut self) -> Poll<Option<Result<i64, Failure>>> {
        let lease = |body| Ok(decode_in_stream::<pb::LeaseKeepAliveRequest>(body?)?.id);
        self.requests.poll_next_unpin(self.context).map(|next| next.map(lease))
    }

    fn submit(&mut self, lease: i64) -> Renewal<A> {
        let (header, answer) = (self.submit)(lease);
        Renewal { lease, header, answer }
    }

    fn answer(&mut self, renewal: &mut Renewal<A>) -> Poll<Result<LeaseAnswer, Failure>> {
        Pin::new(&mut renewal.answer).poll(self.context).map_err(Failure::from)
    }
}
