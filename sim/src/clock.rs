//! The clocks of one machine: one that never goes back but runs at its own rate, and one that tells the time
//! of day and
//! may jump.

use member::Now;

/// Parts per million that a clock may run fast or slow: a hundred times what a bad crystal does.
pub(crate) const MAX_RATE_PPM: i64 = 10_000;

const MILLION: i128 = 1_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Some day, so that the wall clock is far from 0 and may be set back.
const WALL_START_MS: i64 = 1_700_000_000_000;

/// The clocks of one machine.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    rate_ppm: i64,
    ahead_ns: u64,
    wall_offset_ms: i64,
}

impl MachineClock {
    /// A clock that runs fast (or, below 0, slow) and did not start together with the others.
    pub(crate) fn new(rate_ppm: i64, ahead_ns: u64) -> MachineClock {
        MachineClock { rate_ppm, ahead_ns, wall_offset_ms: 0 }
    }

    /// What the machine reads at a simulated moment.
    pub(crate) fn read(&self, at_ns: u64) -> Now {
        let wall_ms = WALL_START_MS + self.wall_offset_ms + (at_ns / NS_PER_MS) as i64;
        Now { monotonic_ns: self.local_ns(at_ns), wall_ms: wall_ms.max(0) as u64 }
    }

    /// The simulated moment at which the machine's clock shows `local_ns`.
    pub(crate) fn moment_of(&self, local_ns: u64) -> u64 {
        let elapsed = i128::from(local_ns.saturating_sub(self.ahead_ns));
        let scaled = elapsed * MILLION / (MILLION + i128::from(self.rate_ppm));
        scaled as u64 + 1
    }

    /// Somebody sets the time of day.
    pub(crate) fn jump_wall(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
    }

    /// The clock that must not jump does: only a defect does this.
    pub(crate) fn jump_monotonic(&mut self, by_ns: u64) {
        self.ahead_ns += by_ns;
    }

    fn local_ns(&self, at_ns: u64) -> u64 {
        let scaled = i128::from(at_ns) * (MILLION + i128::from(self.rate_ppm)) / MILLION;
        self.ahead_ns + scaled as u64
    }
}
