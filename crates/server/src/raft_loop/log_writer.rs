//! Writes to the log: all jobs that are queued, together and with one sync for each file, and the report to the raft
//! loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use log::WriteJob;
use member::Input;
use prometheus::IntGauge;
use tokio::time::MissedTickBehavior;

use super::input_queue::InputQueue;
use super::write_queue::WriteQueue;
use crate::metrics::Metrics;

/// A sync that takes longer is logged; etcd's limit.
const SLOW_SYNC: Duration = Duration::from_secs(1);

/// Logs a write that has taken too long and has not ended, again each time it has taken twice as long: what the flusher
/// logs of a slow sync comes when it has ended, which a stalled disk never lets happen.
pub(crate) async fn report_overdue_writes(metrics: Arc<Metrics>) {
    let mut interval = tokio::time::interval(SLOW_SYNC);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut limit = SLOW_SYNC;
    loop {
        interval.tick().await;
        let waited = metrics.own.pending_write.waited();
        if is_overdue(waited, &mut limit) {
            tracing::warn!(
                waited = format!("{waited:?}"),
                expected_duration = format!("{SLOW_SYNC:?}"),
                "slow fdatasync: still waiting for the disk"
            );
        }
    }
}

/// Whether a write that has taken so long is to be logged. `limit` is what it may take until then: it doubles with each
/// time, and is what it was with the next write.
fn is_overdue(waited: Duration, limit: &mut Duration) -> bool {
    let is_overdue = waited > *limit;
    if is_overdue {
        *limit = 2 * waited;
    } else if waited < SLOW_SYNC {
        *limit = SLOW_SYNC;
    }
    is_overdue
}

/// The write queue, and what its flushers do with the jobs.
pub(super) struct LogWriter {
    queue: WriteQueue<WriteJob>,
    inputs: Arc<InputQueue>,
    metrics: Arc<Metrics>,
    /// Jobs that are pushed and not written yet.
    waiting: IntGauge,
    start: Instant,
}

impl LogWriter {
    /// Completed writes are reported to `inputs`.
    pub(super) fn new(inputs: Arc<InputQueue>, metrics: Arc<Metrics>) -> LogWriter {
        let waiting = metrics.own.queue_length("write");
        LogWriter { queue: WriteQueue::default(), inputs, metrics, waiting, start: Instant::now() }
    }

    /// Queues jobs, in order.
    pub(super) fn push(&self, jobs: impl Iterator<Item = WriteJob>) {
        self.queue.push(jobs.inspect(|_| self.waiting.inc()));
    }

    /// Calls `run`, which may push jobs, and writes them on this thread if the log thread is idle. For threads that may
    /// wait for the disk.
    pub(super) fn flush_inline(&self, run: impl FnOnce()) {
        if let Some(jobs) = self.queue.take_inline(run) {
            self.write(jobs);
        }
    }

    /// The log thread: writes until the queue is closed and empty.
    pub(super) fn run(&self) {
        while let Some(jobs) = self.queue.take() {
            self.write(jobs);
        }
    }

    /// Lets the log thread end.
    pub(super) fn close(&self) {
        self.queue.close();
    }

    fn write(&self, jobs: Vec<WriteJob>) {
        let written: u64 = jobs.iter().map(WriteJob::bytes).sum();
        let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
        let pending = &self.metrics.own.pending_write;
        pending.begin();
        let done = WriteJob::run_all(jobs, &|| self.start.elapsed());
        pending.end();
        self.waiting.sub(count);
        let events = &self.metrics.events;
        events.wal_written_bytes.add(written as f64);
        for (write, sync) in done.write_times.iter().zip(&done.sync_times) {
            events.wal_write.observe(write.as_secs_f64());
            events.commit.observe((*write + *sync).as_secs_f64());
        }
        for took in &done.sync_times {
            events.wal_fsync.observe(took.as_secs_f64());
            if *took > SLOW_SYNC {
                tracing::warn!(
                    took = format!("{took:?}"),
                    expected_duration = format!("{SLOW_SYNC:?}"),
                    "slow fdatasync"
                );
            }
        }
        let done = Input::WritesSynced(done);
        // With more to write, this thread leaves the iteration to another.
        let report = |more| if more { self.inputs.submit(done) } else { self.inputs.submit_and_run([done]) };
        self.queue.finish(report);
    }
}

#[cfg(test)]
mod tests {
    //! When a write that does not end is logged.
    use super::*;

    #[test]
    fn an_overdue_write_is_logged_again_after_twice_the_time() {
        let mut limit = SLOW_SYNC;
        let of = |seconds: f64| Duration::from_secs_f64(seconds);
        for (waited, is_logged) in [
            (0.0, false),
            (1.0, false),
            (1.5, true),
            (2.5, false),
            (3.0, false),
            (3.5, true),
            (6.5, false),
            (7.5, true),
            // The next write.
            (0.2, false),
            (1.1, true),
            (2.1, false),
        ] {
            assert_eq!(is_overdue(of(waited), &mut limit), is_logged, "after {waited} s");
        }
    }
}
