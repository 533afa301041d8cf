//! A stream and its windows.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::hpack::Field;
use crate::limits::{MAX_STREAM_WINDOW_BYTES, MAX_WINDOW_BYTES};

/// What the client may still send, of a stream or of the connection.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    left: u32,
    /// Bytes that were taken since the last update.
    taken: u32,
    max: u32,
    /// By how much it was opened beyond `max`, for a large message.
    extra: u32,
}

impl ReceiveWindow {
    pub(super) fn new(max: u32) -> ReceiveWindow {
        ReceiveWindow { left: max, taken: 0, max, extra: 0 }
    }

    pub(super) fn left(&self) -> usize {
        self.left as usize
    }

    /// Bytes came; whether the client was allowed to send them.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left = u32::try_from(bytes).ok().and_then(|bytes| self.left.checked_sub(bytes));
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Bytes that had come were taken. Returns an update for the client when half of the window waits to be returned:
    /// an update for each read would cost both sides a frame.
    pub(super) fn give_back(&mut self, bytes: usize) -> Option<u32> {
        let bytes = bytes as u32;
        let of_extra = bytes.min(self.extra);
        self.extra -= of_extra;
        self.taken += bytes - of_extra;
        if self.taken < self.max / 2 { None } else { self.update() }
    }

    /// An update for what was taken, however little it is.
    pub(super) fn update(&mut self) -> Option<u32> {
        let taken = std::mem::take(&mut self.taken);
        self.left += taken;
        assert!(self.left <= self.max + self.extra, "more was taken than came");
        (taken > 0).then_some(taken)
    }

    /// Opens the window so far that the client may send so many bytes more. Returns the update that says so.
    pub(super) fn open(&mut self, bytes: usize) -> Option<u32> {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| i64::from(*bytes) <= MAX_WINDOW_BYTES);
        let update = bytes?.checked_sub(self.left).filter(|update| *update > 0)?;
        self.left += update;
        self.extra += update.saturating_sub(self.taken);
        self.taken = self.taken.saturating_sub(update);
        Some(update)
    }
}

/// One request and its answer.
#[derive(Debug)]
pub(super) struct Stream<T> {
    /// The owner's.
    pub(super) slot: T,
    /// DATA that was not taken.
    pub(super) unread: Vec<u8>,
    pub(super) window: ReceiveWindow,
    /// Bytes that take room in the connection's window: unread, or kept by the owner.
    pub(super) held: usize,
    /// Room that is reserved for the message that comes, if it is large.
    pub(super) reserved: usize,
    /// It waits for such room.
    pub(super) is_reserving: bool,
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
    /// The stream stands among those that are blocked by flow control.
    pub(super) is_blocked: bool,
    pub(super) deadline: Option<Duration>,
}

impl<T: Default> Stream<T> {
    pub(super) fn new(has_ended: bool) -> Stream<T> {
        Stream {
            slot: T::default(),
            unread: Vec::new(),
            window: ReceiveWindow::new(MAX_STREAM_WINDOW_BYTES),
            held: 0,
            reserved: 0,
            is_reserving: false,
            has_ended,
            is_announced: true,
            queue: VecDeque::new(),
            queued: 0,
            ending: None,
            outstanding: 0,
            is_sending: false,
            is_blocked: false,
            deadline: None,
        }
    }
}

impl<T> Stream<T> {
    /// So many bytes are held no longer, and no room is reserved or waited for any more. The connection counts what is
    /// returned: see `Connection::released`.
    #[must_use]
    pub(super) fn release(&mut self, bytes: usize) -> Released {
        self.held -= bytes;
        let (reserved, was_reserving) =
            (std::mem::take(&mut self.reserved), std::mem::take(&mut self.is_reserving));
        Released { bytes, reserved, was_reserving }
    }
}

/// What a stream gave up.
#[derive(Debug)]
pub(super) struct Released {
    /// Bytes that took room in the connection's window.
    pub(super) bytes: usize,
    /// Room that was reserved.
    pub(super) reserved: usize,
    /// It waited for room.
    pub(super) was_reserving: bool,
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
