//! The DATA of messages that leave together: one frame for many small ones.
//!
//! A frame costs its sender and its reader more than a small message does, and the watchers of a stream often hear of
//! one event with a message each.

use bytes::{Bytes, BytesMut};

use super::Encoded;
use super::messages::{JOINED_BYTES, PREFIX_BYTES, put_prefix};

/// Prefixes and small messages joined, the pieces of large ones as they are.
pub(super) fn joined(messages: Vec<Encoded>) -> Vec<Bytes> {
    let of_small = |length: usize| PREFIX_BYTES + if length <= JOINED_BYTES { length } else { 0 };
    let bytes = messages.iter().map(|message| of_small(message.len())).sum();
    let mut joined = BytesMut::with_capacity(bytes);
    let mut data = Vec::with_capacity(1);
    for message in messages {
        let length = message.len();
        put_prefix(&mut joined, length);
        if length <= JOINED_BYTES {
            message.0.iter().for_each(|piece| joined.extend_from_slice(piece));
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
    //! All prefixes and bytes, in order; small messages in one piece, large ones uncopied.
    use super::*;

    fn message(length: usize) -> Encoded {
        Encoded(vec![vec![1; length / 2].into(), vec![2; length - length / 2].into()])
    }

    #[test]
    fn small_messages_share_a_piece_and_large_ones_keep_theirs() {
        let lengths = [3, 0, 5, JOINED_BYTES + 1, JOINED_BYTES, 7];
        let messages: Vec<Encoded> = lengths.into_iter().map(message).collect();
        let mut expected = Vec::new();
        for message in &messages {
            expected.push(0);
            expected.extend((message.len() as u32).to_be_bytes());
            expected.extend(message.0.concat());
        }
        let large = messages[3].0[0].clone();
        let data = joined(messages);
        assert_eq!(data.concat(), expected);
        assert_eq!(data.len(), 4, "what is before the large one, its two pieces, what is after it");
        assert_eq!(data[1].as_ptr(), large.as_ptr());
    }
}
