//! The write to the log that is under way, as other threads see it: a stalled disk ends no write, so nothing
//! that is counted at the end of one shows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When the write under way began.
pub struct PendingWrite {
    start: Instant,
    /// Nanoseconds after `start`, at least 1; 0 while nothing is written.
    began_ns: AtomicU64,
}

impl Default for PendingWrite {
    fn default() -> PendingWrite {
        PendingWrite { start: Instant::now(), began_ns: AtomicU64::new(0) }
    }
}

impl PendingWrite {
    /// A write begins. One thread writes at a time.
    pub fn begin(&self) {
        self.began_ns.store(self.now_ns(), Ordering::Relaxed);
    }

    /// The write has ended.
    pub fn end(&self) {
        self.began_ns.store(0, Ordering::Relaxed);
    }

    /// Time that the write under way has taken; zero while nothing is written.
    pub fn waited(&self) -> Duration {
        match self.began_ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            began_ns => Duration::from_nanos(self.now_ns().saturating_sub(began_ns)),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    //! A write, before, during and after.
    use super::*;

    #[test]
    fn only_a_write_under_way_has_waited() {
        let write = PendingWrite::default();
        assert_eq!(write.waited(), Duration::ZERO);
        write.begin();
        while write.waited().is_zero() {
            std::hint::spin_loop();
        }
        write.end();
        assert_eq!(write.waited(), Duration::ZERO);
    }
}
