//! The usual answer: a head, one message and trailers, in frames that differ only in the stream and the message.
//!
//! Once the client's table holds their usual fields, the blocks of the head and of the trailers stay the same. Then the
//! frames around a message are copied from a pattern:
//!
//! ```text
//!   00 00 02 01 04 ss ss ss ss 88 be     HEADERS of a stream: :status 200, and the newest field of the table but one
//!   nn nn nn 00 00 ss ss ss ss           the head of DATA
//!   00 00 01 01 05 ss ss ss ss be        behind the message: HEADERS that end the stream
//! ```

use crate::frame::{END_HEADERS, END_STREAM, FrameType, HEAD_BYTES, encode_head};
use crate::hpack::HpackEncoder;
use crate::limits::MAX_PAYLOAD_BYTES;
use crate::settings::UsualAnswer;

/// The frames of usual answers.
#[derive(Debug)]
pub(super) struct AnswerPattern {
    /// HEADERS, the head of DATA, HEADERS.
    bytes: Box<[u8]>,
    /// Where the head of DATA is. The trailers are behind it.
    data_at: usize,
}

impl AnswerPattern {
    /// The pattern, if the blocks stay the same from now on.
    pub(super) fn of(answer: &UsualAnswer, encoder: &HpackEncoder) -> Option<AnswerPattern> {
        let (head, trailers) = (encoder.settled_block(answer.head)?, encoder.settled_block(answer.trailers)?);
        if head.len().max(trailers.len()) > MAX_PAYLOAD_BYTES {
            return None;
        }
        let headers = |flags, block: &[u8]| {
            [&encode_head(FrameType::Headers, END_HEADERS | flags, 0, block.len()), block].concat()
        };
        let (head, trailers) = (headers(0, &head), headers(END_STREAM, &trailers));
        let data = encode_head(FrameType::Data, 0, 0, 0);
        Some(AnswerPattern { data_at: head.len(), bytes: [&head, &data[..], &trailers].concat().into() })
    }

    /// The bytes before and behind the message of a stream.
    pub(super) fn around(&mut self, stream: u32, length: usize) -> (&[u8], &[u8]) {
        let (data_at, end_at) = (self.data_at, self.data_at + HEAD_BYTES);
        for frame in [0, end_at] {
            self.bytes[frame + 5..frame + HEAD_BYTES].copy_from_slice(&stream.to_be_bytes());
        }
        self.bytes[data_at..end_at].copy_from_slice(&encode_head(FrameType::Data, 0, stream, length));
        self.bytes.split_at(end_at)
    }
}

#[cfg(test)]
mod tests {
    //! What is copied is what would be encoded.
    use proptest::prelude::*;

    use super::super::StreamGone;
    use super::super::tests::rig::{Client, code, field};
    use super::*;
    use crate::ErrorCode;

    /// What happens to a connection.
    #[derive(Clone, Debug)]
    enum Happening {
        Answer {
            length: usize,
            has_ended: bool,
        },
        /// Another answer, with a usual field that the pattern does not have.
        Other,
        TableSize(u32),
        InitialWindow(u32),
        Open(u32),
    }

    fn happenings() -> impl Strategy<Value = Vec<Happening>> {
        let answer = (0_usize..40, any::<bool>())
            .prop_map(|(root, has_ended)| Happening::Answer { length: root * root * root, has_ended });
        let any = prop_oneof![
            10 => answer,
            1 => Just(Happening::Other),
            1 => prop_oneof![Just(0_u32), Just(300), Just(4_096), Just(9_000)].prop_map(Happening::TableSize),
            1 => (0_u32..70_000).prop_map(Happening::InitialWindow),
            2 => (1_u32..100_000).prop_map(Happening::Open),
        ];
        prop::collection::vec(any, 1..60)
    }

    /// Answers in one of two ways.
    fn answer(client: &mut Client, stream: u32, length: usize, in_steps: bool) {
        let (front, parts) = (&b"front"[..], vec![vec![1; length / 2].into(), vec![2; length / 2].into()]);
        if in_steps {
            let answer = client.server.settings.usual_answer;
            client.server.send_headers(stream, answer.head, false).expect("open");
            client.server.send_parts(stream, front, parts).expect("open");
            client.server.finish(stream, answer.trailers).expect("open");
        } else {
            client.server.answer(stream, front, parts).expect("open");
        }
    }

    proptest! {
        #[test]
        fn answers_are_the_same_from_the_pattern(happenings in happenings()) {
            let mut clients = [Client::new(), Client::new()];
            for (number, happening) in happenings.into_iter().enumerate() {
                let stream = 2 * number as u32 + 1;
                for (in_steps, client) in [false, true].into_iter().zip(&mut clients) {
                    match happening {
                        Happening::Answer { length, has_ended } => {
                            client.request(stream, has_ended);
                            answer(client, stream, length, in_steps);
                        }
                        Happening::Other => {
                            client.request(stream, true);
                            let fields = [field("content-type", "other")];
                            client.server.send_headers(stream, &fields, true).expect("open");
                        }
                        Happening::TableSize(bytes) => client.set(1, bytes),
                        Happening::InitialWindow(bytes) => client.set(4, bytes),
                        Happening::Open(bytes) => client.open(0, bytes),
                    }
                }
                let [one, other] = &mut clients;
                prop_assert_eq!(one.sent(), other.sent());
                prop_assert_eq!(one.server.stream_count(), other.server.stream_count());
                prop_assert_eq!(one.server.held_bytes(), other.server.held_bytes());
            }
        }
    }

    #[test]
    fn a_pattern_is_there_from_the_second_answer_on() {
        let mut client = Client::new();
        for stream in [1, 3, 5] {
            client.request(stream, stream != 5);
            assert_eq!(client.server.answer_pattern.is_some(), stream > 1);
            answer(&mut client, stream, 10, false);
            let sent = client.sent();
            assert_eq!(client.decoded(&sent[0]).len(), 2);
            assert_eq!(client.decoded(&sent[2]), [("grpc-status".to_owned(), "0".to_owned())]);
            let reset = sent.get(3).map(|sent| (sent.kind, sent.number()));
            assert_eq!(reset, (stream == 5).then_some((FrameType::RstStream, code(ErrorCode::No))));
        }
        client.set(1, 0);
        assert!(client.server.answer_pattern.is_none());
        assert_eq!(client.server.answer(7, b"", Vec::new()), Err(StreamGone));
    }
}
