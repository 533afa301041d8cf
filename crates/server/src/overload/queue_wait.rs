//! How long a new request would wait for the raft loop's answer: what waits before it, times what each took lately.
//!
//! The raft loop observes after each iteration how many requests of a kind it has answered and how many wait. Only a
//! queue with a backlog says how fast it drains: what waits in a shorter one is answered together, by the next batch.
//!
//! ```text
//!            answered   waiting   window                                 a new one would wait
//!   0 ms           40       900   none: no backlog                       0
//!   1 ms          100     3,000   begins                                 unknown
//!  21 ms        1,000     4,000   ends: 20 µs for each                   4,000 x 20 µs =  80 ms
//!  41 ms          500    10,000   ends: 3/4 x 20 µs + 1/4 x 40 µs        10,000 x 25 µs = 250 ms
//! 641 ms            0    10,000   goes on; nothing answered for 600 ms   600 ms
//! ```
//!
//! The last line is a stalled disk: the next one waits at least as long as nothing was answered. Without a
//! leader nothing is learned and nothing is predicted: that is no overload, and callers get the errors of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Requests that wait at least before anything is predicted: those of a full batch, which one flush answers.
const MIN_BACKLOG: u64 = 1_000;

/// Least time of a window: several batches on a fast disk, so that one does not decide alone.
const MIN_WINDOW_NS: u64 = 20_000_000;

/// What a new request would wait, as of the last iteration. Written by the raft loop, read by all threads.
#[derive(Debug, Default)]
pub(crate) struct QueueWaits {
    commands_ns: AtomicU64,
    reads_ns: AtomicU64,
}

impl QueueWaits {
    /// A command, until it is applied.
    pub(crate) fn commands(&self) -> Duration {
        Duration::from_nanos(self.commands_ns.load(Ordering::Relaxed))
    }

    /// A linearizable read, until it may look.
    pub(crate) fn reads(&self) -> Duration {
        Duration::from_nanos(self.reads_ns.load(Ordering::Relaxed))
    }
}

/// What an iteration answered, and what waits after it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Finished {
    /// Commands that were applied.
    pub(crate) commands: u64,
    /// Linearizable reads that may look.
    pub(crate) reads: u64,
    /// Commands that wait.
    pub(crate) waiting_commands: u64,
    /// Linearizable reads that wait.
    pub(crate) waiting_reads: u64,
    /// Whether there is a leader who could answer.
    pub(crate) has_leader: bool,
}

/// Learns how fast the queues drain. Belongs to the raft loop.
pub(crate) struct WaitEstimate {
    commands: QueueDrain,
    reads: QueueDrain,
    shared: Arc<QueueWaits>,
}

impl WaitEstimate {
    /// Knows nothing yet; tells `shared` what it learns.
    pub(crate) fn new(shared: Arc<QueueWaits>) -> WaitEstimate {
        WaitEstimate { commands: QueueDrain::default(), reads: QueueDrain::default(), shared }
    }

    /// An iteration has ended at `now_ns`.
    pub(crate) fn observe(&mut self, now_ns: u64, finished: Finished) {
        let Finished { commands, reads, waiting_commands, waiting_reads, has_leader } = finished;
        let waiting = |count: u64| if has_leader { count } else { 0 };
        let commands_ns = self.commands.observe(now_ns, commands, waiting(waiting_commands));
        let reads_ns = self.reads.observe(now_ns, reads, waiting(waiting_reads));
        self.shared.commands_ns.store(commands_ns, Ordering::Relaxed);
        self.shared.reads_ns.store(reads_ns, Ordering::Relaxed);
    }
}

/// How fast one queue drains.
#[derive(Debug, Default)]
struct QueueDrain {
    /// Whether there was a backlog after the last iteration: then a window is under way.
    has_backlog: bool,
    window_began_ns: u64,
    answered: u64,
    /// When something was answered last, or the backlog began.
    quiet_since_ns: u64,
    /// Time for each answer; 0 while it is unknown.
    each_ns: u64,
}

