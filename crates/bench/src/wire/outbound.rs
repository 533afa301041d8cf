//! What goes to the server: the greeting, calls, and messages as far as the server's windows allow.

use std::task::Context;

use ctl::CallError;
use http2::Field;

use super::frames::{flag, head, kind, setting};
use super::{Call, FIRST_WINDOW_BYTES, Head, MAX_STREAM, Wire};

/// The largest window there is.
const MAX_WINDOW_BYTES: u32 = (1 << 31) - 1;

/// The name that servers see.
const USER_AGENT: &[u8] = concat!("stele-bench/", env!("CARGO_PKG_VERSION")).as_bytes();

impl Wire {
    pub(super) fn greet(&mut self) {
        self.output.extend_from_slice(http2::PREFACE);
        let settings = [(setting::PUSH, 0), (setting::WINDOW, MAX_WINDOW_BYTES)];
        head(6 * settings.len(), kind::SETTINGS, 0, 0, &mut self.output);
        for (id, value) in settings {
            self.output.extend_from_slice(&u16::to_be_bytes(id));
            self.output.extend_from_slice(&u32::to_be_bytes(value));
        }
        self.give_back(0, MAX_WINDOW_BYTES - FIRST_WINDOW_BYTES as u32);
    }

    /// Widens the window of a stream, or of the connection (0).
    pub(super) fn give_back(&mut self, stream: u32, bytes: u32) {
        head(4, kind::WINDOW_UPDATE, 0, stream, &mut self.output);
        self.output.extend_from_slice(&bytes.to_be_bytes());
    }

    /// Whether a call may begin now: callers that wait come first, in their order. If not, `queued` becomes the number
    /// of the caller in the queue, and it is woken when it is the first, or when the connection ended
    /// ([`Wire::closing`]). A caller with a number that waits no longer must [`Wire::leave`].
    pub(crate) fn has_room(&mut self, queued: &mut Option<u64>, cx: &Context<'_>) -> bool {
        let has_room = self.calls.len() < self.max_calls;
        match *queued {
            None if has_room && self.waiting.is_empty() => return true,
            None => {
                *queued = Some(self.next_number);
                self.waiting.push_back((self.next_number, cx.waker().clone()));
                self.next_number += 1;
            }
            Some(own) if has_room && self.waiting.front().is_some_and(|(first, _)| *first == own) => {
                self.waiting.pop_front();
                *queued = None;
                return true;
            }
            Some(own) => {
                if let Ok(at) = self.waiting.binary_search_by_key(&own, |(number, _)| *number) {
                    self.waiting[at].1.clone_from(cx.waker());
                }
            }
        }
        false
    }

    /// Leaves the queue of those that wait.
    pub(crate) fn leave(&mut self, queued: u64) {
        if let Ok(at) = self.waiting.binary_search_by_key(&queued, |(number, _)| *number) {
            self.waiting.remove(at);
            self.wake_first();
        }
    }

    /// Wakes who waits longest, if a call may begin.
    pub(super) fn wake_first(&self) {
        if self.calls.len() < self.max_calls
            && let Some((_, waker)) = self.waiting.front()
        {
            waker.wake_by_ref();
        }
    }

    /// Begins a call whose first message is `message`, without its prefix, and returns its stream. `last` says that no
    /// other message follows.
    ///
    /// # Errors
    /// Why the connection takes no new call.
    pub(crate) fn open(
        &mut self,
        method: &'static str,
        message: &[u8],
        last: bool,
    ) -> Result<u32, CallError> {
        if self.next_stream > MAX_STREAM {
            self.closing.get_or_insert(Self::unavailable("the connection's streams are used up"));
        }
        if let Some(error) = &self.closing {
            return Err(error.clone());
        }
        let stream = self.next_stream;
        self.next_stream += 2;
        self.head_of(method, stream);
        self.calls.insert(stream, Call { send_window: self.first_send_window, ..Call::default() });
        self.send(stream, message, last);
        self.wake_first();
        Ok(stream)
    }

