//! A stream and its windows.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::hpack::Field;
use crate::limits::MAX_STREAM_WINDOW_BYTES;

/// What the client may still send, of a stream or of the connection.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    left: u32,
    /// Bytes that were read since the last update.
    read: u32,
    max: u32,
}

impl ReceiveWindow {
    pub(super) fn new(max: u32) -> ReceiveWindow {
        ReceiveWindow { left: max, read: 0, max }
    }

    /// Bytes came; whether the client was allowed to send them.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left = u32::try_from(bytes).ok().and_then(|bytes| self.left.checked_sub(bytes));
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Bytes that had come were read. Returns an update for the client when half of the window waits to be returned:
    /// an update for each read would cost both sides a frame.
    pub(super) fn give_back(&mut self, bytes: usize) -> Option<u32> {
        self.read += bytes as u32;
        if self.read < self.max / 2 {
            return None;
        }
        self.left += self.read;
        assert!(self.left <= self.max, "more was read than came");
        Some(std::mem::take(&mut self.read))
    }
}

/// One request and its answer.
#[derive(Debug)]
pub(super) struct Stream<T> {
    /// The owner's.
    pub(super) slot: T,
    /// DATA that was not read.
    pub(super) unread: Vec<u8>,
    pub(super) window: ReceiveWindow,
    /// The client has ended its half.
    pub(super) has_ended: bool,
    /// An event about arrivals waits to be taken.
    pub(super) is_announced: bool,
    /// Data that was not framed yet, and its bytes.
    pub(super) queue: VecDeque<Bytes>,
    pub(super) queued: usize,
    /// What follows the data.
    pub(super) ending: Option<Vec<OwnedField>>,
    /// Bytes sent less those that the client has returned to the window: the window is the initial one less these. So a
    /// new initial window costs nothing for each stream.
    pub(super) outstanding: i64,
    /// The stream waits in the queue of those that may send.
    pub(super) is_sending: bool,
    pub(super) deadline: Option<Duration>,
}

impl<T: Default> Stream<T> {
    pub(super) fn new(has_ended: bool) -> Stream<T> {
        Stream {
            slot: T::default(),
            unread: Vec::new(),
            window: ReceiveWindow::new(MAX_STREAM_WINDOW_BYTES),
            has_ended,
            is_announced: true,
            queue: VecDeque::new(),
            queued: 0,
            ending: None,
            outstanding: 0,
            is_sending: false,
            deadline: None,
        }
    }
}

/// A trailer that waits for the data before it.
#[derive(Debug)]
pub(super) struct OwnedField {
    name: String,
    value: Vec<u8>,
    is_usual: bool,
}

impl OwnedField {
    pub(super) fn of(field: &Field<'_>) -> OwnedField {
        OwnedField { name: field.name.to_owned(), value: field.value.to_owned(), is_usual: field.is_usual }
    }

    pub(super) fn borrowed(&self) -> Field<'_> {
        Field { name: &self.name, value: &self.value, is_usual: self.is_usual }
    }
}
