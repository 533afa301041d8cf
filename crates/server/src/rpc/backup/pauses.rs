//! How long the making of a backup pauses after each part, so that writes do not wait for it.
//!
//! Making a backup keeps a core and the disk busy. While the log grows, it works for a third of the time; otherwise it
//! does not pause. Time for which it waits for its client counts as a pause.
//!
//! ```text
//! made in 3 ms   the log has not grown                     no pause
//! made in 3 ms   it has grown                              6 ms
//! made in 3 ms   it has grown, the client took 5 ms        1 ms
//! ```

use std::time::{Duration, Instant};

/// While the log grows, pauses take so many times as long as the work.
const BUSY_PAUSES: u32 = 2;

/// The log grows when it does by more than this, in bytes a second.
const MIN_GROWTH_BYTES_PER_SECOND: u64 = 64 << 10;

/// The longest pause. Work that takes longer than usual does not end the backup's progress.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Measures the work between pauses.
pub(super) struct BackupPauses<'a> {
    written_bytes: &'a dyn Fn() -> u64,
    growth: LogGrowth,
    /// When the last pause ended.
    resumed: Instant,
}

impl<'a> BackupPauses<'a> {
    /// `written_bytes` is how much the log has been written since any fixed moment.
    pub(super) fn new(written_bytes: &'a dyn Fn() -> u64) -> BackupPauses<'a> {
        let growth = LogGrowth { seen_bytes: written_bytes() };
        BackupPauses { written_bytes, growth, resumed: Instant::now() }
    }

    /// Sends the chunk, which may wait for the client, and pauses.
    pub(super) fn after<R>(&mut self, hand_over: impl FnOnce() -> R) -> R {
        let made = Instant::now();
        let result = hand_over();
        let waited = made.elapsed();
        let worked = made - self.resumed;
        if self.growth.is_busy((self.written_bytes)(), worked + waited) {
            std::thread::sleep(pause(worked, waited));
        }
        self.resumed = Instant::now();
        result
    }
}

/// The pause after a part while the log grows.
fn pause(worked: Duration, waited: Duration) -> Duration {
    (worked * BUSY_PAUSES).saturating_sub(waited).min(MAX_PAUSE)
}

/// How much the log grows.
struct LogGrowth {
    seen_bytes: u64,
}

impl LogGrowth {
    /// Whether the log has grown much in this time, given what has been written to it by now.
    fn is_busy(&mut self, written_bytes: u64, time: Duration) -> bool {
        let grown = written_bytes.saturating_sub(std::mem::replace(&mut self.seen_bytes, written_bytes));
        u128::from(grown) * 1_000_000_000 > u128::from(MIN_GROWTH_BYTES_PER_SECOND) * time.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    //! When a backup pauses, and for how long.
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_client_and_the_limit_shorten_a_pause() {
        assert_eq!(pause(3 * MS, Duration::ZERO), 6 * MS);
        assert_eq!(pause(3 * MS, 5 * MS), MS);
        assert_eq!(pause(3 * MS, 50 * MS), Duration::ZERO);
        assert_eq!(pause(10_000 * MS, Duration::ZERO), MAX_PAUSE);
    }

    #[test]
    fn only_what_was_written_meanwhile_counts() {
        let mut growth = LogGrowth { seen_bytes: 1_000_000 };
        assert!(!growth.is_busy(1_000_000, MS));
        assert!(growth.is_busy(1_001_000, MS), "1 MB a second");
        assert!(!growth.is_busy(1_001_000, MS));
        assert!(!growth.is_busy(1_002_000, 100 * MS), "10 KB a second");
    }

    /// Sleeping takes at least its time, so that this holds however busy the machine is.
    #[test]
    fn a_backup_sleeps_while_the_log_grows() {
        let written = std::cell::Cell::new(0);
        let grows = || {
            written.set(written.get() + (1 << 30));
            written.get()
        };
        let mut pauses = BackupPauses::new(&grows);
        std::thread::sleep(5 * MS);
        let begun = Instant::now();
        pauses.after(|| ());
        assert!(begun.elapsed() >= 10 * MS);
    }
}
