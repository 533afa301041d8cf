//! A call hears its messages, answers in order, does not run ahead, has the room of its connection, and is dropped
//! with its caller.
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::*;
use crate::grpc::handle::ConnectionHandle;
use crate::grpc::{BodyRoom, ClientGone, EncodedMessage};

/// Answers each message with itself, twice, and at the end with its path as an error. It holds `alive` while it
/// runs.
struct Echo {
    alive: Arc<()>,
}

impl GrpcService for Echo {
    fn max_message_bytes(&self) -> usize {
        usize::MAX
    }

    fn call(&self, head: &RequestHead, mut requests: RequestStream, mut reply: CallReply) -> CallFuture {
        let (alive, path) = (self.alive.clone(), String::from_utf8_lossy(head.path()).into_owned());
        Box::pin(async move {
            let _alive = alive;
            while let Ok(Some(message)) = requests.next().await {
                let answer = EncodedMessage(vec![message.clone(), message]);
                if let Err(ClientGone) = reply.send(vec![answer]).await {
                    return;
                }
            }
            match path.as_str() {
                "/silent" => {}
                "/full" => reply.not_taken(&Failure::from(api::Error::NotTaken)),
                _ => reply.finish(Err(&Failure::new(Code::NotFound, path))),
            }
        })
    }
}

fn begin(path: &str, messages: Vec<Result<Bytes, Failure>>, ends: bool) -> (LocalCall, Arc<()>) {
    let alive = Arc::default();
    let echo = Echo { alive: Arc::clone(&alive) };
    let rest = if ends { stream::empty().left_stream() } else { stream::pending().right_stream() };
    let requests = Box::pin(stream::iter(messages).chain(rest));
    let head = RequestHead::of_call(path, []);
    (LocalCall::begin(&echo, &head, requests, AnswerRoom::default()), alive)
}

/// Makes one long range for each of its two halves, and holds them.
struct TwoRanges;

impl GrpcService for TwoRanges {
    fn max_message_bytes(&self) -> usize {
        usize::MAX
    }

    fn call(&self, _: &RequestHead, requests: RequestStream, reply: CallReply) -> CallFuture {
        Box::pin(async move {
            let _first = requests.into_room().admit_range(1).await;
            let _second = reply.room().admit_range(1).await;
        })
    }
}

#[test]
fn ranges_of_calls_wait_for_others_of_their_connection() {
    let room = BodyRoom::of(ConnectionHandle::silent().stream(1)).ranges();
    let begin = |room| {
        let requests = Box::pin(stream::empty());
        LocalCall::begin(&TwoRanges, &RequestHead::of_call("/", []), requests, room)
    };
    assert!(poll(&mut begin(room.clone())).is_pending(), "the second one waits for the first");
    assert!(poll(&mut begin(AnswerRoom::default())).is_ready(), "without a connection none waits");
    let mut waits = begin(room.clone());
    assert!(poll(&mut waits).is_pending());
    assert_eq!(room.waiting_ranges(), 1);
    drop(waits);
    assert_eq!(room.waiting_ranges(), 0);
}

fn poll(call: &mut LocalCall) -> Poll<Option<Result<Bytes, Failure>>> {
    call.poll_next(&mut Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn a_call_that_is_not_taken_fails() {
    let (mut call, _) = begin("/full", Vec::new(), true);
    assert_eq!(poll(&mut call), Poll::Ready(Some(Err(Failure::from(api::Error::NotTaken)))));
}

#[test]
fn messages_are_answered_in_order_and_then_the_status_once() {
    let (mut call, _) = begin("/a", vec![Ok("x".into()), Ok("y".into())], true);
    assert_eq!(poll(&mut call), Poll::Ready(Some(Ok("xx".into()))));
    assert_eq!(poll(&mut call), Poll::Ready(Some(Ok("yy".into()))));
    assert_eq!(poll(&mut call), Poll::Ready(Some(Err(Failure::new(Code::NotFound, "/a")))));
    assert_eq!(poll(&mut call), Poll::Ready(None));
}

#[test]
fn a_call_that_says_nothing_fails() {
    let (mut call, alive) = begin("/silent", vec![], true);
    assert!(matches!(poll(&mut call), Poll::Ready(Some(Err(Failure { code: Code::Internal, .. })))));
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_caller_that_goes_takes_the_call_with_it() {
    let (mut call, alive) = begin("/a", vec![Ok("x".into())], false);
    assert_eq!(poll(&mut call), Poll::Ready(Some(Ok("xx".into()))));
    assert!(poll(&mut call).is_pending());
    assert_eq!(Arc::strong_count(&alive), 2);
    drop(call);
    assert_eq!(Arc::strong_count(&alive), 1);
}
