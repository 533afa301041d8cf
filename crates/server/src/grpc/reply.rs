//! The server's half of a call: headers, messages, trailers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, StatusCode};

use super::joined::joined;
use super::messages::{frames, prefix};
use super::{Encoded, Failure, head};

/// The way back to a client. Dropping it without an end resets the call.
pub(crate) struct Reply {
    respond: SendResponse<Bytes>,
    stream: Option<SendStream<Bytes>>,
}

/// The client went away; there is nobody to answer.
#[derive(Debug)]
pub(crate) struct Gone;

impl From<h2::Error> for Gone {
    fn from(_: h2::Error) -> Gone {
        Gone
    }
}

impl Reply {
    pub(super) fn new(respond: SendResponse<Bytes>) -> Reply {
        Reply { respond, stream: None }
    }

    /// Does `work`, unless the client goes first: then it is dropped, and there is nothing to answer.
    pub(crate) async fn unless_gone<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Gone> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => self.poll_gone(context).map(Err),
        })
        .await
    }

    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<Gone> {
        let reset = match &mut self.stream {
            None => self.respond.poll_reset(context),
            Some(stream) => stream.poll_reset(context),
        };
        reset.map(|_| Gone)
    }

    /// Answers with one message, and ends the call. All of it is handed to the connection, which sends it as the client
    /// lets it.
    pub(crate) fn answer(mut self, message: Encoded) {
        // Whether the client still listens does not matter any more.
        let _ = self.try_answer(message);
    }

    fn try_answer(&mut self, message: Encoded) -> Result<(), Gone> {
        let stream = self.begun()?;
        for data in frames(message) {
            stream.send_data(data, false)?;
        }
        Ok(stream.send_trailers(ended(Ok(())))?)
    }

    /// Begins a stream of messages: the client hears that it was let in.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn begin(&mut self) -> Result<(), Gone> {
        self.begun().map(drop)
    }

    /// Sends some messages of a stream, as fast as the client takes them.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) async fn send(&mut self, messages: Vec<Encoded>) -> Result<(), Gone> {
        let stream = self.begun()?;
        for data in joined(messages) {
            send_paced(stream, data).await?;
        }
        Ok(())
    }

    /// Begins one message of so many bytes. They follow with [`Reply::continue_message`].
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn begin_message(&mut self, length: usize) -> Result<(), Gone> {
        Ok(self.begun()?.send_data(prefix(length), false)?)
    }

    /// Hands the next bytes of a message to the connection, which sends them as the client lets it.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn continue_message(&mut self, piece: Bytes) -> Result<(), Gone> {
        Ok(self.begun()?.send_data(piece, false)?)
    }

    /// Ends the call.
    pub(crate) fn finish(mut self, result: Result<(), &Failure>) {
        // As above: a client that is gone does not need to hear it.
        let _ = match &mut self.stream {
            Some(stream) => stream.send_trailers(ended(result)),
            None => self.end_at_once(StatusCode::OK, result),
        };
    }

    /// Refuses the call with another HTTP status than success.
    pub(super) fn refuse(mut self, status: StatusCode, failure: &Failure) {
        let _ = self.end_at_once(status, Err(failure));
    }

    /// Answers with headers that are trailers too.
    fn end_at_once(&mut self, status: StatusCode, result: Result<(), &Failure>) -> Result<(), h2::Error> {
        let mut answer = head::answer(status);
        head::end(answer.headers_mut(), result);
        self.respond.send_response(answer, true).map(drop)
    }

    fn begun(&mut self) -> Result<&mut SendStream<Bytes>, Gone> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.respond.send_response(head::answer(StatusCode::OK), false)?,
        };
        Ok(self.stream.insert(stream))
    }
}

fn ended(result: Result<(), &Failure>) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    head::end(&mut trailers, result);
    trailers
}

/// Sends bytes as the client's window allows, keeping what it does not.
pub(super) async fn send_paced(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), Gone> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let mut room = stream.capacity();
        if room == 0 {
            room = match poll_fn(|context| stream.poll_capacity(context)).await {
                Some(room) => room?,
                None => return Err(Gone),
            };
        }
        stream.send_data(data.split_to(room.min(data.len())), false)?;
    }
    Ok(())
}
