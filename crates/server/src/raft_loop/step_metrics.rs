//! Times of steps, for metrics and for the warning about slow ones.
//!
//! The member applies the commands of a batch together and has no clock, so the time of one command is not known. Each
//! command is given an equal part of the time of its step:
//!
//! ```text
//! step of 90 µs, applies 2 puts and 1 transaction      Put: 30 µs, 30 µs      Txn: 30 µs
//! a batch in three steps of 1, 1 and 0.5 ms            its commands share 2.5 ms
//! ```

use std::sync::Arc;
use std::time::Duration;

use member::StepCounts;
use member::batch::CommandKind;

use crate::live_settings::LiveSettings;
use crate::metrics::{Metrics, OutcomeTimes};

/// What is observed of each step.
pub(super) struct StepMetrics {
    metrics: Arc<Metrics>,
    /// Has `--warning-apply-duration`.
    live: Arc<LiveSettings>,
    applies: Vec<(CommandKind, OutcomeTimes)>,
    /// Time of the steps before that began the batch which is being applied.
    unfinished: Duration,
}

/// What etcd calls the command in `etcd_server_apply_duration_seconds`; our own name if it has no such command.
fn operation(kind: CommandKind) -> &'static str {
    match kind {
        CommandKind::Put => "Put",
        CommandKind::DeleteRange => "DeleteRange",
        CommandKind::Txn => "Txn",
        CommandKind::Compaction => "Compaction",
        CommandKind::LeaseGrant => "LeaseGrant",
        CommandKind::LeaseRevoke => "LeaseRevoke",
        CommandKind::LeaseExpire => "LeaseExpire",
        CommandKind::LeaseCheckpoint => "LeaseCheckpoint",
        CommandKind::Alarm => "Alarm",
        CommandKind::ClusterVersion => "ClusterVersionSet",
        CommandKind::Publish => "ClusterMemberAttrSet",
        CommandKind::CommandSet => "CommandSet",
        CommandKind::Auth => "Auth",
        CommandKind::DowngradeInfo => "DowngradeInfoSet",
    }
}

/// What a step applied: `Put 30, Txn 2 (1 failed)`.
fn applied(counts: &StepCounts) -> String {
    let told = CommandKind::ALL.into_iter().filter_map(|kind| {
        let of_kind = || counts.applied().filter(move |(other, ..)| *other == kind);
        let all: u64 = of_kind().map(|(.., count)| count).sum();
        let failed: u64 = of_kind().filter(|(_, succeeded, _)| !succeeded).map(|(.., count)| count).sum();
        let failed = if failed > 0 { format!(" ({failed} failed)") } else { String::new() };
        (all > 0).then(|| format!("{} {all}{failed}", operation(kind)))
    });
    told.collect::<Vec<_>>().join(", ")
}

impl StepMetrics {
    /// A step that takes long, as `live` defines it, is logged.
    pub(super) fn new(metrics: Arc<Metrics>, live: Arc<LiveSettings>) -> StepMetrics {
        let times = |kind| (kind, metrics.events.applies(operation(kind)));
        let applies = CommandKind::ALL.map(times).into();
        StepMetrics { metrics, live, applies, unfinished: Duration::ZERO }
    }

    /// A step took this long and did this.
    pub(super) fn observe(&mut self, took: Duration, counts: &StepCounts) {
        let slow = self.live.slow_apply();
        if took > slow {
            self.metrics.events.slow_applies.inc();
            tracing::warn!(
                took = format!("{took:?}"),
                "expected-duration" = format!("{slow:?}"),
                applied = applied(counts),
                "goes on" = counts.apply_goes_on,
                "apply request took too long"
            );
        }
        let own = &self.metrics.own;
        for batch in &counts.proposed {
            own.batch_commands.observe(batch.commands as f64);
            own.batch_bytes.observe(batch.bytes as f64);
            own.group_commit_delay.observe(Duration::from_nanos(batch.delay_ns).as_secs_f64());
        }
        if counts.commands() > 0 || counts.apply_goes_on {
            own.apply_step.observe(took.as_secs_f64());
            self.observe_applies(took, counts);
        }
        let events = &self.metrics.events;
        for ttl_s in &counts.granted_ttls_s {
            events.leases_granted.inc();
            events.lease_ttls.observe(*ttl_s as f64);
        }
        events.leases_revoked.inc_by(counts.leases_revoked);
        if let Some(ns) = counts.purged_ns {
            events.compaction_ms.observe(Duration::from_nanos(ns).as_secs_f64() * 1_000.0);
        }
    }

    /// Shares the time among the commands, or keeps it if their batch goes on.
    fn observe_applies(&mut self, took: Duration, counts: &StepCounts) {
        let time = self.unfinished + took;
        let commands = u32::try_from(counts.commands()).unwrap_or(u32::MAX);
        if let Some(each) = time.checked_div(commands) {
            for (kind, succeeded, count) in counts.applied() {
                let of_kind = self.applies.iter().find(|(other, _)| *other == kind);
                if let Some((_, times)) = of_kind {
                    times.observe_equal(succeeded, each, count);
                }
            }
        }
        self.unfinished = if commands == 0 { time } else { Duration::ZERO };
    }
}

#[cfg(test)]
mod tests {
    //! A batch in several steps.
    use super::*;
    use crate::config::FeatureGates;

    #[test]
    fn the_steps_of_a_batch_are_added_up() {
        let metrics = Metrics::new(&FeatureGates::parse("").expect("none"), false).expect("metrics");
        let line = ["stele", "--warning-apply-duration=1000h"].map(Into::into);
        let Ok(crate::config::Parsed::Run(config)) =
            crate::config::parse(line.into_iter(), std::iter::empty())
        else {
            panic!("good flags");
        };
        let live = Arc::new(LiveSettings::new(&config));
        let mut steps = StepMetrics::new(Arc::new(metrics), live);
        let mut goes_on = StepCounts::default();
        goes_on.granted_ttls_s.push(60);
        goes_on.apply_goes_on = true;
        steps.observe(Duration::from_millis(1), &goes_on);
        steps.observe(Duration::from_millis(2), &goes_on);
        assert_eq!(steps.unfinished, Duration::from_millis(3));
        steps.observe(Duration::from_millis(2), &StepCounts::default());
        assert_eq!(steps.unfinished, Duration::from_millis(3), "a step that applies nothing");
    }
}
