//! What a copy has done, for people and metrics.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// Numbers of one copy. All only rise, but the texts.
#[derive(Debug, Default)]
pub struct FollowStatus {
    covered_ms: AtomicU64,
    index: AtomicU64,
    revision: AtomicI64,
    bytes: AtomicU64,
    log_objects: AtomicU64,
    bases: AtomicU64,
    failures: AtomicU64,
    base_bytes: AtomicU64,
    base_done: AtomicU64,
    /// News that were not taken yet.
    news: Mutex<Vec<String>>,
}

/// News that wait at most: their reader takes them every second.
const MAX_NEWS: usize = 100;

/// The time by the clock of this machine, in milliseconds since 1970; 0 if the clock is set to an earlier time.
pub fn wall_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl FollowStatus {
    /// Nothing that was acknowledged before this time is missing in the archive; milliseconds since 1970, 0 if that is
    /// not known yet.
    pub fn covered_ms(&self) -> u64 {
        self.covered_ms.load(Ordering::Relaxed)
    }

    /// The last entry in the archive.
    pub fn index(&self) -> u64 {
        self.index.load(Ordering::Relaxed)
    }

    /// The revision after it, as far as it is known.
    pub fn revision(&self) -> i64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// Bytes written.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Log objects written.
    pub fn log_objects(&self) -> u64 {
        self.log_objects.load(Ordering::Relaxed)
    }

    /// Bases written.
    pub fn bases(&self) -> u64 {
        self.bases.load(Ordering::Relaxed)
    }

    /// Steps that failed, and were repeated.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Bytes read and to be read of the base that is being copied; `None` between two.
    pub fn base_progress(&self) -> Option<(u64, u64)> {
        let total = self.base_bytes.load(Ordering::Relaxed);
        (total > 0).then(|| (self.base_done.load(Ordering::Relaxed), total))
    }

    /// What has happened since this was last asked, one line each.
    pub fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut *self.news.lock())
    }

    /// Counts a failure after which the same step is repeated, and reports it.
    pub(super) fn failed(&self, why: &str) {
        self.count_failure();
        self.say(format!("warning: {why}; it is tried again"));
    }

    /// Counts a failure that ends the copy: its caller reports it.
    pub(super) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn say(&self, line: String) {
        let mut news = self.news.lock();
        if news.len() < MAX_NEWS && news.last() != Some(&line) {
            news.push(line);
        }
    }

    /// Notes how far the archive goes. A time is the member's: one that has not come here says no more than now.
    pub(super) fn covered(&self, time_ms: u64, index: u64, revision: i64) {
        self.covered_ms.fetch_max(time_ms.min(wall_clock_ms()), Ordering::Relaxed);
        self.index.fetch_max(index, Ordering::Relaxed);
        self.revision.fetch_max(revision, Ordering::Relaxed);
    }

    pub(super) fn wrote_log(&self, bytes: u64, last: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.log_objects.fetch_add(1, Ordering::Relaxed);
        self.index.fetch_max(last, Ordering::Relaxed);
    }

    pub(super) fn base_at(&self, done: u64, total: u64) {
        self.base_done.store(done, Ordering::Relaxed);
        self.base_bytes.store(total, Ordering::Relaxed);
    }

    pub(super) fn wrote_base(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bases.fetch_add(1, Ordering::Relaxed);
    }
}
