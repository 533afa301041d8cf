//! Reads one request without a socket and a service: its head, then its messages as they arrive. The fuzz target
//! `grpc_request` does; nothing in the product uses it.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http2::{Connection, Event, Field, HpackEncoder, HttpSettings, Keepalive, PREFACE};

use super::failure::Failure;
use super::handle::{CallWakers, ConnectionHandle};
use super::head::{self, RequestKind, Trailers};
use super::messages::{EncodedMessage, MessageDecoder, compressed, prefix};
use super::request::RequestStream;

/// Bytes of a frame's payload: what any client may send.
const MAX_PAYLOAD_BYTES: usize = 16 << 10;

/// Types of frames, and flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What a request is.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadRequest {
    /// A call, with this time.
    Call {
        /// Its messages, decompressed.
        messages: Vec<Bytes>,
        /// Why no more could be read: a code, and the text as it is sent.
        failure: Option<(String, String)>,
        /// Its time.
        time: Option<Duration>,
    },
    /// A call that is refused for its head: a code, and the text as it is sent.
    Refused(String, String),
    /// Not gRPC.
    Plain,
    /// The stream is reset for its head.
    Malformed,
}

/// A failure as a client receives it: the code and the text.
fn sent(failure: &Failure) -> (String, String) {
    let mut sent = Vec::new();
    Trailers::of(Err(failure)).with(|trailers| {
        let text = |field: &Field<'_>| String::from_utf8_lossy(field.value).into_owned();
        sent.extend(trailers.iter().map(text));
    });
    let mut sent = sent.into_iter();
    (sent.next().unwrap_or_default(), sent.next().unwrap_or_default())
}

/// Receives a request with these header fields and this body, of which so many bytes arrive at a time; its messages
/// have at most `max_bytes`. A body is shorter than the window of a stream.
pub(crate) async fn read_request(
    fields: &[(&str, &[u8])],
    body: &[u8],
    at_a_time: usize,
    max_bytes: usize,
) -> ReadRequest {
    let mut http2 = connection();
    let field = |&(name, value)| Field { name, value, is_usual: false };
    let mut block = Vec::new();
    HpackEncoder::default().encode(&fields.iter().map(field).collect::<Vec<_>>(), &mut block);
    receive(&mut http2, [HEADERS, CONTINUATION], END_HEADERS, &block);
    let Some(Event::Request { stream, head }) = http2.next_event() else { return ReadRequest::Malformed };
    let (format, time, refusal) = match head::kind(&head) {
        RequestKind::Plain => return ReadRequest::Plain,
        RequestKind::Malformed(_) => return ReadRequest::Malformed,
        RequestKind::Refused(_, _, failure) => {
            let (code, text) = sent(&failure);
            return ReadRequest::Refused(code, text);
        }
        RequestKind::Call(format, time, refusal) => (format, time, refusal),
    };
    let handle = ConnectionHandle::new(http2);
    let decoder = MessageDecoder::new(max_bytes, format.is_gzip);
    let mut requests = RequestStream::new(handle.stream(stream), decoder, refusal);
    let (mut messages, mut failure) = (Vec::new(), requests.supported().err());
    for part in body.chunks(at_a_time.max(1)) {
        receive(&mut handle.lock(), [DATA, DATA], 0, part);
        // What waits is asked again when more has come.
        let context = &mut Context::from_waker(Waker::noop());
        while failure.is_none()
            && let Poll::Ready(Ok(Some(message))) =
                requests.poll_next(context).map_err(|why| failure = Some(why))
        {
            messages.push(message);
        }
    }
    receive(&mut handle.lock(), [DATA, DATA], END_STREAM, &[]);
    while failure.is_none() {
        match requests.next().await {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => break,
            Err(why) => failure = Some(why),
        }
    }
    ReadRequest::Call { messages, failure: failure.as_ref().map(sent), time }
}

/// A connection whose greeting is over.
fn connection() -> Connection<CallWakers> {
    let zero = Duration::ZERO;
    let keepalive = Keepalive { interval: zero, timeout: zero, min_client_interval: zero };
    let usual_answer = head::USUAL_ANSWER;
    let settings = HttpSettings { max_concurrent_streams: 1, keepalive, is_urgent: |_| false, usual_answer };
    let mut http2 = Connection::new(settings);
    http2.receive(PREFACE, zero);
    http2.receive(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0], zero);
    http2
}

/// Receives bytes of stream 1 in frames: the type of the first and of those behind it, and a flag of the last.
fn receive(http2: &mut Connection<CallWakers>, kinds: [u8; 2], last_flag: u8, mut bytes: &[u8]) {
    let mut kind = kinds[0];
    loop {
        let (part, rest) = bytes.split_at(bytes.len().min(MAX_PAYLOAD_BYTES));
        let flags = if rest.is_empty() { last_flag } else { 0 };
        let [_, a, b, c] = (part.len() as u32).to_be_bytes();
        http2.receive(&[&[a, b, c, kind, flags, 0, 0, 0, 1], part].concat(), Duration::ZERO);
        if rest.is_empty() {
            return;
        }
        (bytes, kind) = (rest, kinds[1]);
    }
}

/// A message as a client sends it, compressed.
pub(crate) fn gzip_message(message: Bytes) -> Vec<u8> {
    let message = compressed(&EncodedMessage(vec![message]));
    [&prefix(1, message.len())[..], &message.0.concat()].concat()
}
