//! What peers say before and around their frames: hello, answer, and the frames of a stream.
//!
//! Frames are the same however the bytes of a stream are cut. What decodes is encoded to what it was decoded from,
//! apart from bytes that later versions of the handshake may use.

use bytes::Bytes;
use transport::{
    ANSWER_BYTES, Frame, FrameError, FrameHeader, FrameReader, HELLO_BYTES, HandshakeAnswer, Hello,
};

/// The longest frame taken; more than the inputs have, less than the allocator refuses.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Reads the bytes as a hello, as an answer, and as a stream of frames.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    if let Some(hello) = data.first_chunk::<HELLO_BYTES>()
        && let Ok(hello) = Hello::decode(hello)
    {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Some((answer, text)) = data.split_first_chunk::<ANSWER_BYTES>() {
        check_answer(answer, text);
    }
    let whole = frames(data, data.len().max(1));
    assert_eq!(whole, frames(data, 7), "cutting does not matter");
    let encoded: Vec<u8> = whole.0.iter().flat_map(encode).collect();
    assert!(data.starts_with(&encoded), "frames are encoded as they came");
}

fn check_answer(bytes: &[u8; ANSWER_BYTES], text: &[u8]) {
    let Ok(length) = HandshakeAnswer::text_length(bytes) else {
        return;
    };
    let Some(text) = text.get(..length) else { return };
    let Ok(answer) = HandshakeAnswer::decode(bytes, text) else {
        return;
    };
    let encoded = answer.encode();
    let Some((again, text)) = encoded.split_first_chunk::<ANSWER_BYTES>() else { panic!("too short") };
    assert_eq!(HandshakeAnswer::text_length(again), Ok(text.len()));
    assert_eq!(HandshakeAnswer::decode(again, text), Ok(answer));
}

/// The frames of a stream that comes in chunks of `cut` bytes, and why it ended before its end.
fn frames(mut stream: &[u8], cut: usize) -> (Vec<Frame>, Option<FrameError>) {
    let mut reader = FrameReader::new(MAX_FRAME_BYTES);
    let mut frames = Vec::new();
    loop {
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        if stream.is_empty() {
            return (frames, None);
        }
        let filled = reader.fill(|room| {
            let count = room.len().min(cut).min(stream.len());
            room[..count].copy_from_slice(&stream[..count]);
            stream = &stream[count..];
            Ok(count)
        });
        assert!(filled.is_ok_and(|count| count > 0), "there is always room");
    }
}

fn encode(frame: &Frame) -> Vec<u8> {
    let body: [Bytes; 1] = [frame.body.clone()];
    let header = FrameHeader::of(frame.kind, &body, MAX_FRAME_BYTES).expect("it was not too long to be read");
    [&header.encode()[..], &frame.body].concat()
}
