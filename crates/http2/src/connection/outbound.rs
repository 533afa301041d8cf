//! Answers: headers, data as windows allow, trailers.
//!
//! Headers are encoded when they are sent, trailers when the data before them is framed, because the order of blocks
//! is the state of compression. Streams that have data and a window take turns, a frame each.

use std::time::Duration;

use bytes::Bytes;

use super::answers::AnswerPattern;
use super::state::{Connection, Event, StreamGone};
use super::stream::OwnedField;
use crate::frame::{END_HEADERS, END_STREAM, ErrorCode, FrameType, encode_head};
use crate::hpack::Field;
use crate::limits::{MAX_FRAMES_PER_ROUND, MAX_PAYLOAD_BYTES};
use crate::output::Output;

/// Room kept for the next header block: those of usual answers have less.
const MAX_KEPT_BLOCK_BYTES: usize = 128;

impl<T: Default> Connection<T> {
    /// What is to be written; data is framed as far as windows and the room allow.
    pub fn output(&mut self) -> &mut Output {
        self.pump();
        &mut self.output
    }

    /// Sends the headers of an answer; with `ends`, they are all of it.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn send_headers(&mut self, stream: u32, fields: &[Field<'_>], ends: bool) -> Result<(), StreamGone> {
        if !self.streams.contains_key(&stream) {
            return Err(StreamGone);
        }
        self.pings.sent();
        self.push_headers(stream, fields, ends);
        if ends {
            self.end(stream);
        }
        Ok(())
    }

    /// Answers a request that is refused for its head with these headers alone. As in grpc-go, they do not permit
    /// further pings, as what is sent for a call does.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn refuse(&mut self, stream: u32, fields: &[Field<'_>]) -> Result<(), StreamGone> {
        if !self.streams.contains_key(&stream) {
            return Err(StreamGone);
        }
        self.push_headers(stream, fields, true);
        self.end(stream);
        Ok(())
    }

    /// Sends data, now or when windows allow.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn send_data(&mut self, stream: u32, data: Bytes) -> Result<(), StreamGone> {
        match self.begin_short(stream, data.len())? {
            true => self.output.push_part(data),
            false => self.queue(stream, [data]),
        }
        Ok(())
    }

    /// Sends data that lies in several places, now or when windows allow: first a copy of `front`, then `parts`. Where
    /// frames begin has nothing to do with where parts do, so what is short is one frame.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn send_parts(&mut self, stream: u32, front: &[u8], parts: Vec<Bytes>) -> Result<(), StreamGone> {
        let length = front.len() + parts.iter().map(Bytes::len).sum::<usize>();
        if self.begin_short(stream, length)? {
            self.output.push(front);
            parts.into_iter().for_each(|part| self.output.push_part(part));
        } else {
            self.queue(stream, std::iter::once(Bytes::copy_from_slice(front)).chain(parts));
        }
        Ok(())
    }

    /// Answers with what `HttpSettings::usual_answer` says around one message, and ends the stream: the same as
    /// [`Connection::send_headers`], [`Connection::send_parts`] and [`Connection::finish`].
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn answer(&mut self, stream: u32, front: &[u8], parts: Vec<Bytes>) -> Result<(), StreamGone> {
        let length = front.len() + parts.iter().map(Bytes::len).sum::<usize>();
        let is_short = self.is_short(stream, length)?;
        let Some(pattern) = self.answer_pattern.as_mut().filter(|_| is_short) else {
            return self.answer_in_steps(stream, front, parts);
        };
        self.send_window -= length as i64;
        self.pings.sent();
        let (before, behind) = pattern.around(stream, length);
        self.output.push(before);
        self.output.push(front);
        parts.into_iter().for_each(|part| self.output.push_part(part));
        self.output.push(behind);
        self.end(stream);
        Ok(())
    }

    /// The same without a pattern; makes one if there can be.
    fn answer_in_steps(&mut self, stream: u32, front: &[u8], parts: Vec<Bytes>) -> Result<(), StreamGone> {
        let answer = self.settings.usual_answer;
        self.send_headers(stream, answer.head, false)?;
        self.send_parts(stream, front, parts)?;
        self.finish(stream, answer.trailers)?;
        if self.answer_pattern.is_none() {
            self.answer_pattern = AnswerPattern::of(&answer, &self.encoder);
        }
        Ok(())
    }

    /// Whether data is one frame that need not wait.
    fn is_short(&self, stream: u32, length: usize) -> Result<bool, StreamGone> {
        let open = self.streams.get(&stream).ok_or(StreamGone)?;
        let window = self.send_window.min(self.initial_window - open.outstanding);
        let fits = length <= MAX_PAYLOAD_BYTES.min(self.output.room()) && length as i64 <= window;
        Ok(fits && open.queued == 0 && self.sending.is_empty())
    }

    /// Begins the one frame of data that need not wait: the usual answer needs no queue. The caller adds its bytes to
    /// the output, if this returns true.
    fn begin_short(&mut self, stream: u32, length: usize) -> Result<bool, StreamGone> {
        if !self.is_short(stream, length)? {
            return Ok(false);
        }
        let open = self.streams.get_mut(&stream).ok_or(StreamGone)?;
        open.outstanding += length as i64;
        self.send_window -= length as i64;
        self.pings.sent();
        self.output.push(&encode_head(FrameType::Data, 0, stream, length));
        Ok(true)
    }

    /// Queues data behind what its stream has queued, and sends what windows allow.
    fn queue(&mut self, stream: u32, parts: impl IntoIterator<Item = Bytes>) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            self.queued += part.len();
            open.queued += part.len();
            open.queue.push_back(part);
        }
        self.wait_to_send(stream);
        self.pump();
    }

    /// Ends the answer behind its data, with trailers if there are any.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn finish(&mut self, stream: u32, trailers: &[Field<'_>]) -> Result<(), StreamGone> {
        let open = self.streams.get_mut(&stream).ok_or(StreamGone)?;
        if open.queued > 0 {
            open.ending = Some(trailers.iter().map(OwnedField::of).collect());
            return Ok(());
        }
        self.push_end(stream, trailers);
        Ok(())
    }

    /// Whether all data of a stream is on its way; if not, an [`Event::Sent`] will say when.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn is_sent(&self, stream: u32) -> Result<bool, StreamGone> {
        self.streams.get(&stream).map(|stream| stream.queued == 0).ok_or(StreamGone)
    }

    /// Resets a stream, if it is open. A connection that is closed says nothing any more.
    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        let is_closed = self.is_closed();
        if self.remove(stream).is_some() && !is_closed {
            self.push_reset(stream, code);
        }
    }

    /// Resets a stream at a time since the connection began, unless it has ended by then.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn set_deadline(&mut self, stream: u32, at: Duration) -> Result<(), StreamGone> {
        let open = self.streams.get_mut(&stream).ok_or(StreamGone)?;
        if let Some(before) = open.deadline.replace(at) {
            self.deadlines.remove(&(before, stream));
        }
        self.deadlines.insert((at, stream));
        Ok(())
    }

    /// Puts a stream that has data into the queue of those that send, or among those that are blocked by flow control.
    pub(super) fn wait_to_send(&mut self, stream: u32) {
        let Some(open) = self.streams.get_mut(&stream).filter(|open| open.queued > 0) else { return };
        let has_window = open.outstanding < self.initial_window;
        if has_window && !open.is_sending {
            open.is_sending = true;
            self.sending.push_back(stream);
        }
        if !has_window && !open.is_blocked {
            open.is_blocked = true;
            self.blocked.streams.push_back(stream);
        }
    }

    /// Whether there is more to do than was done at once: blocked streams are left to be checked since the initial
    /// window has grown, or all output is on its way and there is data for more. [`Connection::output`] should be
    /// called again.
    pub fn has_more_output(&self) -> bool {
        let has_data = self.output.is_empty() && self.send_window > 0 && !self.sending.is_empty();
        (self.blocked.unvisited > 0 || has_data) && !self.is_closed()
    }

    /// Frames some data, as far as windows and the room allow.
    fn pump(&mut self) {
        for stream in self.blocked.take_unvisited() {
            if let Some(open) = self.streams.get_mut(&stream) {
                open.is_blocked = false;
                self.wait_to_send(stream);
            }
        }
        let mut frames = 0;
        while frames < MAX_FRAMES_PER_ROUND
            && self.send_window > 0
            && self.output.room() > 0
            && let Some(stream) = self.sending.pop_front()
        {
            self.send_frame(stream);
            frames += 1;
        }
    }

    /// Sends the next frame of a stream, which leaves the queue for its end or for its window.
    fn send_frame(&mut self, stream: u32) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.is_sending = false;
        let window = self.send_window.min(self.initial_window - open.outstanding);
        let length = open.queued.min(MAX_PAYLOAD_BYTES).min(usize::try_from(window).unwrap_or(0));
        if length == 0 {
            return;
        }
        open.queued -= length;
        self.queued -= length;
        open.outstanding += length as i64;
        self.send_window -= length as i64;
        self.pings.sent();
        self.output.push(&encode_head(FrameType::Data, 0, stream, length));
        let mut left = length;
        while left > 0
            && let Some(part) = open.queue.front_mut()
        {
            let some = part.split_to(part.len().min(left));
            left -= some.len();
            if part.is_empty() {
                open.queue.pop_front();
            }
            self.output.push_part(some);
        }
        assert_eq!(left, 0, "the queue has what it counted");
        if open.queued > 0 {
            return self.wait_to_send(stream);
        }
        match open.ending.take() {
            None => self.events.push_back(Event::Sent { stream }),
            Some(trailers) => {
                let trailers: Vec<_> = trailers.iter().map(OwnedField::borrowed).collect();
                self.push_end(stream, &trailers);
            }
        }
    }

    /// Ends our half of a stream, whose data is on its way.
    fn push_end(&mut self, stream: u32, trailers: &[Field<'_>]) {
        if trailers.is_empty() {
            self.output.push(&encode_head(FrameType::Data, END_STREAM, stream, 0));
        } else {
            self.pings.sent();
            self.push_headers(stream, trailers, true);
        }
        self.end(stream);
    }

    /// Our half is over, and with it the stream: a client that has not ended its half learns that the rest is not
    /// wanted.
    fn end(&mut self, stream: u32) {
        if self.remove(stream).is_some_and(|removed| !removed.has_ended) {
            self.push_reset(stream, ErrorCode::No);
        }
    }

    fn push_headers(&mut self, stream: u32, fields: &[Field<'_>], ends: bool) {
        let mut block = std::mem::take(&mut self.block_buffer);
        let added = self.encoder.added_fields();
        self.encoder.encode(fields, &mut block);
        if self.encoder.added_fields() != added {
            self.answer_pattern = None;
        }
        let end_stream = if ends { END_STREAM } else { 0 };
        let (first, mut rest) = block.split_at(block.len().min(MAX_PAYLOAD_BYTES));
        let end_headers = |rest: &[u8]| if rest.is_empty() { END_HEADERS } else { 0 };
        let flags = end_stream | end_headers(rest);
        self.output.push(&encode_head(FrameType::Headers, flags, stream, first.len()));
        self.output.push(first);
        while !rest.is_empty() {
            let next;
            (next, rest) = rest.split_at(rest.len().min(MAX_PAYLOAD_BYTES));
            self.output.push(&encode_head(FrameType::Continuation, end_headers(rest), stream, next.len()));
            self.output.push(next);
        }
        block.clear();
        block.shrink_to(MAX_KEPT_BLOCK_BYTES);
        self.block_buffer = block;
    }
}
