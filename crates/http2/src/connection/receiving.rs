//! DATA of requests that was not taken, and the room for large messages.
//!
//! A message stays in its stream until it is whole, so what a client has sent of messages that it does not end is
//! bounded by windows. A stream's window is small; a message that is larger needs *room* of the connection, which is
//! reserved before the window is opened for it. Example: 1,000 streams send a message of 2 MiB each.
//!
//! ```text
//!   all streams        256 KiB each arrive, the prefix says 2 MiB     all ask for room
//!   the first 8        have room reserved (16 MiB): their windows open, their bytes leave the connection's window
//!   the next 256       wait, in order, each with 256 KiB in the connection's window (64 MiB)
//!   the others         find the connection's window full: the newest that waits is refused
//!   the first          is whole and taken: its room is that of the ninth
//!   the second         has had no DATA for 10 s: it is refused, and its room is that of the tenth
//! ```
//!
//! So a message that has room can always be completed, and a client that does not complete it keeps its room only while
//! no other message needs it.

use std::time::Duration;

use super::state::{Connection, StreamGone};
use super::stream::{Released, Stream};
use crate::frame::ErrorCode;
use crate::limits::{MAX_PAYLOAD_BYTES, MAX_RESERVED_BYTES, MAX_STREAM_WINDOW_BYTES};

