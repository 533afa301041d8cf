//! What a connection is, its beginning and its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::answers::AnswerPattern;
use super::heads::HeadDecoder;
use super::queues::{BlockedStreams, Receiving, WaitingRequests, drop_gone};
use super::stream::Stream;
use super::timers::Timers;
use crate::frame::{ErrorCode, FrameType, encode_head};
use crate::head::RequestHead;
use crate::hpack::HpackEncoder;
use crate::limits::{
    DEFAULT_WINDOW_BYTES, MAX_CONNECTION_WINDOW_BYTES, MAX_PAYLOAD_BYTES, MAX_QUEUED_BYTES,
    MAX_RESETS_PER_SECOND, MAX_STREAM_WINDOW_BYTES,
};
use crate::output::Output;
use crate::rates::{PingPolicy, SecondCounter};
use crate::settings::HttpSettings;

/// Identifiers of settings (RFC 9113, section 6.5.2).
pub(super) const TABLE_SIZE_ID: u16 = 1;
pub(super) const PUSH_ID: u16 = 2;
pub(super) const CONCURRENT_STREAMS_ID: u16 = 3;
pub(super) const INITIAL_WINDOW_ID: u16 = 4;
pub(super) const FRAME_SIZE_ID: u16 = 5;

/// The largest stream, which the first GOAWAY of a graceful end names.
const LARGEST_STREAM: u32 = u32::MAX >> 1;

/// The ping between the two steps of a graceful end: grpc-go's.
pub(super) const DRAIN_PING: [u8; 8] = [1, 6, 1, 8, 0, 3, 3, 9];

/// What a connection has to say to its owner. `T` is what the owner keeps for a stream.
#[derive(Debug)]
pub enum Event<T> {
    /// A request begins. Its DATA, and its end, may be there already.
    Request {
        /// Its stream.
        stream: u32,
        /// Its headers; shared with other requests that had the same.
        head: Arc<RequestHead>,
    },
    /// More DATA, or the end, has arrived.
    Data {
        /// The stream.
        stream: u32,
    },
    /// All data of a stream that had to wait is on its way.
    Sent {
        /// The stream.
        stream: u32,
    },
    /// The stream was reset by the client, for its mistake, or at its deadline.
    Gone {
        /// The stream.
        stream: u32,
        /// What the owner had kept for it.
        slot: T,
    },
}

/// The stream has ended or was reset: nothing can be read from it or sent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGone;

/// Bytes that a connection holds for its client, or has reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBytes {
    /// Of answers.
    pub answers: usize,
    /// Of requests.
    pub requests: usize,
}

/// How far the end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It goes on.
    No,
    /// The client was asked to begin no more streams; those on their way are served until this time or its answer.
    Announced(Duration),
    /// Streams that begin now are ignored; the connection is closed with the last one before.
    Draining,
    /// Nothing is received any more. What was written is to be sent, and the connection closed.
    Closed,
}

/// One connection. See the crate's head for an example.
#[derive(Debug)]
pub struct Connection<T> {
    pub(super) settings: HttpSettings,
    pub(super) ending: Ending,
    /// Bytes of the preface that have come; then the beginning of a frame.
    pub(super) preface_bytes: usize,
    pub(super) partial: Vec<u8>,
    pub(super) has_settings: bool,
    /// A header block that is not complete.
    pub(super) block: Option<PendingBlock>,
    pub(super) heads: HeadDecoder,
    pub(super) encoder: HpackEncoder,
    /// Once the blocks of usual answers stay the same.
    pub(super) answer_pattern: Option<AnswerPattern>,
    /// Where header blocks are encoded; empty.
    pub(super) block_buffer: Vec<u8>,
    pub(super) streams: BTreeMap<u32, Stream<T>>,
    /// The last stream that the client began.
    pub(super) last_stream: u32,
    pub(super) receiving: Receiving,
    /// The client's windows: of the connection, and of a new stream.
    pub(super) send_window: i64,
    pub(super) initial_window: i64,
    /// Streams with data and a window, in the order in which they send their next frames.
    pub(super) sending: VecDeque<u32>,
    /// Streams that have data and are blocked by flow control.
    pub(super) blocked: BlockedStreams,
    /// Bytes of data that wait in all streams.
    pub(super) queued: usize,
    pub(super) output: Output,
    pub(super) events: VecDeque<Event<T>>,
    pub(super) requests: WaitingRequests,
    pub(super) timers: Timers,
    pub(super) deadlines: BTreeSet<(Duration, u32)>,
    pub(super) pings: PingPolicy,
    pub(super) resets: SecondCounter,
    pub(super) overhead: SecondCounter,
}

