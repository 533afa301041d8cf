//! The one place where time is read for a member.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use member::Now;

/// Both clocks, counted from the start of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts counting.
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { monotonic_ns: self.monotonic_ns(), wall_ms: wall.as_millis() as u64 }
    }

    /// Nanoseconds since the start.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// How long until `deadline_ns`.
    pub(crate) fn until(&self, deadline_ns: u64) -> Duration {
        Duration::from_nanos(deadline_ns.saturating_sub(self.monotonic_ns()))
    }
}
