//! Decodes messages from a stream of bytes: a flag, a length, and so many bytes.
//!
//! A message that is too large is refused when its length arrives, before any of its bytes is kept.

use api::Code;
use bytes::{Buf, Bytes, BytesMut};

use super::failure::Failure;
use super::frames::PREFIX_BYTES;

/// Messages up to this size are copied out of the frame they came in. The frame is a slice of the connection's read
/// buffer, and a few bytes that are kept for long (the key of a watcher) must not keep all of that buffer.
const MAX_COPIED_BYTES: usize = 4096;

/// Finds the messages among the bytes that a client sends.
#[derive(Debug)]
pub(super) struct MessageDecoder {
    max_bytes: usize,
    /// What has arrived and was not returned. An incomplete message is collected in `partial`.
    arrived: Bytes,
    partial: BytesMut,
}

impl MessageDecoder {
    /// Messages of at most `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> MessageDecoder {
        MessageDecoder { max_bytes, arrived: Bytes::new(), partial: BytesMut::new() }
    }

    /// Takes the next bytes of the stream. Before, [`MessageDecoder::next`] has been called until it returned `None`.
    pub(super) fn push(&mut self, data: Bytes) {
        if self.partial.is_empty() {
            self.arrived = data;
        } else {
            self.partial.extend_from_slice(&data);
        }
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// When it is larger than the limit, or compressed.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if !self.partial.is_empty() {
            let length = self.length(&self.partial)?;
            if length.is_none_or(|length| self.partial.len() < PREFIX_BYTES + length) {
                return Ok(None);
            }
            self.arrived = std::mem::take(&mut self.partial).freeze();
        }
        match self.length(&self.arrived)? {
            Some(length) if self.arrived.len() >= PREFIX_BYTES + length => {
                self.arrived.advance(PREFIX_BYTES);
                let message = self.arrived.split_to(length);
                let is_small = message.len() <= MAX_COPIED_BYTES;
                Ok(Some(if is_small { Bytes::copy_from_slice(&message) } else { message }))
            }
            _ => {
                self.partial.extend_from_slice(&std::mem::take(&mut self.arrived));
                Ok(None)
            }
        }
    }

    /// Whether the stream may end here: between two messages.
    pub(super) fn is_between(&self) -> bool {
        self.arrived.is_empty() && self.partial.is_empty()
    }

    /// The length of the message that begins here, once its prefix is there.
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let Some(&[flag, a, b, c, d]) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        match flag {
            0 => {}
            1 => return Err(Failure::new(Code::Internal, COMPRESSED)),
            flag => {
                let text = format!("grpc: received unexpected payload format {flag}");
                return Err(Failure::new(Code::Internal, text));
            }
        }
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let max = self.max_bytes;
        if length > max {
            let text = format!("grpc: received message larger than max ({length} vs. {max})");
            return Err(Failure::new(Code::ResourceExhausted, text));
        }
        Ok(Some(length))
    }
}

/// A message says it is compressed, in a call that did not say how.
const COMPRESSED: &str = "grpc: compressed flag set with identity or empty encoding";

#[cfg(test)]
mod tests {
    //! Messages are found however the stream is cut, and refused before they are kept.
    use super::*;

    /// A message of `length` bytes behind its prefix.
    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend((length as u32).to_be_bytes());
        bytes.resize(PREFIX_BYTES + length, 7);
        bytes
    }

    /// Lengths of the messages found in `parts`, and how the stream failed, if it did.
    fn found<'a>(max: usize, parts: impl Iterator<Item = &'a [u8]>) -> (Vec<usize>, Option<Failure>) {
        let mut messages = MessageDecoder::new(max);
        let mut lengths = Vec::new();
        for part in parts {
            messages.push(Bytes::copy_from_slice(part));
            loop {
                match messages.next() {
                    Ok(Some(message)) => lengths.push(message.len()),
                    Ok(None) => break,
                    Err(failure) => return (lengths, Some(failure)),
                }
            }
        }
        assert!(messages.is_between(), "nothing is left over");
        (lengths, None)
    }

    #[test]
    fn messages_are_found_however_the_stream_is_cut() {
        let good: Vec<u8> = [3, 0, 10, 1].into_iter().flat_map(message).collect();
        for cut in 1..=good.len() {
            assert_eq!(found(10, good.chunks(cut)), (vec![3, 0, 10, 1], None));
            let too_large = [&good[..], &message(11)].concat();
            let (lengths, failure) = found(10, too_large.chunks(cut));
            assert_eq!(lengths, [3, 0, 10, 1]);
            let text = "grpc: received message larger than max (11 vs. 10)";
            assert_eq!(failure, Some(Failure::new(Code::ResourceExhausted, text)));
        }
    }

    #[test]
    fn the_prefix_is_enough_to_refuse() {
        let mut messages = MessageDecoder::new(10);
        messages.push(Bytes::from_static(&[0, 0xff, 0xff, 0xff]));
        assert_eq!(messages.next(), Ok(None));
        messages.push(Bytes::from_static(&[0xff]));
        assert!(messages.next().is_err());
    }

    #[test]
    fn a_large_message_in_one_frame_is_not_copied_and_a_small_one_is() {
        for (length, is_copied) in [(MAX_COPIED_BYTES, true), (MAX_COPIED_BYTES + 1, false)] {
            let frame = Bytes::from(message(length));
            let mut messages = MessageDecoder::new(length);
            messages.push(frame.clone());
            let found = messages.next().expect("good").expect("whole");
            assert_eq!(found.as_ptr() != frame[PREFIX_BYTES..].as_ptr(), is_copied, "{length} bytes");
        }
    }
}
