//! The two halves of a streaming call: requests to pull, responses to push.
//!
//! A handler of such a call has no task of its own. It is a future that runs inside its [`Responses`], whenever the
//! connection polls them. Nothing crosses a channel or wakes another task, and all messages that a handler sends before
//! it waits leave together. When a client does not read, its handler stops, so that no buffer grows. When the client
//! goes, the handler is dropped.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use parking_lot::Mutex;

use super::call_metrics::CallMetrics;
use crate::grpc::{EncodedMessage, Failure, RequestStream};
use crate::overload::ClientAccount;

/// Bytes of messages that a handler may have ahead of its connection, plus one message: about what the connection sends
/// with one write.
const MAX_AHEAD_BYTES: usize = 32 << 10;

/// The client's messages.
pub(super) struct CountedRequests {
    inner: RequestStream,
    metrics: CallMetrics,
    /// If clients have limits.
    account: Option<Arc<ClientAccount>>,
}

impl CountedRequests {
    /// The messages of a call. Each one is counted.
    pub(super) fn new(
        inner: RequestStream,
        metrics: CallMetrics,
        account: Option<Arc<ClientAccount>>,
    ) -> CountedRequests {
        CountedRequests { inner, metrics, account }
    }

    fn received(&self, bytes: usize) {
        self.metrics.received(bytes);
        if let Some(account) = &self.account {
            account.charge(bytes);
        }
    }

    /// The message of a call whose client sends just one.
    ///
    /// # Errors
    /// When the client broke the protocol, or is gone; and when there is none, or another.
    pub(super) async fn only(&mut self) -> Result<Bytes, Failure> {
        let message = self.inner.only().await?;
        self.received(message.len());
        Ok(message)
    }
}

/// The messages; behind a failure there is nothing to be asked for.
impl Stream for CountedRequests {
    type Item = Result<Bytes, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = ready!(self.inner.poll_next(context));
        if let Ok(Some(message)) = &message {
            self.received(message.len());
        }
        Poll::Ready(message.transpose())
    }
}

/// The server's messages, as the connection pulls them, and the handler they come from.
pub(super) struct Responses {
    handler: Handler,
    ahead: Arc<Mutex<ResponseBuffer>>,
}

/// How far a handler is.
enum Handler {
    Running(Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>),
    /// It has ended, with this result until that is returned.
    Ended(Result<(), Failure>),
}

/// Messages between a handler and its connection.
#[derive(Default)]
struct ResponseBuffer {
    messages: Vec<EncodedMessage>,
    bytes: usize,
}

/// The handler's end of [`Responses`].
pub(super) struct ResponseSink(Arc<Mutex<ResponseBuffer>>);

impl ResponseSink {
    /// Waits for room. The handler must await this itself, not through a combinator that polls only woken futures: the
    /// connection makes room and then polls the handler, without a waker.
    pub(super) async fn room(&self) {
        poll_fn(|_| match self.0.lock().bytes < MAX_AHEAD_BYTES {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Sends one message, waiting for [room](Self::room).
    pub(super) async fn send(&self, message: EncodedMessage) {
        self.room().await;
        self.push(message);
    }

    /// Sends one message at once: the handler has waited for [room](Self::room).
    pub(super) fn push(&self, message: EncodedMessage) {
        let mut ahead = self.0.lock();
        ahead.bytes += message.len();
        ahead.messages.push(message);
    }
}

impl Responses {
    /// What `handler` sends until it ends; its failure is the status of the call.
    pub(super) fn of<F>(handler: impl FnOnce(ResponseSink) -> F) -> Responses
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let ahead = Arc::<Mutex<ResponseBuffer>>::default();
        let handler = Handler::Running(Box::pin(handler(ResponseSink(ahead.clone()))));
        Responses { handler, ahead }
    }

    /// The next messages, at least one, or the failure; `None` at the end. Runs the handler as far as it goes.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<EncodedMessage>, Failure>> {
        poll_fn(|context| self.poll_messages(context)).await
    }

    fn poll_messages(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<EncodedMessage>, Failure>>> {
        if let Handler::Running(handler) = &mut self.handler
            && let Poll::Ready(result) = handler.as_mut().poll(context)
        {
            self.handler = Handler::Ended(result);
        }
        let ResponseBuffer { messages, .. } = std::mem::take(&mut *self.ahead.lock());
        match &mut self.handler {
            _ if !messages.is_empty() => Poll::Ready(Some(Ok(messages))),
            Handler::Running(_) => Poll::Pending,
            Handler::Ended(result) => Poll::Ready(std::mem::replace(result, Ok(())).err().map(Err)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! A handler runs when it is polled, stops when its messages are not taken, and its last messages come before its
    //! end.
    use super::*;

    fn poll(responses: &mut Responses) -> Poll<Option<Result<Vec<EncodedMessage>, Failure>>> {
        responses.poll_messages(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn message(bytes: usize) -> EncodedMessage {
        EncodedMessage(vec![vec![0; bytes].into()])
    }

    #[test]
    fn messages_go_together_in_order_and_before_the_failure() {
        let mut responses = Responses::of(|sink| async move {
            sink.send(message(1)).await;
            sink.send(message(2)).await;
            Err(Failure::unexpected())
        });
        let Poll::Ready(Some(Ok(messages))) = poll(&mut responses) else { panic!("messages") };
        assert_eq!(messages.iter().map(EncodedMessage::len).collect::<Vec<_>>(), [1, 2]);
        let Poll::Ready(Some(Err(failure))) = poll(&mut responses) else { panic!("the failure") };
        assert_eq!(failure, Failure::unexpected());
        assert!(matches!(poll(&mut responses), Poll::Ready(None)));
    }

    #[test]
    fn a_handler_does_not_run_ahead_of_its_connection() {
        let mut responses = Responses::of(|sink| async move {
            loop {
                sink.send(message(MAX_AHEAD_BYTES - 1)).await;
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
