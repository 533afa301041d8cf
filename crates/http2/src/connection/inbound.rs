//! Frames that arrive, but HEADERS.
//!
//! Bytes may be cut anywhere. Whole frames are handled where they lie; only the beginning of an incomplete one is kept.

use std::time::Duration;

use super::state::{
    Connection, DRAIN_PING, Ending, Event, FRAME_SIZE_ID, INITIAL_WINDOW_ID, PUSH_ID, TABLE_SIZE_ID,
};
use crate::PREFACE;
use crate::frame::{ACK, END_STREAM, ErrorCode, FrameFailure, FrameHead, FrameType, HEAD_BYTES, unpadded};
use crate::limits::{MAX_OVERHEAD_FRAMES_PER_SECOND, MAX_PAYLOAD_BYTES, MAX_WINDOW_BYTES};

impl<T: Default> Connection<T> {
    /// Takes bytes that came from the client at a time since the connection began. Events say what they were.
    pub fn receive(&mut self, mut bytes: &[u8], now: Duration) {
        self.timers.heard(now);
        while !self.is_closed() && !bytes.is_empty() {
            match self.receive_frame(&mut bytes, now) {
                Ok(()) => {}
                Err(FrameFailure::Connection(code, reason)) => self.fail(code, reason),
                Err(FrameFailure::Stream(stream, code)) => self.reset_for_mistake(stream, code, now),
            }
        }
    }

    /// Handles the next frame, or keeps what there is of it.
    fn receive_frame(&mut self, bytes: &mut &[u8], now: Duration) -> Result<(), FrameFailure> {
        if self.preface_bytes < PREFACE.len() {
            return self.receive_preface(bytes);
        }
        if self.partial.is_empty() {
            let Some((head, payload)) = checked_head(bytes)?.and_then(|head| {
                let payload = bytes.get(HEAD_BYTES..HEAD_BYTES + head.length)?;
                Some((head, payload))
            }) else {
                self.partial.extend_from_slice(std::mem::take(bytes));
                return Ok(());
            };
            *bytes = &bytes[HEAD_BYTES + head.length..];
            return self.on_frame(&head, payload, now);
        }
        // A frame began earlier: add what it lacks, first of its head, then of its payload.
        let head = checked_head(&self.partial)?;
        let wanted = HEAD_BYTES + head.map_or(0, |head| head.length);
        let (more, rest) = bytes.split_at(bytes.len().min(wanted - self.partial.len()));
        self.partial.extend_from_slice(more);
        *bytes = rest;
        match checked_head(&self.partial)? {
            Some(head) if self.partial.len() == HEAD_BYTES + head.length => {
                let frame = std::mem::take(&mut self.partial);
                self.on_frame(&head, &frame[HEAD_BYTES..], now)
            }
            _ => Ok(()),
        }
    }

    fn receive_preface(&mut self, bytes: &mut &[u8]) -> Result<(), FrameFailure> {
        let expected = &PREFACE[self.preface_bytes..];
        let (some, rest) = bytes.split_at(bytes.len().min(expected.len()));
        if *some != expected[..some.len()] {
            return Err(FrameFailure::protocol("no preface"));
        }
        self.preface_bytes += some.len();
        *bytes = rest;
        Ok(())
    }

    fn on_frame(&mut self, head: &FrameHead, payload: &[u8], now: Duration) -> Result<(), FrameFailure> {
        if !self.has_settings && head.kind != FrameType::Settings {
            return Err(FrameFailure::protocol("no settings"));
        }
        if self.block.is_some() && head.kind != FrameType::Continuation {
            return Err(FrameFailure::protocol("a header block is not complete"));
        }
        match head.kind {
            FrameType::Data => self.on_data(head, payload, now),
            FrameType::Headers => self.on_headers(head, payload, now),
            FrameType::Continuation => self.on_continuation(head, payload),
            FrameType::RstStream => self.on_reset(head, payload, now),
            FrameType::Settings => self.on_settings(head, payload, now),
            FrameType::Ping => self.on_ping(head, payload, now),
            FrameType::WindowUpdate => self.on_window_update(head, payload),
            FrameType::GoAway if head.stream != 0 => Err(FrameFailure::protocol("GOAWAY of a stream")),
            FrameType::GoAway if payload.len() < 8 => Err(FrameFailure::size("GOAWAY")),
            FrameType::Priority if head.stream == 0 => Err(FrameFailure::protocol("PRIORITY of stream 0")),
            FrameType::Priority if payload.len() != 5 => Err(FrameFailure::size("PRIORITY")),
            FrameType::PushPromise => Err(FrameFailure::protocol("PUSH_PROMISE of a client")),
            // A client that goes away ends its streams and the connection by itself. Priorities are not used.
            FrameType::GoAway | FrameType::Priority | FrameType::Unknown => self.on_overhead(now),
        }
    }

