//! What a call has answered to a caller in this process, and the caller has not taken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use crate::grpc::failure::Failure;
use crate::grpc::messages::EncodedMessage;

/// Shared by a call's [`CallReply`](crate::grpc::CallReply), which fills it, and its caller. Nothing is woken: the call
/// runs only inside of its caller's poll.
#[derive(Clone, Default)]
pub(in crate::grpc) struct LocalAnswers(Arc<Mutex<Answered>>);

#[derive(Default)]
struct Answered {
    messages: VecDeque<EncodedMessage>,
    ended: Option<Result<(), Failure>>,
}

impl LocalAnswers {
    pub(in crate::grpc) fn push(&self, message: EncodedMessage) {
        self.0.lock().messages.push_back(message);
    }

    pub(in crate::grpc) fn end(&self, result: Result<(), Failure>) {
        self.0.lock().ended = Some(result);
    }

    /// Waits until the caller has taken all messages: a call does not run ahead of its caller.
    pub(in crate::grpc) fn poll_taken(&self) -> Poll<()> {
        if self.0.lock().messages.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The next message.
    pub(super) fn take(&self) -> Option<Bytes> {
        let EncodedMessage(mut parts) = self.0.lock().messages.pop_front()?;
        if parts.len() == 1 {
            return parts.pop();
        }
        let mut joined = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
        parts.iter().for_each(|part| joined.extend_from_slice(part));
        Some(joined.freeze())
    }

    /// How the call ended, if it has.
    pub(super) fn ended(&self) -> Option<Result<(), Failure>> {
        self.0.lock().ended.clone()
    }
}
