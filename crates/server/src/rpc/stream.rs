//! The two halves of a streaming call: requests to pull, responses to push.
//!
//! A handler of such a call has no task of its own. It is a future that runs inside its [`Responses`], whenever the
//! connection wants more of them: nothing crosses a channel or wakes another task, what a handler has to say at once
//! leaves in one piece, and a client that does not read stops its handler, not the server's memory. A client that goes
//! away drops it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;

use super::counted::Counted;
use super::{Encoded, Failure};
use crate::grpc;

/// Bytes of messages that a handler may have ahead of its connection, one message beyond it: as much as the connection
/// puts into one piece.
const AHEAD_BYTES: usize = 32 << 10;

/// The client's messages.
pub(super) struct Requests {
    inner: grpc::Requests,
    counted: Counted,
}

impl Requests {
    /// The messages of a call, each counted.
    pub(super) fn new(inner: grpc::Requests, counted: Counted) -> Requests {
        Requests { inner, counted }
    }

    /// The next message; `None` when the client has no more, though it may still listen.
    ///
    /// # Errors
    /// When the client broke the protocol, or is gone.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let message = self.inner.next().await?;
        if message.is_some() {
            self.counted.received();
        }
        Ok(message)
    }
}

/// The server's messages, as the connection pulls them, and the handler they come from.
pub(super) struct Responses {
    handler: Handler,
    ahead: Arc<Mutex<Ahead>>,
}

/// Where a handler is.
enum Handler {
    Running(Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>),
    /// It is through; how, until that is told.
    Ended(Result<(), Failure>),
}

/// Messages between a handler and its connection.
#[derive(Default)]
struct Ahead {
    messages: Vec<Encoded>,
    bytes: usize,
}

/// The handler's end of [`Responses`].
pub(super) struct Sink(Arc<Mutex<Ahead>>);

impl Sink {
    /// Sends one message, waiting for room. To be awaited by the handler itself, not through anything that polls only
    /// what was woken: room is made by the connection, which then runs the handler again.
    pub(super) async fn send(&self, message: Encoded) {
        poll_fn(|_| match self.0.lock().bytes < AHEAD_BYTES {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        let mut ahead = self.0.lock();
        ahead.bytes += message.len();
        ahead.messages.push(message);
    }
}

impl Responses {
    /// What `handler` sends until it ends; its failure is the status of the call.
    pub(super) fn of<F>(handler: impl FnOnce(Sink) -> F) -> Responses
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let ahead = Arc::<Mutex<Ahead>>::default();
        let handler = Handler::Running(Box::pin(handler(Sink(ahead.clone()))));
        Responses { handler, ahead }
    }

    /// The next messages, at least one, or the failure; `None` at the end. Runs the handler as far as it goes.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<Encoded>, Failure>> {
        poll_fn(|context| self.poll_messages(context)).await
    }

    fn poll_messages(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<Encoded>, Failure>>> {
        if let Handler::Running(handler) = &mut self.handler
            && let Poll::Ready(result) = handler.as_mut().poll(context)
        {
            self.handler = Handler::Ended(result);
        }
        let Ahead { messages, .. } = std::mem::take(&mut *self.ahead.lock());
        match &mut self.handler {
            _ if !messages.is_empty() => Poll::Ready(Some(Ok(messages))),
            Handler::Running(_) => Poll::Pending,
            Handler::Ended(result) => Poll::Ready(std::mem::replace(result, Ok(())).err().map(Err)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! A handler runs when it is asked, stops when nobody takes, and its last words go before its end.
    use super::*;

    fn poll(responses: &mut Responses) -> Poll<Option<Result<Vec<Encoded>, Failure>>> {
        responses.poll_messages(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn message(bytes: usize) -> Encoded {
        Encoded(vec![vec![0; bytes].into()])
    }

    #[test]
    fn messages_go_together_in_order_and_before_the_failure() {
        let mut responses = Responses::of(|sink| async move {
            sink.send(message(1)).await;
            sink.send(message(2)).await;
            Err(Failure::unexpected())
        });
        let Poll::Ready(Some(Ok(messages))) = poll(&mut responses) else { panic!("messages") };
        assert_eq!(messages.iter().map(Encoded::len).collect::<Vec<_>>(), [1, 2]);
        let Poll::Ready(Some(Err(failure))) = poll(&mut responses) else { panic!("the failure") };
        assert_eq!(failure, Failure::unexpected());
        assert!(matches!(poll(&mut responses), Poll::Ready(None)));
    }

    #[test]
    fn a_handler_does_not_run_ahead_of_its_connection() {
        let mut responses = Responses::of(|sink| async move {
            loop {
                sink.send(message(AHEAD_BYTES - 1)).await;
            }
        });
        for _ in 0..3 {
            let Poll::Ready(Some(Ok(messages))) = poll(&mut responses) else { panic!("messages") };
            assert_eq!(messages.len(), 2, "the second goes beyond the limit, a third would begin there");
        }
    }

    #[test]
    fn a_handler_that_waits_leaves_its_connection_waiting() {
        let mut responses = Responses::of(|sink| async move {
            sink.send(message(1)).await;
            std::future::pending::<()>().await;
            Ok(())
        });
        assert!(matches!(poll(&mut responses), Poll::Ready(Some(Ok(_)))));
        assert!(poll(&mut responses).is_pending());
    }
}
