//! When the server compacts by itself, by etcd's rules.
//!
//! A pure state machine: whenever it [is due](Schedule::is_due), which the owner asks at least as often as
//! [`Schedule::interval`] says, the owner calls [`Schedule::observe`] with the time and the current revision, compacts
//! at the revision that is returned, and reports success with [`Schedule::compacted`]. Every member observes, so that a
//! new leader knows the past; only the leader compacts.
//!
//! *Periodic*, retention P: revisions are sampled ten times in the smaller of P and an hour, and the sample that is P
//! old is compacted: first when P has passed, then every P or every hour, whichever is shorter. *Revision*, retention
//! N: every five minutes everything but the newest N revisions is compacted.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::CompactionPolicy;

/// Samples per compaction interval.
const SAMPLES_PER_INTERVAL: u32 = 10;

/// Longest time between two periodic compactions.
const MAX_PERIODIC_INTERVAL: Duration = Duration::from_secs(3600);

/// Time between two compactions by revision.
const REVISION_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Decides what to compact when.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    policy: CompactionPolicy,
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
    pub(super) fn new(policy: CompactionPolicy, now_ns: u64) -> Schedule {
        let due_ns = match policy {
            CompactionPolicy::Periodic(_) => now_ns,
            CompactionPolicy::Revision(_) => now_ns.saturating_add(nanoseconds(REVISION_INTERVAL)),
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

    /// Longest time between two questions whether a sample is due.
    pub(super) fn interval(&self) -> Duration {
        match self.policy {
            CompactionPolicy::Periodic(period) => sample_interval(period),
            CompactionPolicy::Revision(_) => REVISION_INTERVAL,
        }
    }

    /// Whether the next sample or compaction is due.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// Takes a sample, which must be due. Returns the revision to compact at, if it is time for that; it is returned
    /// again after each interval until [`Schedule::compacted`] reports success.
    pub(super) fn observe(&mut self, now_ns: u64, current_revision: i64) -> Option<i64> {
        assert!(self.is_due(now_ns), "samples are taken when they are due");
        self.due_ns = now_ns.saturating_add(nanoseconds(self.interval()));
        let revision = match self.policy {
            CompactionPolicy::Periodic(period) => self.observe_period(now_ns, current_revision, period)?,
            CompactionPolicy::Revision(retention) => current_revision.saturating_sub(retention),
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

    /// Reports that a compaction succeeded, or had been done before.
    pub(super) fn compacted(&mut self, now_ns: u64, revision: i64) {
        self.last_compacted = revision;
        self.last_success_ns = now_ns;
    }
}

fn sample_interval(period: Duration) -> Duration {
    (period.min(MAX_PERIODIC_INTERVAL) / SAMPLES_PER_INTERVAL).max(Duration::from_nanos(1))
}

/// Samples kept: as many as make the oldest one period old when the next one is taken.
fn retained_samples(period: Duration) -> usize {
    let samples = period.as_nanos() / sample_interval(period).as_nanos() + 1;
    usize::try_from(samples).unwrap_or(usize::MAX)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! The schedule against etcd's rules, with a clock that jumps.

    use super::*;

    const MINUTE: u64 = 60 * 1_000_000_000;

    fn observe_if_due(schedule: &mut Schedule, now_ns: u64, revision: i64) -> Option<i64> {
        if schedule.is_due(now_ns) { schedule.observe(now_ns, revision) } else { None }
    }

    /// Observes each `step_ns` up to `until_ns`, one new revision a step, and lists (step, compacted revision).
    fn run(policy: CompactionPolicy, step_ns: u64, steps: u64) -> Vec<(u64, i64)> {
        let mut schedule = Schedule::new(policy, 0);
        let mut compacted = Vec::new();
        for step in 0..=steps {
            let now = step * step_ns;
            if let Some(revision) = observe_if_due(&mut schedule, now, step as i64 + 1) {
                compacted.push((step, revision));
                schedule.compacted(now, revision);
            }
        }
        compacted
    }

    #[test]
    fn an_hour_is_sampled_ten_times_and_compacted_hourly() {
        let compacted = run(CompactionPolicy::Periodic(Duration::from_secs(3600)), 6 * MINUTE, 30);
        assert_eq!(compacted, [(10, 1), (20, 10), (30, 20)]);
    }

    #[test]
    fn five_minutes_are_compacted_every_five_minutes() {
        let compacted = run(CompactionPolicy::Periodic(Duration::from_secs(300)), MINUTE / 2, 20);
        assert_eq!(compacted, [(10, 1), (20, 10)]);
    }

    #[test]
    fn a_day_is_compacted_hourly_after_the_first_day() {
        let compacted = run(CompactionPolicy::Periodic(Duration::from_secs(24 * 3600)), 6 * MINUTE, 270);
        assert_eq!(compacted, [(240, 1), (250, 10), (260, 20), (270, 30)]);
    }

    #[test]
    fn an_idle_store_is_compacted_once() {
        let mut schedule = Schedule::new(CompactionPolicy::Periodic(Duration::from_secs(3600)), 0);
        let mut compacted = Vec::new();
        for step in 0..60 {
            if let Some(revision) = observe_if_due(&mut schedule, step * 6 * MINUTE, 5) {
                compacted.push(revision);
                schedule.compacted(step * 6 * MINUTE, revision);
            }
        }
        assert_eq!(compacted, [5]);
    }

    #[test]
    fn a_failed_compaction_is_tried_again_after_one_sample() {
        let mut schedule = Schedule::new(CompactionPolicy::Periodic(Duration::from_secs(3600)), 0);
        let mut compacts =
            |step: u64| observe_if_due(&mut schedule, step * 6 * MINUTE, step as i64 + 1).is_some();
        let due: Vec<_> = (0..13).filter(|step| compacts(*step)).collect();
        assert_eq!(due, [10, 11, 12]);
    }

    #[test]
    fn calls_between_samples_change_nothing() {
        let often = run(CompactionPolicy::Periodic(Duration::from_secs(3600)), MINUTE, 120);
        assert_eq!(often.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [60, 120]);
        assert_eq!(often[0].1, 1);
    }

    #[test]
    fn revisions_are_kept_by_number() {
        let compacted = run(CompactionPolicy::Revision(2), 5 * MINUTE, 5);
        assert_eq!(compacted, [(2, 1), (3, 2), (4, 3), (5, 4)]);
        let mut schedule = Schedule::new(CompactionPolicy::Revision(10), 0);
        assert_eq!(schedule.observe(5 * MINUTE, 100), Some(90));
        schedule.compacted(5 * MINUTE, 90);
        assert_eq!(schedule.observe(10 * MINUTE, 100), None);
        assert_eq!(schedule.observe(15 * MINUTE, 101), Some(91));
    }
}
