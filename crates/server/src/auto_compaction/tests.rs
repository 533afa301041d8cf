//! The schedule against etcd's rules, with a clock that jumps.

use super::*;

const MINUTE: u64 = 60 * 1_000_000_000;

/// Observes each `step_ns` up to `until_ns`, one new revision a step, and lists (step, compacted revision).
fn run(policy: Policy, step_ns: u64, steps: u64) -> Vec<(u64, i64)> {
    let mut schedule = Schedule::new(policy, 0);
    let mut compacted = Vec::new();
    for step in 0..=steps {
        let now = step * step_ns;
        if let Some(revision) = schedule.observe(now, step as i64 + 1) {
            compacted.push((step, revision));
            schedule.compacted(now, revision);
        }
    }
    compacted
}

#[test]
fn an_hour_is_sampled_ten_times_and_compacted_hourly() {
    let compacted = run(Policy::Periodic(Duration::from_secs(3600)), 6 * MINUTE, 30);
    assert_eq!(compacted, [(10, 1), (20, 10), (30, 20)]);
}

#[test]
fn five_minutes_are_compacted_every_five_minutes() {
    let compacted = run(Policy::Periodic(Duration::from_secs(300)), MINUTE / 2, 20);
    assert_eq!(compacted, [(10, 1), (20, 10)]);
}

#[test]
fn a_day_is_compacted_hourly_after_the_first_day() {
    let compacted = run(Policy::Periodic(Duration::from_secs(24 * 3600)), 6 * MINUTE, 270);
    assert_eq!(compacted, [(240, 1), (250, 10), (260, 20), (270, 30)]);
}

#[test]
fn an_idle_store_is_compacted_once() {
    let mut schedule = Schedule::new(Policy::Periodic(Duration::from_secs(3600)), 0);
    let mut compacted = Vec::new();
    for step in 0..60 {
        if let Some(revision) = schedule.observe(step * 6 * MINUTE, 5) {
            compacted.push(revision);
            schedule.compacted(step * 6 * MINUTE, revision);
        }
    }
    assert_eq!(compacted, [5]);
}

#[test]
fn a_failed_compaction_is_tried_again_after_one_sample() {
    let mut schedule = Schedule::new(Policy::Periodic(Duration::from_secs(3600)), 0);
    let due: Vec<_> =
        (0..13).filter(|step| schedule.observe(step * 6 * MINUTE, *step as i64 + 1).is_some()).collect();
    assert_eq!(due, [10, 11, 12]);
}

#[test]
fn calls_between_samples_change_nothing() {
    let often = run(Policy::Periodic(Duration::from_secs(3600)), MINUTE, 120);
    assert_eq!(often.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [60, 120]);
    assert_eq!(often[0].1, 1);
}

#[test]
fn revisions_are_kept_by_number() {
    let compacted = run(Policy::Revision(2), 5 * MINUTE, 5);
    assert_eq!(compacted, [(2, 1), (3, 2), (4, 3), (5, 4)]);
    let mut schedule = Schedule::new(Policy::Revision(10), 0);
    assert_eq!(schedule.observe(5 * MINUTE, 100), Some(90));
    schedule.compacted(5 * MINUTE, 90);
    assert_eq!(schedule.observe(10 * MINUTE, 100), None);
    assert_eq!(schedule.observe(15 * MINUTE, 101), Some(91));
}

#[test]
fn retention_is_read_by_mode() {
    let hour = Duration::from_secs(3600);
    let cases = [
        ("periodic", "0", Ok(None)),
        ("revision", "0", Ok(None)),
        ("periodic", "", Ok(None)),
        ("periodic", "5", Ok(Some(Policy::Periodic(5 * hour)))),
        ("periodic", "90m", Ok(Some(Policy::Periodic(Duration::from_secs(5400))))),
        ("periodic", "0s", Ok(None)),
        ("revision", "5000", Ok(Some(Policy::Revision(5000)))),
    ];
    for (mode, retention, expected) in cases {
        assert_eq!(Policy::parse(mode, retention), expected, "{mode} {retention}");
    }
}

#[test]
fn bad_retentions_and_modes_are_refused() {
    let error = |mode, retention| Policy::parse(mode, retention).expect_err(retention);
    assert_eq!(error("", "0"), "undefined auto-compaction-mode");
    assert_eq!(error("weekly", "1"), "unknown auto-compaction-mode \"weekly\"");
    assert!(error("periodic", "-1h").starts_with("error parsing CompactionRetention: "));
    assert!(error("periodic", "soon").starts_with("error parsing CompactionRetention: "));
    assert!(error("periodic", "99999999999").starts_with("error parsing CompactionRetention: "));
    assert!(error("revision", "5m").starts_with("error parsing CompactionRetention: "));
}