    /// Sends one more message of a call; nothing when the call is over.
    pub(crate) fn send(&mut self, stream: u32, message: &[u8], last: bool) {
        let Some(call) = self.calls.get_mut(&stream).filter(|call| call.end.is_none()) else { return };
        let length = 5 + message.len();
        let [a, b, c, d] = (message.len() as u32).to_be_bytes();
        let prefix = [0, a, b, c, d];
        let window = self.send_window.min(call.send_window);
        if call.unsent.is_empty() && length <= self.frame_bytes && length as i64 <= window {
            self.send_window -= length as i64;
            call.send_window -= length as i64;
            let flags = if last { flag::END_STREAM } else { 0 };
            head(length, kind::DATA, flags, stream, &mut self.output);
            self.output.extend_from_slice(&prefix);
            self.output.extend_from_slice(message);
            return;
        }
        if call.unsent.is_empty() {
            self.kept_back.push_back(stream);
        }
        call.unsent.extend(prefix);
        call.unsent.extend(message);
        call.ends_after = last;
        self.send_kept_back();
    }

    /// Sends what windows kept back, as far as they are wide enough now.
    pub(super) fn send_kept_back(&mut self) {
        for _ in 0..self.kept_back.len() {
            let Some(stream) = self.kept_back.pop_front() else { return };
            let Some(call) = self.calls.get_mut(&stream) else { continue };
            while !call.unsent.is_empty() {
                let window = self.send_window.min(call.send_window).max(0) as usize;
                let length = call.unsent.len().min(window).min(self.frame_bytes);
                if length == 0 {
                    self.kept_back.push_back(stream);
                    break;
                }
                let is_end = call.ends_after && length == call.unsent.len();
                let flags = if is_end { flag::END_STREAM } else { 0 };
                head(length, kind::DATA, flags, stream, &mut self.output);
                let (front, back) = call.unsent.as_slices();
                let from_front = front.len().min(length);
                self.output.extend_from_slice(&front[..from_front]);
                self.output.extend_from_slice(&back[..length - from_front]);
                call.unsent.drain(..length);
                self.send_window -= length as i64;
                call.send_window -= length as i64;
            }
        }
    }

    /// Removes a call; one that is not over is reset.
    pub(crate) fn close(&mut self, stream: u32) {
        let Some(call) = self.calls.remove(&stream) else { return };
        if call.end.is_none() && self.closing.is_none() {
            const CANCEL: u32 = 8;
            head(4, kind::RESET, 0, stream, &mut self.output);
            self.output.extend_from_slice(&CANCEL.to_be_bytes());
        }
        self.wake_first();
    }

    fn head_of(&mut self, method: &'static str, stream: u32) {
        let added_fields = self.encoder.added_fields();
        let known = self.heads.iter().position(|known| known.method == method);
        if let Some(known) = known.filter(|known| self.heads[*known].added_fields == added_fields) {
            let block = &self.heads[known].block;
            head(block.len(), kind::HEADERS, flag::END_HEADERS, stream, &mut self.output);
            self.output.extend_from_slice(block);
            return;
        }
        let usual = |name, value| Field { name, value, is_usual: true };
        let mut fields = vec![
            usual(":method", b"POST"),
            usual(":scheme", self.scheme.as_bytes()),
            usual(":path", method.as_bytes()),
            usual(":authority", self.authority.as_bytes()),
            usual("content-type", b"application/grpc"),
            usual("te", b"trailers"),
            usual("user-agent", USER_AGENT),
        ];
        if let Some(token) = &self.token {
            fields.push(usual("token", token.as_bytes()));
        }
        let mut block = Vec::new();
        self.encoder.encode(&fields, &mut block);
        head(block.len(), kind::HEADERS, flag::END_HEADERS, stream, &mut self.output);
        self.output.extend_from_slice(&block);
        // A block that added fields is not that of the next call.
        if self.encoder.added_fields() == added_fields {
            self.heads.retain(|known| known.method != method);
            self.heads.push(Head { method, block, added_fields });
        }
    }
}
