//! Decodes messages from a stream of bytes: a flag, a length, and so many bytes.
//!
//! A message that is too large is refused when its length arrives, before any of its bytes is kept.

mod compression;
mod frames;

use api::Code;
use bytes::{Buf, Bytes, BytesMut};

use self::frames::PREFIX_BYTES;
use super::failure::Failure;

pub(super) use self::compression::compressed;
pub(crate) use self::frames::EncodedMessage;
pub(super) use self::frames::{joined, prefix};

/// Messages up to this size are copied if others came with them: a few bytes that are kept for long (the key of a
/// watcher) must not keep all that came in one read.
const MAX_COPIED_BYTES: usize = 4096;

/// Finds the messages among the bytes that a client sends.
#[derive(Debug)]
pub(super) struct MessageDecoder {
    max_bytes: usize,
    /// Messages may be compressed.
    is_gzip: bool,
    /// What has arrived and was not returned. An incomplete message is collected in `partial`.
    arrived: Bytes,
    partial: BytesMut,
}

impl MessageDecoder {
    /// Messages of at most `max_bytes`; with `is_gzip`, each may be compressed.
    pub(super) fn new(max_bytes: usize, is_gzip: bool) -> MessageDecoder {
        MessageDecoder { max_bytes, is_gzip, arrived: Bytes::new(), partial: BytesMut::new() }
    }

    /// Takes the next bytes of the stream. Before, [`MessageDecoder::next`] has been called until it returned `None`.
    pub(super) fn push(&mut self, data: Vec<u8>) {
        if self.partial.is_empty() {
            self.arrived = data.into();
        } else {
            self.partial.extend_from_slice(&data);
        }
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// When it is larger than the limit, or compressed in a way that was not announced.
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
                let is_compressed = self.is_compressed(self.arrived[0])?;
                self.arrived.advance(PREFIX_BYTES);
                let message = self.arrived.split_to(length);
                if is_compressed {
                    return compression::decompressed(&message, self.max_bytes).map(Some);
                }
                let is_copied = message.len() <= MAX_COPIED_BYTES && !self.arrived.is_empty();
                Ok(Some(if is_copied { Bytes::copy_from_slice(&message) } else { message }))
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

    /// Whether the prefix of a message is there, and not all of the message.
    pub(super) fn is_within_message(&self) -> bool {
        self.partial.len() >= PREFIX_BYTES
    }

    /// Whether a message with this flag is compressed.
    fn is_compressed(&self, flag: u8) -> Result<bool, Failure> {
        match flag {
            0 => Ok(false),
            1 if self.is_gzip => Ok(true),
            1 => Err(Failure::new(Code::Internal, COMPRESSED)),
            flag => {
                let text = format!("grpc: received unexpected payload format {flag}");
                Err(Failure::new(Code::Internal, text))
            }
        }
    }

    /// The length of the message that begins here, once its prefix is there.
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let Some(&[_, a, b, c, d]) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
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
        let mut messages = MessageDecoder::new(max, false);
        let mut lengths = Vec::new();
        for part in parts {
            messages.push(part.to_vec());
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
        let mut messages = MessageDecoder::new(10, false);
        messages.push(vec![0, 0xff, 0xff, 0xff]);
        assert_eq!(messages.next(), Ok(None));
        messages.push(vec![0xff]);
        assert!(messages.next().is_err());
    }

    #[test]
    fn only_a_small_message_among_others_is_copied() {
        for (length, behind, is_copied) in
            [(MAX_COPIED_BYTES, 1, true), (MAX_COPIED_BYTES, 0, false), (MAX_COPIED_BYTES + 1, 1, false)]
        {
            let data = [message(length), vec![0; behind]].concat();
            let begin = data[PREFIX_BYTES..].as_ptr();
            let mut messages = MessageDecoder::new(length, false);
            messages.push(data);
            let found = messages.next().expect("good").expect("whole");
            assert_eq!(found.as_ptr() != begin, is_copied, "{length} bytes");
        }
    }

    #[test]
    fn compressed_messages_are_taken_if_they_were_announced() {
        let encoded = compressed(&EncodedMessage(vec![vec![7; 100].into()])).0.concat();
        let framed = [&prefix(1, encoded.len())[..], &encoded, &message(3)].concat();
        for cut in 1..framed.len() {
            let mut messages = MessageDecoder::new(100, true);
            let mut lengths = Vec::new();
            for part in framed.chunks(cut) {
                messages.push(part.to_vec());
                while let Some(message) = messages.next().expect("good") {
                    lengths.push(message.len());
                }
            }
            assert_eq!(lengths, [100, 3]);
        }
        let mut messages = MessageDecoder::new(100, false);
        messages.push(framed);
        assert_eq!(messages.next(), Err(Failure::new(Code::Internal, COMPRESSED)));
    }
}