    /// Counts a frame that carries nothing.
    fn on_overhead(&mut self, now: Duration) -> Result<(), FrameFailure> {
        match self.overhead.admit(now, MAX_OVERHEAD_FRAMES_PER_SECOND) {
            true => Ok(()),
            false => Err(FrameFailure::Connection(ErrorCode::EnhanceYourCalm, "too_many_frames")),
        }
    }

    fn on_data(&mut self, head: &FrameHead, payload: &[u8], now: Duration) -> Result<(), FrameFailure> {
        if head.stream == 0 {
            return Err(FrameFailure::protocol("DATA of stream 0"));
        }
        let data = unpadded(head, payload)?;
        if !self.receiving.window.take(payload.len()) {
            return Err(FrameFailure::Connection(ErrorCode::FlowControl, "more DATA than the window"));
        }
        let ends = head.has(END_STREAM);
        if data.is_empty() && !ends {
            self.on_overhead(now)?;
        }
        let Some(stream) = self.streams.get_mut(&head.stream) else {
            // Of a stream that we have ended, as a rule: the client did not know yet.
            self.check_begun(head.stream)?;
            self.return_to_connection(payload.len());
            return Ok(());
        };
        let failure = match stream.window.take(payload.len()) {
            _ if stream.has_ended => Some(ErrorCode::StreamClosed),
            true => None,
            false => Some(ErrorCode::FlowControl),
        };
        if let Some(code) = failure {
            // The stream goes; its bytes return to the connection's window.
            stream.has_ended = true;
            self.return_to_connection(payload.len());
            return Err(FrameFailure::Stream(head.stream, code));
        }
        stream.unread.extend_from_slice(data);
        self.note_received(head.stream, data.len(), payload.len() - data.len());
        self.announce(head.stream, ends);
        self.refuse_incomplete(now);
        Ok(())
    }

