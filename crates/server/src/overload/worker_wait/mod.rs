//! How long a request waits before an RPC worker reads it, and which share of requests is admitted while that is too
//! long.
//!
//! A worker whose core has no time left is behind with its sockets: requests wait there, in no queue that could be
//! counted. The worker's own timer waits behind the same tasks, so a timer that fires late by some time says that a
//! request waits as long. It is set every 50 ms, and the shortest of three waits in a row counts: a process that was
//! stopped for a second, or one slow flush, is no overload.
//!
//! To refuse everything while the wait is too long would swing between all and nothing: a refusal costs a fraction of
//! a request, so the backlog is gone long before the next sample. Instead a share is admitted, which each sample
//! changes: it falls by a sixteenth while the wait is too long, and grows by a sixty-fourth of all requests otherwise.
//! (Zhou et al., *Overload Control for Scaling WeChat Microservices*, SoCC 2018, section 4.2.2, does the same with
//! levels of priority.)
//!
//! Where a request costs little, a refusal costs nearly as much: both are read from and written to a socket. So a
//! worker without time to spare [refuses no more](may_refuse) than what takes a tenth of its time, while requests wait
//! for less than is late by any measure.
//!
//! ```text
//! sample   timer late by   longest wait that is allowed   admitted afterwards
//!      1           64 ms                          20 ms   all
//!      2           60 ms                          20 ms   all
//!      3           61 ms                          20 ms   15 of 16
//!      4           52 ms                          20 ms   about 7 of 8
//!      5           12 ms                          20 ms   about 57 of 64
//! ```

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Time between two samples.
const SAMPLE_TIME: Duration = Duration::from_millis(50);

/// A timer fires up to so much late on a worker that has nothing to do.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

/// All requests, as a share.
const ALL: u32 = 1 << 16;

/// What a sample adds to the share.
const INCREASE: u32 = ALL / 64;

/// The least share: some requests must show whether things are better.
const LEAST: u32 = ALL / 64;

/// A worker that reads requests so late has no time to spare: it is busy with what it has read before.
const BUSY_WAIT: Duration = Duration::from_millis(5);

/// Refusals between two samples that take about a tenth of that time, at 20 us each (RFC 0035).
const MAX_REFUSALS: u32 = 250;

/// A wait that is too long whatever it costs to refuse: `--max-request-wait` by default.
const ANYWAY_TOO_LONG: Duration = Duration::from_secs(2);

/// Samples whose shortest wait counts.
const LASTING: usize = 3;

/// Samples after which any share has grown to all requests again.
const FULL_RECOVERY: u32 = ALL / INCREASE;

thread_local! {
    static OWN: WorkerWait = const { WorkerWait::new() };
}

/// The longest wait on any worker since it was asked for.
#[derive(Debug, Default)]
pub(crate) struct LongestWorkerWait(AtomicU64);

impl LongestWorkerWait {
    /// The longest wait since the last call.
    pub(crate) fn take(&self) -> Duration {
        Duration::from_nanos(self.0.swap(0, Ordering::Relaxed))
    }

    fn note(&self, wait: Duration) {
        self.0.fetch_max(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Measures the wait on this worker, whose runtime the caller is on, from now on.
pub(crate) fn measure_own_worker(longest: Arc<LongestWorkerWait>) {
    tokio::spawn(async move {
        loop {
            let due = Instant::now() + SAMPLE_TIME;
            sleep_until(due).await;
            let wait = due.elapsed().saturating_sub(TIMER_RESOLUTION);
            OWN.with(|own| own.sample(wait));
            longest.note(wait);
        }
    });
}

/// Whether a request on this thread may go on, if none should have waited longer than `max`. A thread that is no RPC
/// worker admits all.
///
/// # Errors
/// What requests of this worker have waited lately.
pub(crate) fn admit_on_own_worker(max: Duration) -> Result<(), Duration> {
    OWN.with(|own| own.admit(max))
}

/// Whether a request on this thread that would wait so long may be refused for that. Not if this worker has no time to
/// spare and has refused enough lately: then the time is better spent on the request.
pub(crate) fn may_refuse(wait: Duration) -> bool {
    OWN.with(|own| own.may_refuse(wait))
}

/// The wait on one worker, and the share that it admits.
struct WorkerWait {
    /// The last ones, the newest first.
    waits: Cell<[Duration; LASTING]>,
    /// Samples since the share was looked at.
    samples: Cell<u32>,
    share: Cell<u32>,
    /// Shares that were not used yet: a request is admitted when they make a whole one.
    credit: Cell<u32>,
    /// Refusals since the last sample.
    refusals: Cell<u32>,
}

impl WorkerWait {
    const fn new() -> WorkerWait {
        WorkerWait {
            waits: Cell::new([Duration::ZERO; LASTING]),
            samples: Cell::new(0),
            share: Cell::new(ALL),
            credit: Cell::new(0),
            refusals: Cell::new(0),
        }
    }

    fn sample(&self, wait: Duration) {
        let [newest, middle, _] = self.waits.get();
        self.waits.set([wait, newest, middle]);
        self.samples.set(self.samples.get().saturating_add(1));
        self.refusals.set(0);
    }

    fn admit(&self, max: Duration) -> Result<(), Duration> {
        // Samples without a request between them were idle ones, but for the last.
        let samples = self.samples.take();
        if samples > 0 {
            let idle = (samples - 1).min(FULL_RECOVERY) * INCREASE;
            let share = (self.share.get() + idle).min(ALL);
            self.share.set(next_share(share, self.lasting() > max));
        }
        let credit = self.credit.get() + self.share.get();
        self.credit.set(credit % ALL);
        let wait = self.lasting();
        if credit >= ALL || !self.may_refuse(wait) { Ok(()) } else { Err(wait) }
    }

    fn may_refuse(&self, wait: Duration) -> bool {
        if wait > ANYWAY_TOO_LONG || self.lasting() < BUSY_WAIT {
            return true;
        }
        let refusals = self.refusals.get();
        self.refusals.set(refusals.saturating_add(1));
        refusals < MAX_REFUSALS
    }

    /// What requests have waited for three samples.
    fn lasting(&self) -> Duration {
        let [newest, middle, oldest] = self.waits.get();
        newest.min(middle).min(oldest)
    }
}

/// The share after a sample.
fn next_share(share: u32, is_too_long: bool) -> u32 {
    match is_too_long {
        true => (share - share / 16).max(LEAST),
        false => (share + INCREASE).min(ALL),
    }
}

#[cfg(test)]
mod tests;