/// The frames of a header block so far.
#[derive(Debug)]
pub(super) struct PendingBlock {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) frames: u32,
    pub(super) began: Duration,
}

impl<T: Default> Connection<T> {
    /// A connection that begins now; its times are counted from here. Our settings are in its output.
    pub fn new(settings: HttpSettings) -> Connection<T> {
        let mut connection = Connection {
            settings,
            ending: Ending::No,
            preface_bytes: 0,
            partial: Vec::new(),
            has_settings: false,
            block: None,
            heads: HeadDecoder::default(),
            encoder: HpackEncoder::default(),
            answer_pattern: None,
            block_buffer: Vec::new(),
            streams: BTreeMap::new(),
            last_stream: 0,
            receiving: Receiving::default(),
            send_window: i64::from(DEFAULT_WINDOW_BYTES),
            initial_window: i64::from(DEFAULT_WINDOW_BYTES),
            sending: VecDeque::new(),
            blocked: BlockedStreams::default(),
            queued: 0,
            output: Output::default(),
            events: VecDeque::new(),
            requests: WaitingRequests::default(),
            timers: Timers::default(),
            deadlines: BTreeSet::new(),
            pings: PingPolicy::default(),
            resets: SecondCounter::default(),
            overhead: SecondCounter::default(),
        };
        connection.greet();
        connection
    }

