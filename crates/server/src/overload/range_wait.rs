//! How long a long range would wait for its turn: those that come before it, times what each took, by how many run at
//! once.
//!
//! Ranges that [their connection](super::ConnectionRanges) holds back come before the new one too, if their turn is
//! earlier. With four permits, and three connections that hold back 100, 100 and none:
//!
//! ```text
//! in the queue   a a a a b b b b c c c c     12 ranges, of which 4 run
//! held back      a: 100  b: 100
//!
//! a new one of c    8 wait
//! a new one of a    8 wait, then the 100 of a, and the 100 of b in turn with them
//! ```
//!
//! Each connection with a backlog has as many in the queue as run at once, so the length of the queue tells of how many
//! connections a turn of one is. All that are held back is the most that can come before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What is known of long ranges. Any thread may observe.
#[derive(Debug)]
pub(crate) struct RangeWait {
    at_once: usize,
    /// Those that run, or wait for nothing but a permit.
    queued: Arc<AtomicUsize>,
    /// Those of all connections that are not in the queue yet.
    held_back: Arc<AtomicUsize>,
    /// Mean time of the last ones; 0 while it is unknown.
    each_ns: AtomicU64,
}

/// A range that is counted. It counts until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedRange(Arc<AtomicUsize>);

impl CountedRange {
    pub(super) fn of(count: &Arc<AtomicUsize>) -> CountedRange {
        count.fetch_add(1, Ordering::Relaxed);
        CountedRange(count.clone())
    }
}

impl RangeWait {
    /// So many run at a time.
    pub(crate) fn at_once(count: usize) -> RangeWait {
        let (queued, held_back) = (Arc::default(), Arc::default());
        RangeWait { at_once: count.max(1), queued, held_back, each_ns: AtomicU64::new(0) }
    }

    /// A range that waits until its connection may have another one in the queue.
    pub(crate) fn hold_back(&self) -> CountedRange {
        CountedRange::of(&self.held_back)
    }

    /// A range in the queue, to its end.
    pub(crate) fn enter(&self) -> CountedRange {
        CountedRange::of(&self.queued)
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

    /// What a new one would wait whose connection holds `own` back already.
    pub(crate) fn expected(&self, own: usize) -> Duration {
        let queued = self.queued.load(Ordering::Relaxed);
        let in_turn = (own.saturating_mul(queued) / self.at_once).max(own);
        self.after(queued, in_turn.min(self.held_back()))
    }

    /// What the last of all would wait, those that are held back included.
    pub(crate) fn longest(&self) -> Duration {
        self.after(self.queued.load(Ordering::Relaxed), self.held_back())
    }

    fn held_back(&self) -> usize {
        self.held_back.load(Ordering::Relaxed)
    }

    /// The time until those that wait in the queue, and so many others, have begun.
    fn after(&self, queued: usize, others: usize) -> Duration {
        let before = (queued.saturating_sub(self.at_once) + others) as u64;
        let each_ns = self.each_ns.load(Ordering::Relaxed);
        Duration::from_nanos(before.saturating_mul(each_ns) / self.at_once as u64)
    }
}

impl Drop for CountedRange {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! What is predicted.
    use super::*;

    const EACH: Duration = Duration::from_millis(400);

    fn many(count: usize, of: impl Fn() -> CountedRange) -> Vec<CountedRange> {
        (0..count).map(|_| of()).collect()
    }

    #[test]
    fn ranges_that_wait_share_the_permits() {
        let wait = RangeWait::at_once(4);
        let entered = many(12, || wait.enter());
        let held_back = many(6, || wait.hold_back());
        assert_eq!(wait.expected(0), Duration::ZERO, "nothing is known yet");
        wait.observe(EACH);
        assert_eq!(wait.expected(0), 2 * EACH, "eight wait, and those held back come later");
        assert_eq!(wait.longest(), 14 * EACH / 4);
        drop(held_back);
        wait.observe(Duration::ZERO);
        assert_eq!(wait.expected(0), 2 * EACH * 3 / 4);
        drop(entered);
        assert_eq!(wait.expected(0), Duration::ZERO);
    }

    #[test]
    fn a_backlog_waits_for_the_turns_of_others_as_far_as_they_have_any() {
        let wait = RangeWait::at_once(4);
        wait.observe(EACH);
        // Two connections have as many in the queue as they may.
        let _entered = many(8, || wait.enter());
        let _own = many(20, || wait.hold_back());
        assert_eq!(wait.expected(20), 6 * EACH, "the other one has no backlog");
        let others = many(10, || wait.hold_back());
        assert_eq!(wait.expected(20), 34 * EACH / 4, "its ten come in between");
        let _more = many(90, || wait.hold_back());
        assert_eq!(wait.expected(20), 11 * EACH, "it has a turn for each");
        assert_eq!(wait.expected(0), EACH, "others do not wait for backlogs");
        drop(others);
    }
}