    /// Something has come on a stream; `ends`: the client's half is over.
    pub(super) fn announce(&mut self, stream: u32, ends: bool) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.has_ended |= ends;
        if ends {
            // Its owner has all of it, and refusing it would only make the client send it again.
            self.receiving.incomplete.remove(&stream);
        }
        if !std::mem::replace(&mut open.is_announced, true) {
            self.events.push_back(Event::Data { stream });
        }
    }

    /// Checks that the client has begun a stream, which may be over.
    fn check_begun(&self, stream: u32) -> Result<(), FrameFailure> {
        match stream % 2 == 1 && stream <= self.last_stream {
            true => Ok(()),
            false => Err(FrameFailure::protocol("a stream that was never begun")),
        }
    }

    fn on_reset(&mut self, head: &FrameHead, payload: &[u8], now: Duration) -> Result<(), FrameFailure> {
        if payload.len() != 4 {
            return Err(FrameFailure::size("RST_STREAM"));
        }
        self.check_begun(head.stream)?;
        self.forget(head.stream);
        self.count_reset(now);
        Ok(())
    }

    fn on_settings(&mut self, head: &FrameHead, payload: &[u8], now: Duration) -> Result<(), FrameFailure> {
        if head.stream != 0 {
            return Err(FrameFailure::protocol("SETTINGS of a stream"));
        }
        if !payload.len().is_multiple_of(6) || head.has(ACK) && !payload.is_empty() {
            return Err(FrameFailure::size("SETTINGS"));
        }
        self.has_settings = true;
        self.on_overhead(now)?;
        if head.has(ACK) {
            return Ok(());
        }
        for &[i, d, a, b, c, e] in payload.as_chunks::<6>().0 {
            self.on_setting(u16::from_be_bytes([i, d]), u32::from_be_bytes([a, b, c, e]))?;
        }
        self.push_control(FrameType::Settings, ACK, 0, &[]);
        Ok(())
    }

    fn on_setting(&mut self, id: u16, value: u32) -> Result<(), FrameFailure> {
        match id {
            TABLE_SIZE_ID => {
                self.encoder.resize(value);
                self.answer_pattern = None;
            }
            PUSH_ID if value > 1 => return Err(FrameFailure::protocol("ENABLE_PUSH")),
            INITIAL_WINDOW_ID if i64::from(value) > MAX_WINDOW_BYTES => {
                return Err(FrameFailure::Connection(ErrorCode::FlowControl, "INITIAL_WINDOW_SIZE"));
            }
            INITIAL_WINDOW_ID => {
                if i64::from(value) > self.initial_window {
                    self.blocked.visit_all();
                }
                self.initial_window = i64::from(value);
            }
            FRAME_SIZE_ID if !(MAX_PAYLOAD_BYTES..1 << 24).contains(&(value as usize)) => {
                return Err(FrameFailure::protocol("MAX_FRAME_SIZE"));
            }
            // A client allows more of headers and frames than we send, and we begin no streams.
            _ => {}
        }
        Ok(())
    }

    fn on_ping(&mut self, head: &FrameHead, payload: &[u8], now: Duration) -> Result<(), FrameFailure> {
        if head.stream != 0 {
            return Err(FrameFailure::protocol("PING of a stream"));
        }
        if payload.len() != DRAIN_PING.len() {
            return Err(FrameFailure::size("PING"));
        }
        self.on_overhead(now)?;
        if head.has(ACK) {
            if matches!(self.ending, Ending::Announced(_)) && payload == DRAIN_PING {
                self.drain();
            }
            return Ok(());
        }
        self.push_control(FrameType::Ping, ACK, 0, payload);
        let min_interval = self.settings.keepalive.min_client_interval;
        match self.pings.admit(now, !self.streams.is_empty(), min_interval) {
            true => Ok(()),
            false => Err(FrameFailure::Connection(ErrorCode::EnhanceYourCalm, "too_many_pings")),
        }
    }

    fn on_window_update(&mut self, head: &FrameHead, payload: &[u8]) -> Result<(), FrameFailure> {
        let Ok(increment) = <[u8; 4]>::try_from(payload).map(u32::from_be_bytes) else {
            return Err(FrameFailure::size("WINDOW_UPDATE"));
        };
        let increment = i64::from(increment & (u32::MAX >> 1));
        if head.stream == 0 {
            self.send_window += increment;
            return match increment {
                0 => Err(FrameFailure::protocol("WINDOW_UPDATE of 0")),
                _ if self.send_window > MAX_WINDOW_BYTES => {
                    Err(FrameFailure::Connection(ErrorCode::FlowControl, "the window is too large"))
                }
                _ => Ok(()),
            };
        }
        self.check_begun(head.stream)?;
        let Some(stream) = self.streams.get_mut(&head.stream) else { return Ok(()) };
        stream.outstanding -= increment;
        if increment == 0 {
            return Err(FrameFailure::Stream(head.stream, ErrorCode::Protocol));
        }
        if self.initial_window - stream.outstanding > MAX_WINDOW_BYTES {
            return Err(FrameFailure::Stream(head.stream, ErrorCode::FlowControl));
        }
        self.wait_to_send(head.stream);
        Ok(())
    }
}

/// The head of the frame that bytes begin with, once it is there.
fn checked_head(bytes: &[u8]) -> Result<Option<FrameHead>, FrameFailure> {
    match FrameHead::decode(bytes) {
        Some(head) if head.length > MAX_PAYLOAD_BYTES => Err(FrameFailure::size("the frame is too large")),
        head => Ok(head),
    }
}
