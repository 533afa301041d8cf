//! The client's half of a call: its messages.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use api::Code;
use bytes::Bytes;

use super::failure::Failure;
use super::handle::StreamHandle;
use super::messages::MessageDecoder;

/// Texts for calls with a wrong number of messages: grpc-go's.
const NONE: &str = "cardinality violation: received no request message from non-client-streaming RPC";
const SEVERAL: &str =
    "cardinality violation: received multiple request messages for non-client-streaming RPC";

/// The client's messages.
pub(crate) struct RequestStream {
    stream: StreamHandle,
    messages: MessageDecoder,
}

impl RequestStream {
    pub(super) fn new(stream: StreamHandle, messages: MessageDecoder) -> RequestStream {
        RequestStream { stream, messages }
    }

    /// The next message; `None` when the client has no more, though it may still listen.
    ///
    /// # Errors
    /// When the client broke the protocol, or is gone. Nothing can be asked after that.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The message of a call that has just one.
    ///
    /// # Errors
    /// As [`RequestStream::next`]; and when there is none, or another.
    pub(crate) async fn only(&mut self) -> Result<Bytes, Failure> {
        let Some(message) = self.next().await? else { return Err(Failure::new(Code::Internal, NONE)) };
        if self.messages.is_between() && self.stream.is_finished() {
            return Ok(message);
        }
        match self.next().await? {
            None => Ok(message),
            Some(_) => Err(Failure::new(Code::Internal, SEVERAL)),
        }
    }

    /// [`RequestStream::next`], by polling.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            if let Some(message) = self.messages.next()? {
                return Poll::Ready(Ok(Some(message)));
            }
            match ready!(self.stream.poll_data(context)) {
                // What is not complete is limited by its length, so the window, which this opens, need not limit it.
                Ok(data) if !data.is_empty() => self.messages.push(data),
                Ok(_) if self.messages.is_between() => return Poll::Ready(Ok(None)),
                Ok(_) => return Poll::Ready(Err(Failure::new(Code::Internal, "unexpected EOF"))),
                Err(_) => return Poll::Ready(Err(Failure::new(Code::Canceled, "context canceled"))),
            }
        }
    }
}