impl<T: Default> Connection<T> {
    /// What has come on a stream and was not taken.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn unread(&self, stream: u32) -> Result<&[u8], StreamGone> {
        self.streams.get(&stream).map(|stream| &stream.unread[..]).ok_or(StreamGone)
    }

    /// Whether the client has ended its half of a stream and all of it was taken.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn is_finished(&self, stream: u32) -> Result<bool, StreamGone> {
        self.streams.get(&stream).map(|stream| stream.has_ended && stream.unread.is_empty()).ok_or(StreamGone)
    }

    /// Whether the client has ended its half of a stream, of which something may not be taken.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn has_ended(&self, stream: u32) -> Result<bool, StreamGone> {
        self.streams.get(&stream).map(|stream| stream.has_ended).ok_or(StreamGone)
    }

    /// Takes the first bytes of what has come, all of them whole messages, and returns them to the client's windows.
    ///
    /// # Errors
    /// When the stream is gone.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn take_data(&mut self, stream: u32, count: usize) -> Result<Vec<u8>, StreamGone> {
        let open = self.streams.get_mut(&stream).ok_or(StreamGone)?;
        let rest = if count == open.unread.len() { Vec::new() } else { open.unread.split_off(count) };
        let data = std::mem::replace(&mut open.unread, rest);
        let update = if open.has_ended { None } else { open.window.give_back(count) };
        let released = open.release(open.held.min(count));
        if let Some(update) = update {
            self.push_window_update(stream, update);
        }
        self.released(stream, &released);
        Ok(data)
    }

    /// Takes what has come of a body. It returns to the window of its stream, but not to that of the connection, until
    /// the owner says with [`Connection::keep`] how much of it it keeps.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn take_body(&mut self, stream: u32) -> Result<Vec<u8>, StreamGone> {
        let open = self.streams.get_mut(&stream).ok_or(StreamGone)?;
        let data = std::mem::take(&mut open.unread);
        if open.held > 0 && open.reserved == 0 && !open.has_ended {
            self.receiving.incomplete.insert(stream);
        }
        self.return_to_stream(stream, data.len());
        Ok(data)
    }

    /// The owner keeps so many bytes of the body that it has taken; the rest returns to the connection's window. When
    /// it keeps none, the message for which room was reserved is whole. What it needed less than was reserved stays
    /// open in the window of its stream, and what comes then counts for the connection.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn keep(&mut self, stream: u32, bytes: usize) -> Result<(), StreamGone> {
        let open = self.streams.get_mut(&stream).ok_or(StreamGone)?;
        if open.reserved == 0 || bytes == 0 {
            let released = open.release(open.held.saturating_sub(bytes + open.unread.len()));
            self.released(stream, &released);
        }
        Ok(())
    }

    /// A stream, which may be removed, has given up what it held.
    fn released(&mut self, stream: u32, released: &Released) {
        self.receiving.held -= released.bytes;
        self.receiving.incomplete.remove(&stream);
        self.return_to_connection(released.bytes);
        if released.reserved > 0 || released.was_reserving {
            self.receiving.reserved -= released.reserved;
            self.receiving.granted.remove(&stream);
            self.grant();
        }
    }

    /// Asks for room for a message of so many bytes, of which a part has come; whether it has it. If not, an
    /// [`Event::Data`](super::Event::Data) will say when.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn reserve(&mut self, stream: u32, bytes: usize) -> Result<bool, StreamGone> {
        let open = self.streams.get_mut(&stream).ok_or(StreamGone)?;
        if open.reserved > 0 || open.has_ended {
            return Ok(true);
        }
        if open.held > 0 {
            self.receiving.incomplete.insert(stream);
        }
        if bytes <= MAX_STREAM_WINDOW_BYTES as usize {
            self.open_window(stream, bytes);
            return Ok(true);
        }
        if !open.is_reserving {
            open.is_reserving = true;
            self.receiving.reserving.push_back((stream, bytes));
            self.grant();
        }
        Ok(self.streams.get(&stream).is_some_and(|open| open.reserved > 0))
    }

    /// Reserves room for the streams that wait for it, as long as there is some.
    fn grant(&mut self) {
        while let Some(&(stream, bytes)) = self.receiving.reserving.front() {
            let reserved = self.receiving.reserved;
            let Some(open) = self.streams.get_mut(&stream).filter(|open| open.is_reserving) else {
                self.receiving.reserving.pop_front();
                continue;
            };
            if reserved > 0 && reserved + bytes > MAX_RESERVED_BYTES {
                return;
            }
            self.receiving.reserving.pop_front();
            open.is_reserving = false;
            open.reserved = bytes;
            let held = std::mem::take(&mut open.held);
            self.receiving.reserved += bytes;
            self.receiving.granted.insert(stream, None);
            self.receiving.held -= held;
            self.receiving.incomplete.remove(&stream);
            self.return_to_connection(held);
            self.open_window(stream, bytes);
            self.announce(stream, false);
        }
    }

    /// Opens the window of a stream so far that all of a message may come.
    fn open_window(&mut self, stream: u32, bytes: usize) {
        let Some(open) = self.streams.get_mut(&stream).filter(|open| !open.has_ended) else { return };
        let missing = bytes.saturating_sub(open.unread.len());
        if let Some(update) = open.window.open(missing) {
            self.push_window_update(stream, update);
        }
    }

    /// Bytes have come, and padding.
    pub(super) fn note_received(&mut self, stream: u32, bytes: usize, padding: usize) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let returned = if open.reserved > 0 { bytes } else { 0 };
        if returned > 0 {
            self.receiving.granted.insert(stream, None);
        }
        open.held += bytes - returned;
        self.receiving.held += bytes - returned;
        self.return_to_connection(returned + padding);
        self.return_to_stream(stream, padding);
    }

    /// Whether [`Connection::settle`] has something to look at: the connection's window is full, or room was reserved.
    pub fn is_unsettled(&self) -> bool {
        self.receiving.window.left() < MAX_PAYLOAD_BYTES || !self.receiving.granted.is_empty()
    }

    /// To be called when the owner has looked at what came: a message may have been found incomplete long after its
    /// DATA filled the connection's window, and no DATA will come any more that could show it. It changes nothing
    /// unless [`Connection::is_unsettled`]. Returns whether [`Connection::deadline`] may have become earlier.
    pub fn settle(&mut self, now: Duration) -> bool {
        self.refuse_incomplete(now);
        self.receiving.note_silence(now)
    }

    /// Refuses messages that have had room for too long without DATA, as long as others wait for it.
    pub(super) fn refuse_silent(&mut self, now: Duration) {
        while !self.is_closed()
            && let Some(silent) = self.receiving.silent(now)
        {
            self.reset_for_mistake(silent, ErrorCode::RefusedStream, now);
        }
    }

    /// If the client has filled the connection's window with parts of messages, refuses the newest of them.
    pub(super) fn refuse_incomplete(&mut self, now: Duration) {
        if self.receiving.window.left() >= MAX_PAYLOAD_BYTES || self.is_closed() {
            return;
        }
        if let Some(update) = self.receiving.window.update() {
            self.push_window_update(0, update);
        }
        while self.receiving.window.left() < MAX_PAYLOAD_BYTES
            && !self.is_closed()
            && let Some(newest) = self.receiving.incomplete.pop_last()
        {
            self.reset_for_mistake(newest, ErrorCode::RefusedStream, now);
            if let Some(update) = self.receiving.window.update() {
                self.push_window_update(0, update);
            }
        }
    }

    /// A stream was removed, with what it held.
    pub(super) fn forget_received(&mut self, stream: u32, removed: &mut Stream<T>) {
        let released = removed.release(removed.held);
        self.released(stream, &released);
    }

    fn return_to_stream(&mut self, stream: u32, bytes: usize) {
        let open = self.streams.get_mut(&stream).filter(|open| !open.has_ended);
        if let Some(update) = open.and_then(|open| open.window.give_back(bytes)) {
            self.push_window_update(stream, update);
        }
    }

    pub(super) fn return_to_connection(&mut self, bytes: usize) {
        if let Some(update) = self.receiving.window.give_back(bytes) {
            self.push_window_update(0, update);
        }
    }
}
