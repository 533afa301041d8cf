//! The client's side of HTTP/2 without I/O, for as little work a request as possible.
//!
//! A general HTTP/2 library costs more for a request than the server that answers it. This one knows what a load
//! generator does: a few methods, called again and again. The head of a call is encoded once and then copied; the
//! heads of answers are compared with the last ones before they are decoded; frames are written straight into the
//! buffer that goes to the socket. Example: a `Put` on stream 1.
//!
//! ```text
//!   wire.open("/etcdserverpb.KV/Put", message, true)   HEADERS and DATA are in the output, stream 1 is open
//!   wire.output                                        goes to the socket in one write, with other calls' frames
//!   wire.receive(bytes)                                HEADERS, DATA, HEADERS: the call on stream 1 is over
//!   wire.call(1)                                       its messages, its status, and the waker of who waits
//! ```
//!
//! The windows that it announces are the largest there are: a load generator reads at once what comes. The windows of
//! the server are respected. It must not know sockets, threads or what a message means.

mod frames;
mod inbound;
mod outbound;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use ctl::CallError;
use http2::{HpackDecoder, HpackEncoder};

/// The number of gRPC's code `Unavailable`.
const UNAVAILABLE: i32 = 14;

/// The number of gRPC's code `Internal`.
const INTERNAL: i32 = 13;

/// The window of a stream and of a connection before anything else is said (RFC 9113, section 6.9.2).
const FIRST_WINDOW_BYTES: i64 = 65_535;

/// Open calls before the server names its limit: the least that RFC 9113 recommends to servers (section 6.5.2).
const FIRST_CALLS: usize = 100;

/// The last stream that a connection opens: the numbers end soon after it.
const MAX_STREAM: u32 = 0x7fff_0000;

/// One HTTP/2 connection.
pub(crate) struct Wire {
    authority: String,
    /// Sent with each call, if there is one.
    token: Option<String>,
    scheme: &'static str,
    decoder: HpackDecoder,
    encoder: HpackEncoder,
    heads: Vec<Head>,
    /// The last blocks that meant an answer without an error and left the table alone.
    good_blocks: [Vec<u8>; 2],
    calls: BTreeMap<u32, Call>,
    next_stream: u32,
    /// What came of a frame that is not whole yet.
    partial: Vec<u8>,
    /// A header block whose frames have not all come: its stream, whether it ends the call, its bytes.
    block: Option<(u32, bool, Vec<u8>)>,
    /// Frames for the socket.
    pub(crate) output: Vec<u8>,
    /// Streams with bytes that a window keeps back.
    kept_back: VecDeque<u32>,
    send_window: i64,
    first_send_window: i64,
    frame_bytes: usize,
    max_calls: usize,
    /// Whether the server told its limits.
    has_settings: bool,
    /// Callers that wait until fewer calls are open, in their order, each with its number.
    waiting: VecDeque<(u64, Waker)>,
    next_number: u64,
    /// Received bytes of data whose window was not given back yet.
    taken_bytes: u32,
    /// Why no new call may begin.
    closing: Option<CallError>,
}

/// The encoded head of calls of one method.
struct Head {
    method: &'static str,
    block: Vec<u8>,
    /// Fields in the table when it was encoded.
    added_fields: usize,
}

/// One call.
#[derive(Default)]
pub(crate) struct Call {
    /// Received messages, each with its prefix.
    pub(crate) received: Vec<u8>,
    /// How it ended, once it did.
    pub(crate) end: Option<Result<(), CallError>>,
    /// Who waits for messages or the end.
    pub(crate) waker: Option<Waker>,
    send_window: i64,
    unsent: VecDeque<u8>,
    ends_after: bool,
    taken_bytes: u32,
}

impl Call {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Takes the next whole message out of what was received.
    pub(crate) fn take_message(&mut self) -> Option<Vec<u8>> {
        let prefix = self.received.first_chunk::<5>()?;
        let end = 5 + u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        if self.received.len() < end {
            return None;
        }
        if self.received.len() == end {
            let mut message = std::mem::take(&mut self.received);
            message.drain(..5);
            return Some(message);
        }
        let message = self.received[5..end].to_vec();
        self.received.drain(..end);
        Some(message)
    }
}

impl Wire {
    /// A connection whose greeting is in the output. `authority` is the server's host and port.
    pub(crate) fn new(authority: &str, scheme: &'static str, token: Option<String>) -> Self {
        let mut wire = Self {
            authority: authority.to_owned(),
            token,
            scheme,
            decoder: HpackDecoder::default(),
            encoder: HpackEncoder::for_requests(),
            heads: Vec::new(),
            good_blocks: [Vec::new(), Vec::new()],
            calls: BTreeMap::new(),
            next_stream: 1,
            partial: Vec::new(),
            block: None,
            output: Vec::new(),
            kept_back: VecDeque::new(),
            send_window: FIRST_WINDOW_BYTES,
            first_send_window: FIRST_WINDOW_BYTES,
            frame_bytes: frames::FIRST_PAYLOAD_BYTES,
            max_calls: FIRST_CALLS,
            has_settings: false,
            next_number: 0,
            waiting: VecDeque::new(),
            taken_bytes: 0,
            closing: None,
        };
        wire.greet();
        wire
    }

    /// The call on a stream, until it is removed.
    pub(crate) fn call(&mut self, stream: u32) -> Option<&mut Call> {
        self.calls.get_mut(&stream)
    }

    /// Why no new call may begin, if so.
    pub(crate) fn closing(&self) -> Option<&CallError> {
        self.closing.as_ref()
    }

    /// Ends the connection and all its calls.
    pub(crate) fn fail(&mut self, error: CallError) {
        for call in self.calls.values_mut().filter(|call| call.end.is_none()) {
            call.end = Some(Err(error.clone()));
            call.wake();
        }
        self.closing.get_or_insert(error);
        self.waiting.drain(..).for_each(|(_, waker)| waker.wake());
    }

    fn unavailable(text: &str) -> CallError {
        CallError::status(UNAVAILABLE, text.to_owned())
    }
}
