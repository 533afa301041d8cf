//! Decodes messages from a stream of bytes: a flag, a length, and so many bytes.
//!
//! A message that is too large is refused when its length arrives, before any of its bytes is kept.

mod compression;
mod frames;

use api::Code;
use bytes::{Buf, Bytes};

use super::failure::Failure;
use super::handle::Arrival;

pub(super) use self::compression::{compressed, decompressed, is_compressed};
pub(crate) use self::frames::EncodedMessage;
pub(super) use self::frames::{PREFIX_BYTES, joined, prefix};

/// Messages up to this size are copied if others came with them: a few bytes that are kept for long (the key of a
/// watcher) must not keep all that came in one read.
const MAX_COPIED_BYTES: usize = 4096;

/// Finds the messages among the bytes that a client sends.
#[derive(Debug)]
pub(super) struct MessageDecoder {
    max_bytes: usize,
    /// Messages may be compressed.
    is_gzip: bool,
    /// Whole messages that were not returned.
    arrived: Bytes,
}

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundMessage {
    Plain(Bytes),
    /// To be given to [`decompressed`].
    Compressed(Bytes),
}

impl MessageDecoder {
    /// Messages of at most `max_bytes`; with `is_gzip`, each may be compressed.
    pub(super) fn new(max_bytes: usize, is_gzip: bool) -> MessageDecoder {
        MessageDecoder { max_bytes, is_gzip, arrived: Bytes::new() }
    }

    /// The limit.
    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// How much of the bytes that have come is whole messages.
    ///
    /// # Errors
    /// When the first message is larger than the limit.
    pub(super) fn arrival(&self, unread: &[u8]) -> Result<Arrival, Failure> {
        let mut whole_bytes = 0;
        loop {
            let rest = &unread[whole_bytes..];
            let next_bytes = match self.length(rest) {
                Ok(None) => PREFIX_BYTES,
                Ok(Some(length)) => PREFIX_BYTES + length,
                Err(failure) if whole_bytes == 0 => return Err(failure),
                // First those before it.
                Err(_) => return Ok(Arrival { whole_bytes, next_bytes: PREFIX_BYTES }),
            };
            if rest.len() < next_bytes {
                return Ok(Arrival { whole_bytes, next_bytes });
            }
            whole_bytes += next_bytes;
        }
    }

    /// Takes the next whole messages. Before, [`MessageDecoder::next`] has been called until it returned `None`.
    pub(super) fn push(&mut self, messages: Vec<u8>) {
        self.arrived = messages.into();
    }

    /// The next message that was pushed.
    ///
    /// # Errors
    /// When it is compressed in a way that was not announced.
    pub(super) fn next(&mut self) -> Result<Option<FoundMessage>, Failure> {
        if self.arrived.is_empty() {
            return Ok(None);
        }
        let Some(length) = self.length(&self.arrived)? else { return Ok(None) };
        let is_compressed = self.has_flag(self.arrived[0])?;
        self.arrived.advance(PREFIX_BYTES);
        let message = self.arrived.split_to(length);
        if is_compressed {
            return Ok(Some(FoundMessage::Compressed(message)));
        }
        let is_copied = message.len() <= MAX_COPIED_BYTES && !self.arrived.is_empty();
        Ok(Some(FoundMessage::Plain(if is_copied { Bytes::copy_from_slice(&message) } else { message })))
    }

    /// Whether all messages that were pushed were returned.
    pub(super) fn is_between(&self) -> bool {
        self.arrived.is_empty()
    }

    /// Whether a message with this flag is compressed.
    fn has_flag(&self, flag: u8) -> Result<bool, Failure> {
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
        let (mut unread, mut lengths) = (Vec::new(), Vec::new());
        for part in parts {
            unread.extend_from_slice(part);
            loop {
                let Arrival { whole_bytes, next_bytes } = match messages.arrival(&unread) {
                    Ok(arrival) => arrival,
                    Err(failure) => return (lengths, Some(failure)),
                };
                assert!(next_bytes > unread.len() - whole_bytes || whole_bytes > 0);
                if whole_bytes == 0 {
                    break;
                }
                messages.push(unread.drain(..whole_bytes).collect());
                while let Some(FoundMessage::Plain(message)) = messages.next().expect("good") {
                    lengths.push(message.len());
                }
            }
        }
        assert!(unread.is_empty() && messages.is_between(), "nothing is left over");
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
        let messages = MessageDecoder::new(10, false);
        let arrival = messages.arrival(&[0, 0xff, 0xff, 0xff]).expect("no prefix yet");
        assert_eq!((arrival.whole_bytes, arrival.next_bytes), (0, PREFIX_BYTES));
        assert!(messages.arrival(&[0, 0xff, 0xff, 0xff, 0xff]).is_err());
        let arrival = messages.arrival(&[0, 0, 0, 0, 9, 1]).expect("it is small enough");
        assert_eq!((arrival.whole_bytes, arrival.next_bytes), (0, PREFIX_BYTES + 9));
    }

    #[test]
    fn only_a_small_message_among_others_is_copied() {
        for (length, behind, is_copied) in
            [(MAX_COPIED_BYTES, 5, true), (MAX_COPIED_BYTES, 0, false), (MAX_COPIED_BYTES + 1, 5, false)]
        {
            let data = [message(length), vec![0; behind]].concat();
            let begin = data[PREFIX_BYTES..].as_ptr();
            let mut messages = MessageDecoder::new(length, false);
            messages.push(data);
            let Ok(Some(FoundMessage::Plain(found))) = messages.next() else { panic!("a message") };
            assert_eq!(found.as_ptr() != begin, is_copied, "{length} bytes");
        }
    }

    #[test]
    fn compressed_messages_are_taken_if_they_were_announced() {
        let encoded = compressed(&EncodedMessage(vec![vec![7; 100].into()])).0.concat();
        let framed = [&prefix(1, encoded.len())[..], &encoded, &message(3)].concat();
        let mut messages = MessageDecoder::new(100, true);
        messages.push(framed.clone());
        assert_eq!(messages.next(), Ok(Some(FoundMessage::Compressed(encoded.into()))));
        assert_eq!(messages.next(), Ok(Some(FoundMessage::Plain(vec![7; 3].into()))));
        assert_eq!(messages.next(), Ok(None));
        let mut messages = MessageDecoder::new(100, false);
        messages.push(framed);
        assert_eq!(messages.next(), Err(Failure::new(Code::Internal, COMPRESSED)));
    }
}
