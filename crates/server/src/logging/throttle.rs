//! Lines that repeat quickly are thinned out, as etcd's logger does: of one message the first 100 of a second are
//! logged, then each hundredth. Unlike etcd, the next line says how many were left out.
//!
//! A message is distinguished from others by its callsite in the source and its text without fields: a callsite that
//! logs texts of others, such as the warnings of a start, loses none of them.
//!
//! ```text
//! line of a message within one second      1 .. 100   101 .. 199   200
//!                                        logged     left out     logged, with "suppressed": 99
//! ```

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Event;
use tracing::field::{Field, Visit};

/// Time over which the lines of a message are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Lines of a message that are all logged within a window; beyond it each of as many is.
const MAX_UNTHINNED_LINES: u64 = 100;

/// Counters; messages that share one by their hashes are thinned out together. zap's number.
const MAX_WINDOWS: u64 = 4_096;

/// Counts lines of one kind, of which `limit` a window are logged, then each hundredth.
pub(crate) struct RateWindow {
    limit: u64,
    began: Option<Instant>,
    count: u64,
    suppressed: u64,
}

impl RateWindow {
    /// Nothing was counted yet.
    pub(crate) fn new(limit: u64) -> RateWindow {
        RateWindow { limit, began: None, count: 0, suppressed: 0 }
    }

    /// Counts a line. If it is to be logged, returns how many were left out before it.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW) {
            (self.began, self.count) = (Some(now), 0);
        }
        self.count += 1;
        if self.count <= self.limit || self.count.is_multiple_of(MAX_UNTHINNED_LINES) {
            return Some(std::mem::take(&mut self.suppressed));
        }
        self.suppressed += 1;
        None
    }
}

/// What was logged lately, by message.
#[derive(Default)]
pub(super) struct Throttle {
    windows: Mutex<HashMap<MessageKey, RateWindow>>,
}

/// The counter of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MessageKey(u64);

impl MessageKey {
    /// That of an event.
    pub(super) fn of(event: &Event<'_>) -> MessageKey {
        let mut hasher = MessageHasher(DefaultHasher::new());
        event.metadata().callsite().hash(&mut hasher.0);
        event.record(&mut hasher);
        MessageKey(hasher.0.finish() % MAX_WINDOWS)
    }
}

/// Hashes the text of a message without storing it.
struct MessageHasher(DefaultHasher);

impl Visit for MessageHasher {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Hashing cannot fail.
            let _ = write!(self, "{value:?}");
        }
    }
}

impl fmt::Write for MessageHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Throttle {
    /// Counts a line. If it is to be logged, returns how many of the same message were left out before it.
    pub(super) fn admit(&self, message: MessageKey, now: Instant) -> Option<u64> {
        let mut windows = self.windows.lock();
        windows.entry(message).or_insert_with(|| RateWindow::new(MAX_UNTHINNED_LINES)).admit(now)
    }
}

#[cfg(test)]
mod tests {
    //! The clock is an argument.
    use super::*;

    #[test]
    fn a_message_that_repeats_is_thinned_out_and_says_so() {
        let (message, other) = (MessageKey(1), MessageKey(2));
        let (throttle, start) = (Throttle::default(), Instant::now());
        let logged: Vec<_> = (0..1_000).filter_map(|_| throttle.admit(message, start)).collect();
        let expected: Vec<_> = [0; 100].into_iter().chain([99; 9]).collect();
        assert_eq!(logged, expected);
        assert_eq!(throttle.admit(other, start), Some(0), "another message is not concerned");
        assert_eq!(throttle.admit(message, start), None);
        assert_eq!(throttle.admit(message, start + WINDOW), Some(1), "a new window tells the rest");
        assert_eq!(throttle.admit(message, start + WINDOW), Some(0));
    }
}
