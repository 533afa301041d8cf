//! A client that can send any frame, and reads the answers.
use std::time::Duration;

use super::super::{Connection, Event};
use crate::frame::{FrameHead, FrameType, HEAD_BYTES};
use crate::hpack::tests::Fields;
use crate::hpack::{Field, HpackDecoder};
use crate::{ErrorCode, HttpSettings, Keepalive, PREFACE, UsualAnswer};

const USUAL_HEAD: [Field<'static>; 2] = [
    Field { name: ":status", value: b"200", is_usual: false },
    Field { name: "content-type", value: b"application/grpc", is_usual: true },
];
const USUAL_TRAILERS: [Field<'static>; 1] = [Field { name: "grpc-status", value: b"0", is_usual: true }];

/// Settings without pings of ours.
pub(in crate::connection) fn settings() -> HttpSettings {
    let min_client_interval = Duration::from_secs(5);
    let keepalive = Keepalive { interval: Duration::ZERO, timeout: Duration::ZERO, min_client_interval };
    HttpSettings {
        max_concurrent_streams: u32::MAX,
        keepalive,
        is_urgent: |head| head.path() == b"/urgent",
        usual_answer: UsualAnswer { head: &USUAL_HEAD, trailers: &USUAL_TRAILERS },
    }
}

/// A frame that the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Sent {
    pub(in crate::connection) kind: FrameType,
    pub(in crate::connection) flags: u8,
    pub(in crate::connection) stream: u32,
    pub(in crate::connection) payload: Vec<u8>,
}

impl Sent {
    /// The number that a WINDOW_UPDATE or RST_STREAM carries.
    pub(in crate::connection) fn number(&self) -> u32 {
        u32::from_be_bytes(*self.payload.first_chunk().expect("a number"))
    }
}

/// See the module.
pub(in crate::connection) struct Client {
    pub(in crate::connection) server: Connection<u32>,
    pub(in crate::connection) now: Duration,
    /// Headers of the server, decoded.
    decoder: HpackDecoder,
}

impl Client {
    /// One whose greeting is over.
    pub(in crate::connection) fn new() -> Client {
        let mut client = Client::silent(settings());
        client.server.receive(PREFACE, client.now);
        client.frame(FrameType::Settings, 0, 0, &[]);
        client.sent();
        client
    }

    /// One that has sent nothing.
    pub(in crate::connection) fn silent(settings: HttpSettings) -> Client {
        Client {
            server: Connection::new(settings),
            now: Duration::from_secs(1),
            decoder: HpackDecoder::default(),
        }
    }

    /// Sends a frame.
    pub(in crate::connection) fn frame(&mut self, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
        self.server.receive(&frame(kind, flags, stream, payload), self.now);
    }

    /// Sends the head of a request.
    pub(in crate::connection) fn request(&mut self, stream: u32, ends: bool) {
        self.headers(stream, ends, &block(&[(":method", "POST"), (":path", "/p"), ("te", "trailers")]));
    }

    /// Sends a header block in one frame.
    pub(in crate::connection) fn headers(&mut self, stream: u32, ends: bool, block: &[u8]) {
        self.frame(FrameType::Headers, 4 | u8::from(ends), stream, block);
    }

    /// Opens the window of the connection, or of a stream.
    pub(in crate::connection) fn open(&mut self, stream: u32, bytes: u32) {
        self.frame(FrameType::WindowUpdate, 0, stream, &bytes.to_be_bytes());
    }

    /// Sends one setting.
    pub(in crate::connection) fn set(&mut self, id: u16, value: u32) {
        let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        self.frame(FrameType::Settings, 0, 0, &payload);
    }

    /// Takes all the server has to say.
    pub(in crate::connection) fn sent(&mut self) -> Vec<Sent> {
        let mut bytes = Vec::new();
        while !self.server.output().is_empty() {
            bytes.extend(self.take_output(usize::MAX));
        }
        frames(&bytes)
    }

    /// Takes some of what waits for the socket.
    pub(in crate::connection) fn take_output(&mut self, max: usize) -> Vec<u8> {
        let output = self.server.output();
        let mut slices = [std::io::IoSlice::new(&[]); 8];
        let count = output.slices(&mut slices);
        let mut bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        bytes.truncate(max);
        output.advance(bytes.len());
        bytes
    }

    /// Takes all events.
    pub(in crate::connection) fn events(&mut self) -> Vec<Event<u32>> {
        std::iter::from_fn(|| self.server.next_event()).collect()
    }

    /// The streams whose requests begin.
    pub(in crate::connection) fn begun(&mut self) -> Vec<u32> {
        let begun = |event| if let Event::Request { stream, .. } = event { Some(stream) } else { None };
        self.events().into_iter().filter_map(begun).collect()
    }

    /// Decodes headers of the server.
    pub(in crate::connection) fn decoded(&mut self, frame: &Sent) -> Vec<(String, String)> {
        let mut fields = Fields::default();
        self.decoder.decode(&frame.payload, &mut fields).expect("good headers");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        fields.0.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// How the connection has ended: the code and the text of its GOAWAY.
    pub(in crate::connection) fn end(&mut self) -> Option<(u32, String)> {
        let sent = self.sent();
        let last = sent.iter().rev().find(|frame| frame.kind == FrameType::GoAway)?;
        assert!(self.server.is_closed());
        let code = u32::from_be_bytes(*last.payload[4..].first_chunk().expect("a code"));
        Some((code, String::from_utf8(last.payload[8..].to_vec()).expect("text")))
    }

    /// The resets that were sent: streams and codes.
    pub(in crate::connection) fn resets(&mut self) -> Vec<(u32, u32)> {
        let is_reset = |frame: &Sent| frame.kind == FrameType::RstStream;
        self.sent().into_iter().filter(is_reset).map(|frame| (frame.stream, frame.number())).collect()
    }
}

/// A frame.
pub(in crate::connection) fn frame(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let kind = if kind == FrameType::Unknown { 77 } else { kind as u8 };
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// The frames that bytes are.
pub(in crate::connection) fn frames(mut bytes: &[u8]) -> Vec<Sent> {
    let mut frames = Vec::new();
    while let Some(FrameHead { length, kind, flags, stream }) = FrameHead::decode(bytes) {
        let payload = bytes[HEAD_BYTES..HEAD_BYTES + length].to_vec();
        frames.push(Sent { kind, flags, stream, payload });
        bytes = &bytes[HEAD_BYTES + length..];
    }
    assert!(bytes.is_empty(), "a frame is not whole");
    frames
}

/// A block of literals that leave the table alone.
pub(in crate::connection) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend([0, name.len() as u8]);
        block.extend(name.as_bytes());
        block.push(value.len() as u8);
        block.extend(value.as_bytes());
    }
    block
}

/// A header of an answer.
pub(in crate::connection) fn field<'a>(name: &'a str, value: &'a str) -> Field<'a> {
    Field { name, value: value.as_bytes(), is_usual: true }
}

/// The number of a code, as frames have it.
pub(in crate::connection) fn code(code: ErrorCode) -> u32 {
    code as u32
}
