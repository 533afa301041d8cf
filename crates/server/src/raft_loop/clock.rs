//! The one place where time is read for a member.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use member::Now;

/// The monotonic clock, counted from the start of the loop, and the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts counting.
    pub(super) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// The time from which it counts.
    pub(super) fn epoch(&self) -> Instant {
        self.start
    }

    /// Both clocks.
    pub(super) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { monotonic_ns: self.monotonic_ns(), wall_ms: wall.as_millis() as u64 }
    }

    /// Nanoseconds since the start.
    pub(super) fn monotonic_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Time until `deadline_ns`; zero when it has passed.
    pub(super) fn until(&self, deadline_ns: u64) -> Duration {
        Duration::from_nanos(deadline_ns.saturating_sub(self.monotonic_ns()))
    }
}
