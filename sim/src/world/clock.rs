//! The clocks of one machine.
//!
//! The monotonic clock runs at a rate of its own. The wall clock follows it and may be set.

use member::Now;

/// How much faster or slower a clock may run: a hundred times the error of a bad crystal.
pub(crate) const MAX_RATE_PPM: i64 = 10_000;

const MILLION: i128 = 1_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// The wall clock at the start of a run: far enough from 0 to be set back.
const WALL_START_MS: i64 = 1_700_000_000_000;

/// The clocks of one machine.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    rate_ppm: i64,
    ahead_ns: u64,
    wall_offset_ms: i64,
}

impl MachineClock {
    /// A clock that runs fast (below 0: slow) and whose monotonic time began `ahead_ns` ago.
    pub(crate) fn new(rate_ppm: i64, ahead_ns: u64) -> MachineClock {
        MachineClock { rate_ppm, ahead_ns, wall_offset_ms: 0 }
    }

    /// What the machine reads at a simulated time.
    pub(crate) fn read(&self, at_ns: u64) -> Now {
        let wall_ms = WALL_START_MS + self.wall_offset_ms + (at_ns / NS_PER_MS) as i64;
        Now { monotonic_ns: self.local_ns(at_ns), wall_ms: wall_ms.max(0) as u64 }
    }

    /// The simulated time at which the machine's monotonic clock shows `local_ns`.
    pub(crate) fn simulated_ns(&self, local_ns: u64) -> u64 {
        let elapsed = i128::from(local_ns.saturating_sub(self.ahead_ns));
        let scaled = elapsed * MILLION / (MILLION + i128::from(self.rate_ppm));
        scaled as u64 + 1
    }

    /// Sets the wall clock.
    pub(crate) fn jump_wall(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
    }

    /// Makes the monotonic clock jump, as only a defect does.
    pub(crate) fn jump_monotonic(&mut self, by_ns: u64) {
        self.ahead_ns += by_ns;
    }

    fn local_ns(&self, at_ns: u64) -> u64 {
        let scaled = i128::from(at_ns) * (MILLION + i128::from(self.rate_ppm)) / MILLION;
        self.ahead_ns + scaled as u64
    }
}
