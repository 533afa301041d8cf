//! Requests are answered beside a backlog of events, in order, and cannot starve it.
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use pb::watch_request::RequestUnion;
use prost::Message;
use store::watch::Hub;
use store::{BatchContext, Caller, Command, Limits, Reader, Store, ValueRef, Values};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::*;

/// All values are empty.
struct NoValues;

impl Values for NoValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        panic!("there is no value {value:?}")
    }

    fn retain(&self, _value: &ValueRef) {}

    fn release(&self, _value: &ValueRef) {}
}

const KEY: &str = "a key that forty bytes are enough to hold";

/// Events of the history: so many that a chunk of them is more than a handler may be ahead.
const EVENTS: u64 = 30_000;

fn hub() -> (Hub, Reader) {
    let (mut store, reader) = Store::new(Arc::new(NoValues), Limits::default());
    for index in 1..=EVENTS / 1_000 {
        let context = BatchContext::at(index, 1);
        let put = |_| Command::Put(pb::PutRequest { key: KEY.into(), ..Default::default() });
        store.apply_batch(context, (0..1_000).map(put).collect()).expect("nothing is compared");
    }
    (Hub::new(Arc::new(reader.clone()), Arc::new(NoValues), 1, 2, 3), reader)
}

/// Permissions are asked for when a stream begins, and before and after each response is taken from it.
const ASKED_BEFORE_EVENTS: usize = 4;

/// Permits everything until the first response with events has been taken from the stream, and then nothing, if it is
/// `revoking`.
struct Scripted {
    is_revoking: bool,
    asked: Cell<usize>,
    is_behind: Arc<AtomicBool>,
}

impl Scripted {
    fn has_revoked(&self) -> bool {
        self.is_revoking && self.asked.get() > ASKED_BEFORE_EVENTS
    }
}

impl WatchCaller for Scripted {
    fn identify(&self) -> Result<Caller, api::Error> {
        let is_refused = self.has_revoked() || self.is_behind();
        if is_refused { Err(api::Error::PermissionDenied) } else { Ok(Caller::Anonymous) }
    }

    fn auth_shown(&self) -> u64 {
        self.asked.set(self.asked.get() + 1);
        u64::from(self.has_revoked())
    }

    fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }
}

/// A stream, and the way to send it requests.
fn stream(hub: &(Hub, Reader)) -> (UnboundedSender<pb::WatchRequest>, Responses) {
    stream_of(hub, false)
}

fn stream_of(hub: &(Hub, Reader), is_revoking: bool) -> (UnboundedSender<pb::WatchRequest>, Responses) {
    stream_behind(hub, is_revoking, Ok(()), false)
}

/// The same on a member that `is_behind`, until it has caught up with this result.
fn stream_behind(
    hub: &(Hub, Reader),
    is_revoking: bool,
    caught_up: Result<(), api::Error>,
    is_behind: bool,
) -> (UnboundedSender<pb::WatchRequest>, Responses) {
    let (client, mut requests) = unbounded_channel::<pb::WatchRequest>();
    let watchers = hub.0.open(Arc::new(|| {}), FRAGMENT_OVERHEAD_BYTES);
    let reader = hub.1.clone();
    let requests = futures_util::stream::poll_fn(move |context| {
        requests.poll_recv(context).map(|request| Some(Ok(request?.encode_to_vec().into())))
    });
    let responses = Responses::of(move |sink| async move {
        let is_behind = Arc::new(AtomicBool::new(is_behind));
        let caller = Scripted { is_revoking, asked: Cell::new(0), is_behind: is_behind.clone() };
        let watches = PermittedWatches::new(watchers, &reader, caller);
        let mut stream = ServedStream::new(watches, requests, &sink);
        loop {
            match stream.advance(1).await? {
                Advance::Idle => stream.next_request().await,
                Advance::Behind => {
                    is_behind.store(caught_up.is_err(), Ordering::Relaxed);
                    stream.create_held(caught_up);
                }
                Advance::More | Advance::Damaged(_) => {}
            }
        }
    });
    (client, responses)
}

fn create(start_revision: i64) -> pb::WatchRequest {
    let create = pb::WatchCreateRequest { key: KEY.into(), start_revision, ..Default::default() };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

fn cancel(watch_id: i64) -> pb::WatchRequest {
    let cancel = pb::WatchCancelRequest { watch_id };
    pb::WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) }
}

/// What a client that is slow receives next: what was ahead of it.
fn receive(responses: &mut Responses) -> Vec<pb::WatchResponse> {
    let next = std::pin::pin!(responses.next());
    let Poll::Ready(next) = next.poll(&mut Context::from_waker(Waker::noop())) else { return Vec::new() };
    let messages = next.expect("a stream goes on").expect("no request is wrong");
    let decode = |message: EncodedMessage| pb::WatchResponse::decode(Bytes::from(message.0.concat()));
    messages.into_iter().map(|message| decode(message).expect("a response")).collect()
}

#[test]
fn requests_are_answered_beside_a_backlog() {
    let (client, mut responses) = stream(&hub());
    client.send(create(2)).expect("it listens");
    let first = receive(&mut responses);
    assert!(first[0].created && first[1].events.len() == 1_000 && first.len() == 2, "it runs not ahead");
    client.send(create(0)).expect("it listens");
    client.send(cancel(0)).expect("it listens");
    let answers = receive(&mut responses);
    assert!(answers[0].created && answers[0].watch_id == 1, "not behind 29 responses with events");
    assert!(answers[1].canceled && answers[1].watch_id == 0);
    assert_eq!(answers.len(), 2, "no events follow the answer to a cancel");
}

#[test]
fn events_that_were_taken_while_permissions_changed_are_not_sent() {
    let (client, mut responses) = stream_of(&hub(), true);
    client.send(create(2)).expect("it listens");
    let mut all = Vec::new();
    while let [response, more @ ..] = &receive(&mut responses)[..] {
        all.push(response.clone());
        all.extend_from_slice(more);
    }
    let [created, canceled] = &all[..] else { panic!("{} responses", all.len()) };
    assert!(created.created && canceled.canceled && canceled.watch_id == created.watch_id);
    assert!(canceled.cancel_reason.contains("permission denied"), "{canceled:?}");
    assert!(all.iter().all(|response| response.events.is_empty()), "not one that was ready");
}

#[test]
fn a_watch_of_a_token_that_is_ahead_is_created_after_what_it_was_issued_by() {
    let (client, mut responses) = stream_behind(&hub(), false, Ok(()), true);
    [create(0), cancel(0)].into_iter().for_each(|request| client.send(request).expect("it listens"));
    let answers = receive(&mut responses);
    assert!(answers[0].created && !answers[0].canceled, "{:?}", answers[0]);
    assert!(answers[1].canceled && answers.len() == 2, "the requests keep their order");

    let (client, mut responses) = stream_behind(&hub(), false, Err(api::Error::Timeout), true);
    client.send(create(0)).expect("it listens");
    let refused = receive(&mut responses);
    assert!(refused[0].canceled && refused[0].cancel_reason.contains("timed out"), "{refused:?}");
}

#[test]
fn thousands_of_requests_do_not_starve_the_events() {
    let (client, mut responses) = stream(&hub());
    client.send(create(2)).expect("it listens");
    (1..10_000).for_each(|_| client.send(create(0)).expect("it listens"));
    let (mut created, mut events) = (0, 0);
    while created < 10_000 {
        for response in receive(&mut responses) {
            created += usize::from(response.created);
            events += response.events.len();
        }
    }
    assert_eq!(events, EVENTS as usize, "all were sent meanwhile");
}
