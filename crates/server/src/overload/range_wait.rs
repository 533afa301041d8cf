//! How long a long range would wait for its turn: those that wait before it, times what each took, by how many run at
//! once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What is known of long ranges. Any thread may observe.
#[derive(Debug, Default)]
pub(crate) struct RangeWait {
    waiting: AtomicUsize,
    /// Mean time of the last ones; 0 while it is unknown.
    each_ns: AtomicU64,
}

/// A range that waits. It counts until this is dropped.
pub(crate) struct WaitingRange<'a>(&'a RangeWait);

impl RangeWait {
    /// A range waits.
    pub(crate) fn enter(&self) -> WaitingRange<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingRange(self)
    }

    /// A range has taken so long. Two threads that observe at the same time may lose one of their observations, which
    /// changes a mean by little.
    pub(crate) fn observe(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let each_ns = match self.each_ns.load(Ordering::Relaxed) {
            0 => took_ns,
            known_ns => known_ns - known_ns / 4 + took_ns / 4,
        };
        self.each_ns.store(each_ns, Ordering::Relaxed);
    }

    /// What a new one would wait if `at_once` run at a time, and `own` of its connection come before it that do not
    /// wait here yet.
    pub(crate) fn expected(&self, at_once: usize, own: usize) -> Duration {
        let waiting = (self.waiting.load(Ordering::Relaxed) + own) as u64;
        let each_ns = self.each_ns.load(Ordering::Relaxed);
        Duration::from_nanos(waiting.saturating_mul(each_ns) / at_once.max(1) as u64)
    }
}

impl Drop for WaitingRange<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! What is predicted.
    use super::*;

    #[test]
    fn ranges_that_wait_share_the_permits() {
        let wait = RangeWait::default();
        let entered: Vec<_> = (0..8).map(|_| wait.enter()).collect();
        assert_eq!(wait.expected(4, 0), Duration::ZERO, "nothing is known yet");
        wait.observe(Duration::from_millis(400));
        assert_eq!(wait.expected(4, 0), Duration::from_millis(800));
        assert_eq!(wait.expected(4, 6), Duration::from_millis(1_400));
        wait.observe(Duration::ZERO);
        assert_eq!(wait.expected(4, 0), Duration::from_millis(600));
        drop(entered);
        assert_eq!(wait.expected(4, 0), Duration::ZERO);
    }
}
