//! The two halves of a streaming call: requests to pull, responses to push.
//!
//! Responses go through a channel with room for a few messages only: a client that does not read stops its handler,
//! not the server's memory.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::counted::Counted;
use super::{Encoded, Failure};
use crate::grpc;

/// Messages that may wait between a handler and its connection. Small: what waits here can no longer be coalesced.
const RESPONSES_WAITING: usize = 4;

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

/// The server's messages, as the connection pulls them.
pub(super) struct Responses(mpsc::Receiver<Result<Encoded, Failure>>);

/// The handler's end of [`Responses`].
#[derive(Clone)]
pub(super) struct Sink(mpsc::Sender<Result<Encoded, Failure>>);

/// The client went away; the handler ends.
#[derive(Debug)]
pub(super) struct Gone;

/// A new response stream and its sink.
pub(super) fn responses() -> (Sink, Responses) {
    let (sender, receiver) = mpsc::channel(RESPONSES_WAITING);
    (Sink(sender), Responses(receiver))
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
    /// The next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Encoded, Failure>> {
        self.0.recv().await
    }
}