    fn greet(&mut self) {
        let max_streams = self.settings.max_concurrent_streams;
        let mut settings =
            vec![(INITIAL_WINDOW_ID, MAX_STREAM_WINDOW_BYTES), (FRAME_SIZE_ID, MAX_PAYLOAD_BYTES as u32)];
        if max_streams != u32::MAX {
            settings.push((CONCURRENT_STREAMS_ID, max_streams));
        }
        let encode = |(id, value): (u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<u8> = settings.into_iter().flat_map(encode).collect();
        self.push_control(FrameType::Settings, 0, 0, &payload);
        self.push_window_update(0, MAX_CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES);
    }

    /// The next event. A request that was reset before it could begin is none. Requests wait while the client leaves
    /// too much of its answers, unless they are urgent.
    pub fn next_event(&mut self) -> Option<Event<T>> {
        loop {
            let event = match self.events.pop_front() {
                None => {
                    let (stream, head) = self.requests.pop(self.has_room() || self.is_closed())?;
                    Event::Request { stream, head }
                }
                Some(event) => event,
            };
            if let Event::Request { stream, .. } | Event::Data { stream } = &event {
                let Some(open) = self.streams.get_mut(stream) else { continue };
                open.is_announced = false;
            }
            return Some(event);
        }
    }

    /// What the owner keeps for a stream.
    pub fn slot(&mut self, stream: u32) -> Result<&mut T, StreamGone> {
        self.streams.get_mut(&stream).map(|stream| &mut stream.slot).ok_or(StreamGone)
    }

    /// Streams that are open.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Whether the connection is to be closed once its output is written. Its streams are over.
    pub fn is_closed(&self) -> bool {
        self.ending == Ending::Closed
    }

    /// Whether more should be received now.
    pub fn wants_input(&self) -> bool {
        !self.is_closed() && self.output.takes_more()
    }

    /// Whether events should be taken now: those of a closed connection, or while the client takes what they cause.
    pub fn takes_events(&self) -> bool {
        self.is_closed() || self.output.takes_more()
    }

    /// Whether another usual answer may be made: the client leaves less than `MAX_QUEUED_BYTES` of those it has.
    pub fn has_room(&self) -> bool {
        self.queued < MAX_QUEUED_BYTES
    }

    /// Bytes that the connection holds for its client, or has reserved: answers that it has not taken, and requests
    /// that did not begin or are not complete.
    pub fn held_bytes(&self) -> HeldBytes {
        let requests = self.requests.bytes() + self.receiving.held_bytes();
        HeldBytes { answers: self.queued + self.output.len(), requests }
    }

    /// Begins a graceful end: the client learns that it should begin no more streams, and may end those it has.
    pub fn shut_down(&mut self, now: Duration) {
        if self.ending == Ending::No {
            self.ending = Ending::Announced(now + crate::limits::MAX_DRAIN_DELAY);
            self.push_go_away(LARGEST_STREAM, ErrorCode::No, "");
            self.push_control(FrameType::Ping, 0, 0, &DRAIN_PING);
        }
    }

    /// Whether a graceful end is past its second step: no stream begins any more.
    pub fn is_draining(&self) -> bool {
        self.ending == Ending::Draining
    }

    /// Ends the connection although streams are open. Nothing more is sent on them: to the client, they end with the
    /// connection.
    pub fn abandon(&mut self) {
        self.ending = Ending::Closed;
    }

    /// Drops some streams of a connection that has ended or broken; whether any are left. There may be 100,000, which
    /// takes longer than others should wait.
    pub fn drop_streams(&mut self, count: usize) -> bool {
        self.abandon();
        (0..count).for_each(|_| drop(self.streams.pop_first()));
        !self.streams.is_empty()
    }

    /// The second step: the client has heard of the first, or had time to.
    pub(super) fn drain(&mut self) {
        self.ending = Ending::Draining;
        self.push_go_away(self.last_stream, ErrorCode::No, "");
        self.close_if_drained();
    }

    /// Ends the connection for a client's mistake.
    pub(super) fn fail(&mut self, code: ErrorCode, reason: &str) {
        self.push_go_away(self.last_stream, code, reason);
        self.ending = Ending::Closed;
    }

    /// Resets a stream for a client's mistake; it may not be open.
    pub(super) fn reset_for_mistake(&mut self, stream: u32, code: ErrorCode, now: Duration) {
        self.push_reset(stream, code);
        self.forget(stream);
        self.count_reset(now);
    }

    pub(super) fn count_reset(&mut self, now: Duration) {
        if !self.resets.admit(now, MAX_RESETS_PER_SECOND) {
            self.fail(ErrorCode::EnhanceYourCalm, "too_many_resets");
        }
    }

    /// Removes a stream that is reset; its owner learns of it.
    pub(super) fn forget(&mut self, stream: u32) {
        if let Some(removed) = self.remove(stream) {
            self.events.push_back(Event::Gone { stream, slot: removed.slot });
        }
    }

    /// Removes a stream.
    pub(super) fn remove(&mut self, stream: u32) -> Option<Stream<T>> {
        let mut removed = self.streams.remove(&stream)?;
        if let Some(deadline) = removed.deadline {
            self.deadlines.remove(&(deadline, stream));
        }
        let streams = &self.streams;
        drop_gone(&mut self.sending, streams, |stream| *stream);
        drop_gone(&mut self.receiving.reserving, streams, |(stream, _)| *stream);
        self.blocked.drop_gone(streams);
        self.requests.remove(stream);
        self.queued -= removed.queued;
        self.forget_received(stream, &mut removed);
        self.close_if_drained();
        Some(removed)
    }

    fn close_if_drained(&mut self) {
        if self.ending == Ending::Draining && self.streams.is_empty() {
            self.ending = Ending::Closed;
        }
    }

    pub(super) fn push_control(&mut self, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
        self.output.push(&encode_head(kind, flags, stream, payload.len()));
        self.output.push(payload);
    }

    pub(super) fn push_reset(&mut self, stream: u32, code: ErrorCode) {
        self.push_control(FrameType::RstStream, 0, stream, &(code as u32).to_be_bytes());
    }

    pub(super) fn push_window_update(&mut self, stream: u32, bytes: u32) {
        self.push_control(FrameType::WindowUpdate, 0, stream, &bytes.to_be_bytes());
    }

    fn push_go_away(&mut self, last: u32, code: ErrorCode, reason: &str) {
        let payload = [&last.to_be_bytes()[..], &(code as u32).to_be_bytes(), reason.as_bytes()].concat();
        self.push_control(FrameType::GoAway, 0, 0, &payload);
    }
}
