//! When the server compacts by itself, by etcd's rules.
//!
//! A pure state machine: the owner calls [`Schedule::observe`] with the time and the current revision, at least as
//! often as [`Schedule::interval`] says, compacts what comes back, and reports success with [`Schedule::compacted`].
//! Every member observes, so that a new leader knows the past; only the leader compacts, the others drop what comes
//! back.
//!
//! *Periodic*, retention P: revisions are sampled ten times in the smaller of P and an hour, and the sample that is P
//! old is compacted: first when P has passed, then every P or every hour, whichever is shorter. *Revision*, retention
//! N: every five minutes everything but the newest N revisions goes.

use std::collections::VecDeque;
use std::time::Duration;

/// How often, at most, a period is cut: samples per compaction interval.
const SAMPLES_PER_INTERVAL: u32 = 10;

/// Longest time between two periodic compactions.
const MAX_PERIODIC_INTERVAL: Duration = Duration::from_secs(3600);

/// Time between two compactions by revision.
const REVISION_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// How much history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// What happened within this time.
    Periodic(Duration),
    /// This many revisions.
    Revision(i64),
}

impl Policy {
    /// Reads `--auto-compaction-mode` and `--auto-compaction-retention`; none when retention is zero.
    ///
    /// # Errors
    /// An unknown mode, or a retention that does not fit it.
    pub fn parse(mode: &str, retention: &str) -> Result<Option<Policy>, String> {
        let whole = if retention.is_empty() { Some(0) } else { whole_number(retention) };
        let unreadable = |why: String| format!("error parsing CompactionRetention: {why}");
        match (mode, whole) {
            ("periodic" | "revision", Some(0)) => Ok(None),
            ("periodic", Some(hours)) => {
                let seconds = hours.checked_mul(3600).filter(|&seconds| seconds < i64::MAX / 1_000_000_000);
                let seconds = seconds.ok_or_else(|| unreadable(format!("{retention} hours are too long")))?;
                Ok(Some(Policy::Periodic(Duration::from_secs(seconds.unsigned_abs()))))
            }
            ("periodic", None) => {
                let period = crate::config::parse_duration(retention).map_err(unreadable)?;
                Ok(Some(Policy::Periodic(period)).filter(|_| !period.is_zero()))
            }
            ("revision", Some(count)) => Ok(Some(Policy::Revision(count))),
            ("revision", None) => Err(unreadable(format!(
                "{retention:?} is no number of revisions, which mode 'revision' needs"
            ))),
            ("", _) => Err("undefined auto-compaction-mode".to_owned()),
            (unknown, _) => Err(format!("unknown auto-compaction-mode {unknown:?}")),
        }
    }
}

/// A number without sign.
fn whole_number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Decides what to compact when.
#[derive(Clone, Debug)]
pub struct Schedule {
    policy: Policy,
    /// When the next sample or compaction is due.
    due_ns: u64,
    /// Revisions at past samples, the oldest first; one period long when full.
    samples: VecDeque<i64>,
    last_compacted: i64,
    last_success_ns: u64,
    had_first: bool,
}

impl Schedule {
    /// Starts with nothing sampled.
    pub fn new(policy: Policy, now_ns: u64) -> Schedule {
        let due_ns = match policy {
            Policy::Periodic(_) => now_ns,
            Policy::Revision(_) => now_ns.saturating_add(nanoseconds(REVISION_INTERVAL)),
        };
        Schedule {
            policy,
            due_ns,
            samples: VecDeque::new(),
            last_compacted: 0,
            last_success_ns: now_ns,
            had_first: false,
        }
    }

    /// Longest time between two calls of [`Schedule::observe`].
    pub fn interval(&self) -> Duration {
        match self.policy {
            Policy::Periodic(period) => sample_interval(period),
            Policy::Revision(_) => REVISION_INTERVAL,
        }
    }

    /// Looks at the clock and the current revision; gives back the revision to compact at, if it is time.
    ///
    /// Asks again after an interval until [`Schedule::compacted`] tells that it worked.
    pub fn observe(&mut self, now_ns: u64, current_revision: i64) -> Option<i64> {
        if now_ns < self.due_ns {
            return None;
        }
        self.due_ns = now_ns.saturating_add(nanoseconds(self.interval()));
        let revision = match self.policy {
            Policy::Periodic(period) => self.observe_period(now_ns, current_revision, period)?,
            Policy::Revision(retention) => current_revision.saturating_sub(retention),
        };
        (revision > 0 && revision != self.last_compacted).then_some(revision)
    }

    fn observe_period(&mut self, now_ns: u64, current_revision: i64, period: Duration) -> Option<i64> {
        let oldest = self.samples.front().copied();
        self.samples.push_back(current_revision);
        if self.samples.len() > retained_samples(period) {
            self.samples.pop_front();
        }
        let interval = if self.had_first { period.min(MAX_PERIODIC_INTERVAL) } else { period };
        if now_ns.saturating_sub(self.last_success_ns) < nanoseconds(interval) {
            return None;
        }
        oldest.filter(|&oldest| oldest != self.last_compacted).inspect(|_| self.had_first = true)
    }

    /// Tells that a compaction worked, or that it had been done before.
    pub fn compacted(&mut self, now_ns: u64, revision: i64) {
        self.last_compacted = revision;
        self.last_success_ns = now_ns;
    }
}

fn sample_interval(period: Duration) -> Duration {
    (period.min(MAX_PERIODIC_INTERVAL) / SAMPLES_PER_INTERVAL).max(Duration::from_nanos(1))
}

/// So many that the oldest is one period old when the next one is taken.
fn retained_samples(period: Duration) -> usize {
    let samples = period.as_nanos() / sample_interval(period).as_nanos() + 1;
    usize::try_from(samples).unwrap_or(usize::MAX)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
