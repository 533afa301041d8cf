//! Calls that begin in this process: the JSON gateway makes them of HTTP requests.
//!
//! A [`LocalCall`] is to a [`GrpcService`] what a call over a connection is: the same head, messages and answers,
//! without HTTP/2 between them. It has no task. Its caller polls it by asking for the next answer, and cancels it by
//! dropping it.

pub(super) mod answers;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::task::{Context, Poll};

use api::Code;
use bytes::Bytes;
use http2::RequestHead;

use self::answers::LocalAnswers;
use super::failure::Failure;
use super::reply::CallReply;
use super::request::{LocalRequests, RequestStream};
use super::room::AnswerRoom;
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
    /// polled. It waits for `room` as a call over a connection does.
    pub(crate) fn begin(
        service: &impl GrpcService,
        head: &RequestHead,
        requests: LocalRequests,
        room: AnswerRoom,
    ) -> LocalCall {
        let answers = LocalAnswers::default();
        let reply = CallReply::local(answers.clone(), room.clone());
        let call = service.call(head, RequestStream::local(requests, room), reply);
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
