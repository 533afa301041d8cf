//! Thousands of renewals share few rounds, in order and within the limit.
use std::cell::RefCell;
use std::task::{Context, Poll, Waker};

use futures_util::stream;
use member::lease::MAX_RENEWALS_IN_FLIGHT;
use prost::Message;
use tokio::sync::oneshot;

use super::keep_alive::answer_all;
use super::*;

type Caller = oneshot::Sender<Result<LeaseAnswer, api::Error>>;

/// The renewals that a stream has submitted.
#[derive(Clone, Default)]
struct RaftLoop {
    submitted: std::sync::Arc<parking_lot::Mutex<Vec<(i64, Caller)>>>,
}

impl RaftLoop {
    /// The responses to these requests; the header of each has the lease as its revision.
    fn answer(&self, requests: Vec<Result<Bytes, Failure>>) -> Responses {
        let submitted = self.submitted.clone();
        let submit = move |lease| {
            let (caller, answer) = oneshot::channel();
            submitted.lock().push((lease, caller));
            let header = pb::ResponseHeader { revision: lease, ..Default::default() };
            (header, Box::pin(async { answer.await.expect("every renewal is answered") }))
        };
        let requests = stream::iter(requests);
        Responses::of(move |sink| async move { answer_all(requests, submit, &sink).await })
    }

    fn take(&self) -> Vec<(i64, Caller)> {
        std::mem::take(&mut *self.submitted.lock())
    }
}

fn request(lease: i64) -> Result<Bytes, Failure> {
    Ok(pb::LeaseKeepAliveRequest { id: lease }.encode_to_vec().into())
}

fn alive(lease: i64) -> Result<LeaseAnswer, api::Error> {
    Ok(LeaseAnswer::Alive { remaining_s: 1, granted_s: lease + 1 })
}

/// Polls once, and returns the leases of the responses that came; `Err` at the end.
fn poll(responses: &mut Responses, answered: &RefCell<Vec<i64>>) -> Result<(), Option<Failure>> {
    let next = std::pin::pin!(responses.next());
    match next.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Ok(()),
        Poll::Ready(Some(Ok(messages))) => {
            for message in messages {
                let bytes = Bytes::from(message.0.concat());
                let response = pb::LeaseKeepAliveResponse::decode(bytes).expect("a response");
                let revision = response.header.map(|header| header.revision);
                assert_eq!((revision, response.ttl), (Some(response.id), response.id + 1));
                answered.borrow_mut().push(response.id);
            }
            Ok(())
        }
        Poll::Ready(Some(Err(failure))) => Err(Some(failure)),
        Poll::Ready(None) => Err(None),
    }
}

#[test]
fn ten_thousand_renewals_of_a_stream_share_a_few_rounds() {
    let raft = RaftLoop::default();
    let mut responses = raft.answer((0..10_000).map(request).collect());
    let answered = RefCell::default();
    let mut rounds = 0;
    let end = loop {
        if let Err(end) = poll(&mut responses, &answered) {
            break end;
        }
        let round = raft.take();
        assert!(round.len() <= MAX_RENEWALS_IN_FLIGHT);
        rounds += usize::from(!round.is_empty());
        // The newest is answered first: the order of the responses is that of the requests all the same.
        round.into_iter().rev().for_each(|(lease, caller)| caller.send(alive(lease)).expect("it waits"));
    };
    assert_eq!(end, None);
    assert_eq!(*answered.borrow(), (0..10_000).collect::<Vec<_>>());
    assert!(rounds <= 50, "{rounds} rounds");
}

#[test]
fn renewals_wait_within_the_limit_and_a_bad_request_ends_the_stream_behind_them() {
    let raft = RaftLoop::default();
    let mut requests: Vec<_> = (0..MAX_RENEWALS_IN_FLIGHT as i64 + 1).map(request).collect();
    requests.push(Ok(Bytes::from_static(b"\xff")));
    let mut responses = raft.answer(requests);
    let answered = RefCell::default();
    (0..3).for_each(|_| poll(&mut responses, &answered).expect("it goes on"));
    let mut waiting = raft.take();
    assert_eq!((waiting.len(), answered.borrow().len()), (MAX_RENEWALS_IN_FLIGHT, 0));
    let second = waiting.remove(1);
    second.1.send(alive(1)).expect("it waits");
    poll(&mut responses, &answered).expect("it goes on");
    assert_eq!((raft.take().len(), answered.borrow().len()), (0, 0), "the first is not answered");
    waiting.into_iter().for_each(|(lease, caller)| caller.send(alive(lease)).expect("it waits"));
    let failure = loop {
        if let Err(failure) = poll(&mut responses, &answered) {
            break failure;
        }
        raft.take().into_iter().for_each(|(lease, caller)| caller.send(alive(lease)).expect("it waits"));
    };
    assert!(failure.is_some_and(|failure| failure.code == api::Code::Internal), "it is undecodable");
    assert_eq!(answered.borrow().len(), MAX_RENEWALS_IN_FLIGHT + 1);
}
