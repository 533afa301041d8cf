//! The server's half of a call: headers, messages, trailers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, StatusCode};

use super::failure::Failure;
use super::frames::{EncodedMessage, frames, joined, prefix};
use super::head;

/// The way back to a client. Dropping it without an end resets the call.
pub(crate) struct CallReply {
    respond: SendResponse<Bytes>,
    stream: Option<SendStream<Bytes>>,
}

/// The client has gone; an answer would have no receiver.
#[derive(Debug)]
pub(crate) struct ClientGone;

impl From<h2::Error> for ClientGone {
    fn from(_: h2::Error) -> ClientGone {
        ClientGone
    }
}

impl CallReply {
    pub(super) fn new(respond: SendResponse<Bytes>) -> CallReply {
        CallReply { respond, stream: None }
    }

    /// Awaits `work`; drops it if the client goes first.
    pub(crate) async fn unless_gone<T>(&mut self, work: impl Future<Output = T>) -> Result<T, ClientGone> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => self.poll_gone(context).map(Err),
        })
        .await
    }

    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<ClientGone> {
        let reset = match &mut self.stream {
            None => self.respond.poll_reset(context),
            Some(stream) => stream.poll_reset(context),
        };
        reset.map(|_| ClientGone)
    }

    /// Answers with one message, and ends the call. The whole message is given to the connection, which sends it as the
    /// client's window allows.
    pub(crate) fn answer(mut self, message: EncodedMessage) {
        // Whether the client still listens does not matter any more.
        let _ = self.try_answer(message);
    }

    fn try_answer(&mut self, message: EncodedMessage) -> Result<(), ClientGone> {
        let stream = self.begun()?;
        for data in frames(message) {
            stream.send_data(data, false)?;
        }
        Ok(stream.send_trailers(ended(Ok(())))?)
    }

    /// Begins a stream of messages: sends the headers of success.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn begin(&mut self) -> Result<(), ClientGone> {
        self.begun().map(drop)
    }

    /// Sends some messages of a stream, as fast as the client takes them.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) async fn send(&mut self, messages: Vec<EncodedMessage>) -> Result<(), ClientGone> {
        let stream = self.begun()?;
        for data in joined(messages) {
            send_in_window(stream, data).await?;
        }
        Ok(())
    }

    /// Begins one message of so many bytes. They follow with [`CallReply::continue_message`].
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn begin_message(&mut self, length: usize) -> Result<(), ClientGone> {
        Ok(self.begun()?.send_data(prefix(length), false)?)
    }

    /// Gives the next bytes of a message to the connection, which sends them as the client's window allows.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn continue_message(&mut self, part: Bytes) -> Result<(), ClientGone> {
        Ok(self.begun()?.send_data(part, false)?)
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

    fn begun(&mut self) -> Result<&mut SendStream<Bytes>, ClientGone> {
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
pub(super) async fn send_in_window(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
) -> Result<(), ClientGone> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let mut room = stream.capacity();
        if room == 0 {
            room = match poll_fn(|context| stream.poll_capacity(context)).await {
                Some(room) => room?,
                None => return Err(ClientGone),
            };
        }
        stream.send_data(data.split_to(room.min(data.len())), false)?;
    }
    Ok(())
}
