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
    let mut messages = Messages::new(max);
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
    let mut messages = Messages::new(10);
    messages.push(Bytes::from_static(&[0, 0xff, 0xff, 0xff]));
    assert_eq!(messages.next(), Ok(None));
    messages.push(Bytes::from_static(&[0xff]));
    assert!(messages.next().is_err());
}

#[test]
fn a_large_message_in_one_frame_is_not_copied_and_a_small_one_is() {
    for (length, is_copied) in [(COPIED_BYTES, true), (COPIED_BYTES + 1, false)] {
        let frame = Bytes::from(message(length));
        let mut messages = Messages::new(length);
        messages.push(frame.clone());
        let found = messages.next().expect("good").expect("whole");
        assert_eq!(found.as_ptr() != frame[PREFIX_BYTES..].as_ptr(), is_copied, "{length} bytes");
    }
}

#[test]
fn frames_join_small_pieces_and_leave_large_ones() {
    let piece = Bytes::from(vec![7; JOINED_BYTES - 1]);
    let sent = |pieces: &[Bytes]| frames(Encoded(pieces.to_vec())).collect::<Vec<_>>();
    let small = sent(&[Bytes::from_static(b"x"), piece.clone()]);
    assert_eq!(small.len(), 1, "all that fits is joined");
    let large = sent(&[Bytes::from_static(b"xy"), piece.clone()]);
    assert_eq!(large.last().map(|last| last.as_ptr()), Some(piece.as_ptr()), "the large piece is not copied");
    for frames in [small, large] {
        let whole = frames.concat();
        let length = u32::from_be_bytes([whole[1], whole[2], whole[3], whole[4]]) as usize;
        assert_eq!((whole[0], length), (0, whole.len() - PREFIX_BYTES));
    }
    assert_eq!(sent(&[]).concat(), [0; PREFIX_BYTES], "an empty message is a prefix");
}
