//! Calls that begin in this process: the JSON gateway makes them of HTTP requests.
//!
//! A [`LocalCall`] is to a [`GrpcService`] what a call over a connection is: the same head, messages and answers,
//! without HTTP/2 between them. It has no task. Its caller polls it by asking for the next answer, and cancels it by
//! dropping it.

pub(super) mod answers;

use std::future::poll_fn;
use std::task::{Context, Poll};

use api::Code;
use bytes::Bytes;
use http2::RequestHead;

use self::answers::LocalAnswers;
use super::failure::Failure;
use super::reply::CallReply;
use super::request::{LocalRequests, RequestStream};
use super::service::{CallFuture, GrpcService};

/// A call, and the way back from it.
pub(crate) struct LocalCall {
    /// Until it has run to its end.
    call: Option<CallFuture>,
    answers: LocalAnswers,
    has_ended: bool,
}

impl LocalCall {
    /// Begins a call. `head` is made with [`RequestHead::of_call`]; the messages are asked for while the call is
    /// polled.
    pub(crate) fn begin(
        service: &impl GrpcService,
        head: &RequestHead,
        requests: LocalRequests,
    ) -> LocalCall {
        let answers = LocalAnswers::default();
        let reply = CallReply::local(answers.clone());
        let call = service.call(head, RequestStream::local(requests), reply);
        LocalCall { call: Some(call), answers, has_ended: false }
    }

    /// The next message of the answer; `None` at its end, which comes once. Nothing is lost if this is dropped.
    ///
    /// # Errors
    /// The status with which the call failed; nothing follows it.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            if let Some(message) = self.answers.take() {
                return Poll::Ready(Some(Ok(message)));
            }
            let Some(call) = &mut self.call else { return Poll::Ready(self.end()) };
            match call.as_mut().poll(context) {
                Poll::Ready(()) => self.call = None,
                // It has answered, and waits until that is taken.
                Poll::Pending if self.answers.poll_taken().is_pending() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// How the call ended, once.
    fn end(&mut self) -> Option<Result<Bytes, Failure>> {
        if std::mem::replace(&mut self.has_ended, true) {
            return None;
        }
        match self.answers.ended() {
            Some(result) => result.err().map(Err),
            // A handler that stops without a word: over a connection its stream would be reset.
            None => Some(Err(Failure::new(Code::Internal, "the call ended without a status"))),
        }
    }
}

#[cfg(test)]
mod tests {
    //! A call hears its messages, answers in order, does not run ahead, and is dropped with its caller.
    use std::sync::Arc;

    use futures_util::{StreamExt, stream};

    use super::*;
    use crate::grpc::{ClientGone, EncodedMessage};

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
        (LocalCall::begin(&echo, &RequestHead::of_call(path, []), requests), alive)
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
}
