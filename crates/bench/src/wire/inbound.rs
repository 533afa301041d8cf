//! What comes from the server.

use ctl::CallError;
use http2::FieldSink;

use super::frames::{FIRST_PAYLOAD_BYTES, HEAD_BYTES, Prefix, content, flag, head, kind, setting};
use super::{INTERNAL, Wire};

/// Received data after which its window is given back: far from the end of the largest window.
const GIVE_BACK_BYTES: u32 = 1 << 30;

/// The largest frame that we take: the least that HTTP/2 allows, since we announced no other.
const MAX_FRAME_BYTES: usize = 16 << 10;

/// The largest payload that a server may allow (RFC 9113, section 6.5.2).
const MAX_PAYLOAD_BYTES: usize = (1 << 24) - 1;

/// Bytes of one header block: no answer of a store has nearly as many.
const MAX_BLOCK_BYTES: usize = 1 << 20;

impl Wire {
    /// Takes what a socket received.
    ///
    /// # Errors
    /// What the server did wrong, or that it refuses the connection: the connection is to be closed.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        if self.partial.is_empty() {
            let used = self.frames(bytes)?;
            self.partial.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(bytes);
        let used = self.frames(&partial)?;
        partial.drain(..used);
        self.partial = partial;
        Ok(())
    }

    /// Takes whole frames, and returns their bytes.
    fn frames(&mut self, bytes: &[u8]) -> Result<usize, CallError> {
        let mut used = 0;
        while let Some(first) = bytes[used..].first_chunk::<HEAD_BYTES>() {
            let prefix = Prefix::read(first);
            if prefix.length > MAX_FRAME_BYTES {
                return Err(Self::unavailable(&format!(
                    "a frame of {} bytes: is this HTTP/2?",
                    prefix.length
                )));
            }
            let begin = used + HEAD_BYTES;
            let Some(payload) = bytes.get(begin..begin + prefix.length) else { break };
            self.frame(prefix, payload)?;
            used = begin + prefix.length;
        }
        Ok(used)
    }

    fn frame(&mut self, prefix: Prefix, payload: &[u8]) -> Result<(), CallError> {
        let short = || Self::unavailable("a frame that is too short");
        match prefix.kind {
            kind::DATA => self.data(prefix, content(prefix, payload).ok_or_else(short)?),
            kind::HEADERS => {
                let block = content(prefix, payload).ok_or_else(short)?;
                let ends = prefix.has(flag::END_STREAM);
                if prefix.has(flag::END_HEADERS) {
                    return self.headers(prefix.stream, ends, block);
                }
                self.block = Some((prefix.stream, ends, block.to_vec()));
            }
            kind::CONTINUATION => {
                let Some((stream, ends, mut block)) = self.block.take() else {
                    return Err(Self::unavailable("a continuation of nothing"));
                };
                block.extend_from_slice(payload);
                if block.len() > MAX_BLOCK_BYTES {
                    return Err(Self::unavailable("a header block without an end"));
                }
                if prefix.has(flag::END_HEADERS) {
                    return self.headers(stream, ends, &block);
                }
                self.block = Some((stream, ends, block));
            }
            kind::RESET => {
                let code = payload.first_chunk().map_or(0, |code| u32::from_be_bytes(*code));
                self.end(prefix.stream, Err(Self::unavailable(&format!("stream reset with code {code}"))));
            }
            kind::SETTINGS if !prefix.has(flag::ACK) => {
                if !self.has_settings {
                    // A server that names no limit has none.
                    (self.has_settings, self.max_calls) = (true, usize::MAX);
                }
                payload.chunks_exact(6).for_each(|setting| {
                    let [a, b, value @ ..] = [0, 1, 2, 3, 4, 5].map(|at| setting[at]);
                    self.setting(u16::from_be_bytes([a, b]), u32::from_be_bytes(value));
                });
                head(0, kind::SETTINGS, flag::ACK, 0, &mut self.output);
                self.wake_first();
                self.send_kept_back();
            }
            kind::PING if !prefix.has(flag::ACK) => {
                head(payload.len(), kind::PING, flag::ACK, 0, &mut self.output);
                self.output.extend_from_slice(payload);
            }
            kind::GO_AWAY => {
                let last = payload.first_chunk().map_or(0, |last| u32::from_be_bytes(*last) & 0x7fff_ffff);
                self.go_away(last);
            }
            kind::WINDOW_UPDATE => {
                let bytes = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes) & 0x7fff_ffff);
                match (prefix.stream, self.calls.get_mut(&prefix.stream)) {
                    (0, _) => self.send_window += i64::from(bytes),
                    (_, Some(call)) => call.send_window += i64::from(bytes),
                    _ => {}
                }
                self.send_kept_back();
            }
            _ => {}
        }
        Ok(())
    }

    fn data(&mut self, prefix: Prefix, content: &[u8]) {
        self.taken_bytes += prefix.length as u32;
        if self.taken_bytes > GIVE_BACK_BYTES {
            let bytes = std::mem::take(&mut self.taken_bytes);
            self.give_back(0, bytes);
        }
        // The rest of a call that was given up is skipped.
        let Some(call) = self.calls.get_mut(&prefix.stream) else { return };
        call.received.extend_from_slice(content);
        call.taken_bytes += prefix.length as u32;
        let taken = call.taken_bytes;
        if taken > GIVE_BACK_BYTES {
            call.taken_bytes = 0;
        }
        if prefix.has(flag::END_STREAM) {
            self.end(prefix.stream, Err(CallError::status(INTERNAL, "the server sent no status".to_owned())));
            return;
        }
        call.wake();
        if taken > GIVE_BACK_BYTES {
            self.give_back(prefix.stream, taken);
        }
    }

    /// A whole header block: the head of an answer, or its end.
    fn headers(&mut self, stream: u32, ends: bool, block: &[u8]) -> Result<(), CallError> {
        if self.good_blocks[usize::from(ends)] == block && !block.is_empty() {
            if ends {
                self.end(stream, Ok(()));
            }
            return Ok(());
        }
        let mut status = StatusFields::default();
        let changed = self.decoder.decode(block, &mut status);
        let changed = changed.map_err(|_| Self::unavailable("a header block that cannot be decoded"))?;
        let outcome = status.outcome(ends);
        if changed {
            // An index may mean another field from now on.
            self.good_blocks.iter_mut().for_each(Vec::clear);
        } else if outcome.is_ok() {
            self.good_blocks[usize::from(ends)] = block.to_vec();
        }
        if ends || outcome.is_err() {
            self.end(stream, outcome);
        }
        Ok(())
    }

    fn end(&mut self, stream: u32, outcome: Result<(), CallError>) {
        if let Some(call) = self.calls.get_mut(&stream)
            && call.end.is_none()
        {
            call.end = Some(outcome);
            call.wake();
        }
    }

    fn setting(&mut self, id: u16, value: u32) {
        match id {
            setting::TABLE_SIZE => {
                self.encoder.resize(value);
                self.heads.clear();
            }
            setting::MAX_STREAMS => self.max_calls = value as usize,
            setting::WINDOW => {
                let wider = i64::from(value) - self.first_send_window;
                self.first_send_window = i64::from(value);
                self.calls.values_mut().for_each(|call| call.send_window += wider);
            }
            setting::FRAME_BYTES => {
                self.frame_bytes = (value as usize).clamp(FIRST_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES)
            }
            _ => {}
        }
    }

    /// The server takes no new calls, and none above `last` was begun.
    fn go_away(&mut self, last: u32) {
        let error = Self::unavailable("the server closes the connection");
        for (_, call) in self.calls.range_mut(last.saturating_add(1)..) {
            if call.end.is_none() {
                call.end = Some(Err(error.clone()));
                call.wake();
            }
        }
        self.closing.get_or_insert(error);
        self.waiting.drain(..).for_each(|(_, waker)| waker.wake());
    }
}

/// The fields of an answer that matter.
#[derive(Default)]
struct StatusFields {
    http: Vec<u8>,
    code: Option<i32>,
    message: Vec<u8>,
}

impl FieldSink for StatusFields {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b":status" => self.http = value.to_vec(),
            b"grpc-status" => {
                self.code = std::str::from_utf8(value).ok().and_then(|code| code.parse().ok()).or(Some(2));
            }
            b"grpc-message" => self.message = percent_decoded(value),
            _ => {}
        }
    }
}

impl StatusFields {
    fn outcome(self, ends: bool) -> Result<(), CallError> {
        match self.code {
            Some(0) => Ok(()),
            Some(code) => Err(CallError::status(code, String::from_utf8_lossy(&self.message).into_owned())),
            None if !ends && (self.http.is_empty() || self.http == b"200") => Ok(()),
            None => {
                let status = String::from_utf8_lossy(&self.http);
                Err(Wire::unavailable(&format!("unexpected HTTP status {status}, no gRPC status")))
            }
        }
    }
}

/// A message of a status: bytes outside of ASCII are written as `%` and two digits.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}
