//! The limit of a message's size, enforced where its length arrives: before anything of it is kept.
//!
//! tonic has such a limit too, but refuses with another code than every other gRPC server. This body looks at the five
//! bytes before each message and ends with the status that etcd's clients know.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

/// Bytes before a message: a flag and its length.
const PREFIX_BYTES: usize = 5;

/// A request's body in which no message is larger than a limit.
pub(super) struct Limited<B> {
    body: B,
    messages: Messages,
}

impl<B> Limited<B> {
    /// Limits the messages of `body` to `max_bytes`.
    pub(super) fn new(body: B, max_bytes: usize) -> Limited<B> {
        Limited { body, messages: Messages { max_bytes, prefix: Vec::new(), left: 0 } }
    }
}

/// Where in the sequence of messages the body is.
struct Messages {
    max_bytes: usize,
    /// What has arrived of the next message's prefix.
    prefix: Vec<u8>,
    /// Bytes of the present message that are still to come.
    left: usize,
}

impl Messages {
    /// Follows the body over the next bytes.
    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(bytes.len());
                self.left -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            let taken = (PREFIX_BYTES - self.prefix.len()).min(bytes.len());
            self.prefix.extend(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let [_flag, a, b, c, d] = self.prefix[..] {
                self.left = self.check(u32::from_be_bytes([a, b, c, d]) as usize)?;
                self.prefix.clear();
            }
        }
        Ok(())
    }

    fn check(&self, length: usize) -> Result<usize, Status> {
        let max = self.max_bytes;
        if length <= max {
            return Ok(length);
        }
        Err(Status::resource_exhausted(format!(
            "grpc: received message larger than max ({length} vs. {max})"
        )))
    }
}

impl<B> Body for Limited<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(frame) = std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let checked = frame.map_err(Into::into).and_then(|frame| {
            let data = frame.data_ref().map_or(&[][..], |data| data);
            self.messages.pass(data)?;
            Ok(frame)
        });
        Poll::Ready(Some(checked))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of `length` bytes behind its prefix.
    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend((length as u32).to_be_bytes());
        bytes.resize(PREFIX_BYTES + length, 7);
        bytes
    }

    #[test]
    fn messages_are_found_however_the_body_is_cut() {
        let good: Vec<u8> = [3, 0, 10, 1].into_iter().flat_map(message).collect();
        for cut in 1..=good.len() {
            let mut messages = Messages { max_bytes: 10, prefix: Vec::new(), left: 0 };
            for part in good.chunks(cut) {
                messages.pass(part).expect("none is larger than the limit");
            }
            let refused = message(11).chunks(cut).find_map(|part| messages.pass(part).err());
            let status = refused.expect("one byte more than the limit");
            assert_eq!(status.code(), tonic::Code::ResourceExhausted);
            assert_eq!(status.message(), "grpc: received message larger than max (11 vs. 10)");
        }
    }

    #[test]
    fn the_prefix_is_enough_to_refuse() {
        let mut messages = Messages { max_bytes: 10, prefix: Vec::new(), left: 0 };
        assert!(messages.pass(&[0, 0xff, 0xff, 0xff]).is_ok());
        assert!(messages.pass(&[0xff]).is_err());
    }
}