impl QueueDrain {
    /// So many were answered by an iteration that ended at `now_ns`, and so many wait. Returns what a new one would
    /// wait, in nanoseconds.
    fn observe(&mut self, now_ns: u64, answered: u64, waiting: u64) -> u64 {
        let had_backlog = std::mem::replace(&mut self.has_backlog, waiting >= MIN_BACKLOG);
        if !self.has_backlog {
            return 0;
        }
        if !had_backlog {
            (self.window_began_ns, self.answered, self.quiet_since_ns) = (now_ns, 0, now_ns);
        } else if answered > 0 {
            self.answered += answered;
            self.quiet_since_ns = now_ns;
        }
        let window_ns = now_ns.saturating_sub(self.window_began_ns);
        if self.answered > 0 && window_ns >= MIN_WINDOW_NS {
            let each_ns = (window_ns / self.answered).max(1);
            self.each_ns = if self.each_ns == 0 { each_ns } else { (3 * self.each_ns + each_ns) / 4 };
            (self.window_began_ns, self.answered) = (now_ns, 0);
        }
        let quiet_ns = now_ns.saturating_sub(self.quiet_since_ns);
        waiting.saturating_mul(self.each_ns).max(quiet_ns)
    }
}

#[cfg(test)]
mod tests {
    //! What is predicted, and what teaches nothing.
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_wait_is_what_waits_times_what_each_took() {
        let mut drain = QueueDrain::default();
        assert_eq!(drain.observe(0, 40, 900), 0, "a batch is no backlog");
        assert_eq!(drain.observe(MS, 100, 3_000), 0, "nothing is known yet");
        assert_eq!(drain.observe(11 * MS, 500, 3_500), 0, "the window is short");
        assert_eq!(drain.observe(21 * MS, 500, 4_000), 4_000 * 20_000);
        assert_eq!(drain.observe(41 * MS, 500, 10_000), 10_000 * 25_000);
        assert_eq!(drain.observe(42 * MS, 9_500, 500), 0);
        assert_eq!(drain.observe(43 * MS, 0, 2_000), 2_000 * 25_000, "the rate is remembered");
    }

    #[test]
    fn idle_time_is_no_time_of_an_answer() {
        let mut drain = QueueDrain::default();
        drain.observe(0, 0, 0);
        drain.observe(60_000 * MS, 0, 2_000);
        assert_eq!(drain.observe(60_020 * MS, 2_000, 2_000), 2_000 * 10_000);
    }

    #[test]
    fn a_queue_that_stands_still_predicts_at_least_as_long() {
        let mut drain = QueueDrain::default();
        drain.observe(0, 0, 2_000);
        drain.observe(20 * MS, 2_000, 2_000);
        assert_eq!(drain.observe(3_020 * MS, 0, 2_000), 3_000 * MS);
        let again = drain.observe(3_021 * MS, 2_000, 2_000);
        assert_eq!(
            again,
            2_000 * (3 * 10_000 + 1_500_500) / 4,
            "it moves again: the time counts for a quarter"
        );
        let mut now = 3_021 * MS;
        let mut wait = again;
        let mut windows = 0;
        while wait > 50 * MS {
            now += 20 * MS;
            wait = drain.observe(now, 2_000, 2_000);
            windows += 1;
        }
        assert!(windows <= 15, "after {windows} windows the stall is forgotten");
    }

    #[test]
    fn without_a_leader_nothing_is_predicted() {
        let shared = Arc::<QueueWaits>::default();
        let mut estimate = WaitEstimate::new(shared.clone());
        let waiting = Finished { waiting_commands: 5_000, waiting_reads: 5_000, ..Finished::default() };
        let led = Finished { has_leader: true, ..waiting };
        estimate.observe(0, led);
        estimate.observe(3_000 * MS, led);
        assert_eq!((shared.commands(), shared.reads()), (Duration::from_secs(3), Duration::from_secs(3)));
        estimate.observe(4_000 * MS, waiting);
        assert_eq!((shared.commands(), shared.reads()), (Duration::ZERO, Duration::ZERO));
        estimate.observe(4_001 * MS, Finished { reads: 5_000, ..led });
        assert_eq!(shared.commands(), Duration::ZERO, "the time without a leader does not count");
    }
}
