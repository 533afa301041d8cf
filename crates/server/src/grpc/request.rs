//! The client's half of a call: its messages.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use api::Code;
use bytes::Bytes;
use futures_util::Stream;

use super::failure::Failure;
use super::handle::{Arrived, StreamHandle};
use super::messages::{FoundMessage, MessageDecoder, PREFIX_BYTES, decompressed};
use super::room::AnswerRoom;

/// Texts for calls with a wrong number of messages: grpc-go's.
const NONE: &str = "cardinality violation: received no request message from non-client-streaming RPC";
const SEVERAL: &str =
    "cardinality violation: received multiple request messages for non-client-streaming RPC";

/// The end of the client's half inside a message.
const UNEXPECTED_EOF: &str = "unexpected EOF";

/// The messages of a call that begins in this process.
pub(crate) type LocalRequests = Pin<Box<dyn Stream<Item = Result<Bytes, Failure>> + Send>>;

/// The client's messages.
pub(crate) struct RequestStream {
    source: RequestSource,
    /// The messages are encoded in a way that is not served.
    refusal: Option<Failure>,
}

/// Where messages come from.
enum RequestSource {
    /// The DATA of a stream.
    Http2 { stream: StreamHandle, messages: MessageDecoder, decompressing: Option<Decompressing> },
    /// This process.
    Local { requests: LocalRequests, room: AnswerRoom },
}

/// A message that is decompressed elsewhere.
type Decompressing = Pin<Box<dyn Future<Output = Result<Bytes, Failure>> + Send>>;

impl RequestStream {
    pub(super) fn new(
        stream: StreamHandle,
        messages: MessageDecoder,
        refusal: Option<Failure>,
    ) -> RequestStream {
        RequestStream { source: RequestSource::Http2 { stream, messages, decompressing: None }, refusal }
    }

    pub(super) fn local(requests: LocalRequests, room: AnswerRoom) -> RequestStream {
        RequestStream { source: RequestSource::Local { requests, room }, refusal: None }
    }

    /// Whether the messages can be read, which is to be asked before anything is answered. As in grpc-go, it is asked
    /// once the method is found.
    ///
    /// # Errors
    /// When their encoding is not served.
    pub(crate) fn supported(&self) -> Result<(), Failure> {
        self.refusal.clone().map_or(Ok(()), Err)
    }

    /// The message of a call in which neither side streams. As in grpc-go, what follows it is not looked at, and the
    /// client need not have ended its half.
    ///
    /// # Errors
    /// As [`RequestStream::next`], in the words and with the codes of such calls; and when there is none.
    pub(crate) async fn first(&mut self) -> Result<Bytes, Failure> {
        match self.next().await {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(Failure::new(Code::Unknown, "EOF")),
            Err(failure) if failure.message == UNEXPECTED_EOF => {
                Err(Failure { code: Code::Unknown, ..failure })
            }
            Err(failure) => Err(failure),
        }
    }

    /// The next message; `None` when the client has no more, though it may still listen.
    ///
    /// # Errors
    /// When the client broke the protocol, or is gone. Nothing can be asked after that.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The message of a call whose client sends just one, while the server streams.
    ///
    /// # Errors
    /// As [`RequestStream::next`]; and when there is none, or another.
    pub(crate) async fn only(&mut self) -> Result<Bytes, Failure> {
        let Some(message) = self.next().await? else { return Err(Failure::new(Code::Internal, NONE)) };
        if let RequestSource::Http2 { stream, messages, .. } = &self.source
            && messages.is_between()
            && stream.is_finished()
        {
            return Ok(message);
        }
        match self.next().await? {
            None => Ok(message),
            Some(_) => Err(Failure::new(Code::Internal, SEVERAL)),
        }
    }

    /// Room for the answer, when no more requests are read.
    pub(crate) fn into_room(self) -> AnswerRoom {
        match self.source {
            RequestSource::Http2 { stream, .. } => AnswerRoom::of(stream),
            RequestSource::Local { room, .. } => room,
        }
    }

    /// [`RequestStream::next`], by polling.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        match &mut self.source {
            RequestSource::Http2 { stream, messages, decompressing } => {
                poll_message(stream, messages, decompressing, context)
            }
            RequestSource::Local { requests, .. } => {
                requests.as_mut().poll_next(context).map(Option::transpose)
            }
        }
    }
}

/// The next message of a stream.
fn poll_message(
    stream: &StreamHandle,
    messages: &mut MessageDecoder,
    decompressing: &mut Option<Decompressing>,
    context: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, Failure>> {
    loop {
        if let Some(work) = decompressing {
            let Poll::Ready(message) = work.as_mut().poll(context) else { return Poll::Pending };
            *decompressing = None;
            return Poll::Ready(message.map(Some));
        }
        match messages.next()? {
            Some(FoundMessage::Plain(message)) => return Poll::Ready(Ok(Some(message))),
            Some(FoundMessage::Compressed(message)) => {
                *decompressing = Some(Box::pin(decompressed(message, messages.max_bytes())));
                continue;
            }
            None => {}
        }
        match stream.poll_messages(context, |unread| messages.arrival(unread)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(Arrived::Messages(data)))) => messages.push(data),
            // As in grpc-go, an incomplete prefix is no message.
            Ok(Poll::Ready(Ok(Arrived::End(..PREFIX_BYTES)))) => return Poll::Ready(Ok(None)),
            Ok(Poll::Ready(Ok(Arrived::End(_)))) => {
                return Poll::Ready(Err(Failure::new(Code::Internal, UNEXPECTED_EOF)));
            }
            Ok(Poll::Ready(Err(failure))) => return Poll::Ready(Err(failure)),
            Err(_) => return Poll::Ready(Err(Failure::new(Code::Canceled, "context canceled"))),
        }
    }
}
