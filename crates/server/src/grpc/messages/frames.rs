//! Encoded messages, and the DATA they become: a prefix of a flag and a length, then the bytes.
//!
//! A DATA frame costs its sender and its reader more than a small message does, so small messages of a stream are
//! copied behind their prefixes, and many of them share a frame: the watchers of one stream often receive one event
//! each. Large ones are not copied. The one message of a unary call goes to its connection in the parts it has.

use bytes::{Bytes, BytesMut};

/// Bytes before a message: a flag and its length.
pub(in crate::grpc) const PREFIX_BYTES: usize = 5;

/// Messages up to this size are joined with their prefix: a copy costs less than a frame.
const MAX_JOINED_BYTES: usize = 8192;

/// An encoded message in parts, sent one after the other: often a small header, then bytes that many clients share.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncodedMessage(pub(crate) Vec<Bytes>);

impl EncodedMessage {
    /// Encodes a message as one part.
    pub(crate) fn message(message: &impl prost::Message) -> EncodedMessage {
        EncodedMessage(vec![message.encode_to_vec().into()])
    }

    /// Bytes of all parts.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

/// The prefix of a message of so many bytes; the flag says whether it is compressed.
pub(in crate::grpc) fn prefix(flag: u8, length: usize) -> [u8; PREFIX_BYTES] {
    // Answers have at most 2^31 - 1 bytes: ranges and deletions are checked, all others are far below that.
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [flag, a, b, c, d]
}

/// The DATA of messages that leave together: prefixes and small messages joined, large ones uncopied.
pub(in crate::grpc) fn joined(messages: Vec<(u8, EncodedMessage)>) -> Vec<Bytes> {
    let of_small = |length: usize| PREFIX_BYTES + if length <= MAX_JOINED_BYTES { length } else { 0 };
    let bytes = messages.iter().map(|(_, message)| of_small(message.len())).sum();
    let mut joined = BytesMut::with_capacity(bytes);
    let mut data = Vec::with_capacity(1);
    for (flag, message) in messages {
        let length = message.len();
        joined.extend_from_slice(&prefix(flag, length));
        if length <= MAX_JOINED_BYTES {
            message.0.iter().for_each(|part| joined.extend_from_slice(part));
        } else {
            data.push(joined.split().freeze());
            data.extend(message.0);
        }
    }
    if !joined.is_empty() {
        data.push(joined.freeze());
    }
    data
}

#[cfg(test)]
mod tests {
    //! All prefixes and bytes, in order; small messages in one part, large ones uncopied.
    use super::*;

    fn message(length: usize) -> EncodedMessage {
        EncodedMessage(vec![vec![1; length / 2].into(), vec![2; length - length / 2].into()])
    }

    #[test]
    fn small_messages_share_a_part_and_large_ones_keep_theirs() {
        let lengths = [3, 0, 5, MAX_JOINED_BYTES + 1, MAX_JOINED_BYTES, 7];
        let messages: Vec<EncodedMessage> = lengths.into_iter().map(message).collect();
        let mut expected = Vec::new();
        for message in &messages {
            expected.push(0);
            expected.extend((message.len() as u32).to_be_bytes());
            expected.extend(message.0.concat());
        }
        let large = messages[3].0[0].clone();
        let data = joined(messages.into_iter().map(|message| (0, message)).collect());
        assert_eq!(data.concat(), expected);
        assert_eq!(data.len(), 4, "what is before the large one, its two parts, what is after it");
        assert_eq!(data[1].as_ptr(), large.as_ptr());
    }
}
