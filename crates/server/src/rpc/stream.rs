//! The two halves of a streaming call: requests to pull, responses to push.
//!
//! Responses go through a channel with room for a few messages only: a client that does not read stops its handler,
//! not the server's memory.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;
use tonic::Status;

use super::counted::Underway;
use super::{Encoded, Failure};

/// Messages that may wait between a handler and its connection. Small: what waits here can no longer be coalesced.
const RESPONSES_WAITING: usize = 4;

/// The client's messages.
pub(super) struct Requests(tonic::Streaming<Bytes>);

impl Requests {
    pub(super) fn new(inner: tonic::Streaming<Bytes>) -> Requests {
        Requests(inner)
    }

    /// The next message; `None` when the client has no more, though it may still listen.
    ///
    /// # Errors
    /// When the client broke the protocol, or is gone.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        Ok(self.0.message().await?)
    }
}

/// The server's messages, as the connection pulls them.
pub(super) struct Responses {
    messages: mpsc::Receiver<Result<Encoded, Failure>>,
    underway: Option<Underway>,
}

/// The handler's end of [`Responses`].
#[derive(Clone)]
pub(super) struct Sink(mpsc::Sender<Result<Encoded, Failure>>);

/// The client went away; the handler ends.
#[derive(Debug)]
pub(super) struct Gone;

/// A new response stream and its sink.
pub(super) fn responses() -> (Sink, Responses) {
    let (sender, receiver) = mpsc::channel(RESPONSES_WAITING);
    (Sink(sender), Responses { messages: receiver, underway: None })
}

impl Sink {
    /// Sends one message, waiting for room.
    pub(super) async fn send(&self, message: Encoded) -> Result<(), Gone> {
        self.0.send(Ok(message)).await.map_err(|_| Gone)
    }

    /// Ends the stream with a status.
    pub(super) async fn fail(&self, failure: Failure) {
        // A client that is gone does not need to hear it.
        let _ = self.0.send(Err(failure)).await;
    }

    /// Completes when the client has gone.
    pub(super) async fn gone(&self) {
        self.0.closed().await;
    }
}

impl Responses {
    /// Counts the messages and the end of this stream.
    pub(super) fn counted_by(self, underway: Underway) -> Responses {
        Responses { underway: Some(underway), ..self }
    }

    fn count(&mut self, next: Option<&Result<Encoded, Failure>>) {
        let Some(underway) = &mut self.underway else { return };
        match next {
            Some(Ok(_)) => underway.sent(),
            Some(Err(failure)) => underway.ended(Err(failure)),
            None => underway.ended(Ok(())),
        }
    }
}

impl Stream for Responses {
    type Item = Result<Encoded, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.messages.poll_recv(context));
        self.count(next.as_ref());
        Poll::Ready(next.map(|message| message.map_err(Status::from)))
    }
}
