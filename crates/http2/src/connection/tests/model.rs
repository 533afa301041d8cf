//! A client that knows what a server may send it: its windows, the order of the frames of a stream, and each byte.
use std::collections::{BTreeMap, VecDeque};

use crate::frame::{ACK, END_HEADERS, END_STREAM, FrameHead, FrameType, HEAD_BYTES};
use crate::hpack::HpackDecoder;
use crate::hpack::tests::Fields;
use crate::limits::DEFAULT_WINDOW_BYTES;

/// See the module.
pub(super) struct ModelClient {
    decoder: HpackDecoder,
    window: i64,
    initial_window: i64,
    /// Settings that were sent and not acknowledged: the initial windows they say, if they do.
    unacknowledged: VecDeque<Option<u32>>,
    streams: BTreeMap<u32, ModelStream>,
    /// What answers are cut from.
    pattern: Vec<u8>,
}

/// Bytes after which the pattern repeats itself, and how many of them follow each place.
const PATTERN_BYTES: usize = 65_521;
const MAX_CUT_BYTES: usize = 100_000;

/// The part of the pattern that is an answer's from a place.
fn pattern_of(pattern: &[u8], stream: u32, from: usize, length: usize) -> &[u8] {
    let begin = (stream as usize * 997 + from) % PATTERN_BYTES;
    &pattern[begin..begin + length]
}

#[derive(Default)]
struct ModelStream {
    has_headers: bool,
    /// The server has ended its half.
    is_over: bool,
    /// The server has reset the stream; the client has.
    is_reset: bool,
    is_abandoned: bool,
    /// Bytes that came.
    received: usize,
    /// What the client has allowed beyond the initial window.
    opened: i64,
    /// The answer that the server's owner has ended has so many bytes.
    finished: Option<usize>,
}

impl Default for ModelClient {
    fn default() -> ModelClient {
        ModelClient {
            decoder: HpackDecoder::default(),
            window: i64::from(DEFAULT_WINDOW_BYTES),
            initial_window: i64::from(DEFAULT_WINDOW_BYTES),
            unacknowledged: VecDeque::new(),
            streams: BTreeMap::new(),
            pattern: (0..PATTERN_BYTES + MAX_CUT_BYTES)
                .map(|at| at % PATTERN_BYTES)
                .map(|at| (at * at / 7 + at / 251) as u8)
                .collect(),
        }
    }
}

impl ModelClient {
    /// The bytes of an answer from a place: each stream has others.
    pub(super) fn bytes(&self, stream: u32, from: usize, length: usize) -> Vec<u8> {
        pattern_of(&self.pattern, stream, from, length).to_vec()
    }

    /// It begins a stream.
    pub(super) fn begin(&mut self, stream: u32) {
        self.streams.entry(stream).or_default();
    }

    /// It opens a window. The server may use it from now on, and need not.
    pub(super) fn open(&mut self, stream: u32, bytes: u32) {
        match self.streams.get_mut(&stream) {
            Some(open) => open.opened += i64::from(bytes),
            None if stream == 0 => self.window += i64::from(bytes),
            None => {}
        }
    }

    /// It sends a setting, which holds from its acknowledgement on.
    pub(super) fn set(&mut self, id: u16, value: u32) {
        self.unacknowledged.push_back((id == 4).then_some(value));
    }

    /// The server's owner has ended the answer of a stream.
    pub(super) fn finished(&mut self, stream: u32, bytes: usize) {
        self.streams.entry(stream).or_default().finished = Some(bytes);
    }

    /// It resets a stream.
    pub(super) fn abandon(&mut self, stream: u32) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.is_abandoned = true;
        }
    }

    /// Streams that were not reset, whose answers have ended and have not come.
    pub(super) fn incomplete(&self) -> Vec<u32> {
        let is_missing = |stream: &ModelStream| {
            stream.finished.is_some() && !stream.is_over && !stream.is_reset && !stream.is_abandoned
        };
        self.streams.iter().filter(|(_, stream)| is_missing(stream)).map(|(id, _)| *id).collect()
    }

    /// Bytes of all answers, and how many answers were complete.
    pub(super) fn totals(&self) -> (usize, usize) {
        let bytes = self.streams.values().map(|stream| stream.received).sum();
        let complete = |stream: &&ModelStream| stream.finished == Some(stream.received) && stream.is_over;
        (bytes, self.streams.values().filter(complete).count())
    }

    /// Checks the frames that are whole, and removes them. A client that is not honest may not know of each of its
    /// streams.
    pub(super) fn check(&mut self, bytes: &mut Vec<u8>, is_honest: bool) {
        let mut next = 0;
        while let Some(head) = FrameHead::decode(&bytes[next..])
            && let Some(payload) = bytes.get(next + HEAD_BYTES..next + HEAD_BYTES + head.length)
        {
            self.check_frame(&head, payload, is_honest);
            next += HEAD_BYTES + head.length;
        }
        bytes.drain(..next);
    }

    fn check_frame(&mut self, head: &FrameHead, payload: &[u8], is_honest: bool) {
        let begun = self.streams.contains_key(&head.stream);
        match head.kind {
            FrameType::Settings if head.has(ACK) => {
                let set = self.unacknowledged.pop_front();
                if let Some(Some(window)) = set {
                    self.initial_window = i64::from(window);
                }
                assert!(set.is_some() || !is_honest, "settings are acknowledged once");
            }
            FrameType::Headers => {
                assert!(begun || !is_honest, "headers of stream {}", head.stream);
                assert!(head.has(END_HEADERS), "no answer has long headers");
                self.decoder.decode(payload, &mut Fields::default()).expect("headers decode");
                let stream = self.streams.entry(head.stream).or_default();
                assert!(!stream.is_over, "nothing follows the end of stream {}", head.stream);
                assert_eq!(stream.has_headers, head.has(END_STREAM), "headers come first, trailers last");
                stream.has_headers = true;
                stream.is_over = head.has(END_STREAM);
                if stream.is_over {
                    assert_eq!(stream.finished, Some(stream.received), "all of the answer is there");
                }
            }
            FrameType::Data => self.check_data(head, payload),
            FrameType::RstStream => {
                let stream = self.streams.entry(head.stream).or_default();
                assert!(!stream.is_reset || !is_honest, "stream {} is reset twice", head.stream);
                stream.is_reset = true;
            }
            FrameType::Continuation | FrameType::PushPromise | FrameType::Priority | FrameType::Unknown => {
                panic!("{head:?}")
            }
            FrameType::Settings | FrameType::Ping | FrameType::GoAway | FrameType::WindowUpdate => {}
        }
    }

    fn check_data(&mut self, head: &FrameHead, payload: &[u8]) {
        let stream = self.streams.get_mut(&head.stream).expect("a stream that has begun");
        assert!(stream.has_headers && !stream.is_over, "data of stream {} out of order", head.stream);
        let expected = pattern_of(&self.pattern, head.stream, stream.received, payload.len());
        assert!(payload == expected, "bytes of stream {} from {}", head.stream, stream.received);
        stream.received += payload.len();
        self.window -= payload.len() as i64;
        assert!(self.window >= 0, "more than the window of the connection");
        let window = self.initial_window + stream.opened - stream.received as i64;
        assert!(payload.is_empty() || window >= 0, "more than the window of stream {}", head.stream);
        assert!(!head.has(END_STREAM), "trailers end an answer");
    }
}
