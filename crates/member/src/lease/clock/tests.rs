//! The lease clock against its promises: never early, renewed from the keep-alive on, remainders only ever generous.

use super::*;

const S: u64 = SECOND_NS;

fn clock(leases: &[(i64, i64, i64)]) -> LeaseClock {
    let mut clock = LeaseClock::default();
    clock.start(0, leases.iter().copied());
    clock
}

/// The remainders to record, if it is time to look for some.
fn take_due(clock: &mut LeaseClock, now_ns: u64) -> Vec<(i64, i64)> {
    if clock.remainders_are_due(now_ns) { clock.take_remainders(now_ns) } else { Vec::new() }
}

#[test]
fn a_lease_runs_out_when_its_ttl_has_passed_and_not_before() {
    let mut clock = clock(&[(1, 10, 0), (2, 5, 0)]);
    assert!(clock.take_expired(5 * S - 1).is_none());
    assert_eq!(clock.take_expired(5 * S), Some(2));
    assert!(clock.take_expired(9 * S).is_none());
    assert_eq!(clock.take_expired(10 * S), Some(1));
    assert!(clock.take_expired(100 * S).is_none(), "an expiry is proposed once");
}

#[test]
fn a_keep_alive_moves_the_deadline_and_old_ones_are_forgotten() {
    let mut clock = clock(&[(1, 10, 0)]);
    assert_eq!(clock.keep_alive(9 * S, 1), KeepAlive::Renewed(10));
    assert!(clock.take_expired(18 * S).is_none());
    assert_eq!(clock.remaining_s(18 * S, 1), Some((1, 10)));
    assert_eq!(clock.take_expired(19 * S), Some(1));
    assert_eq!(clock.keep_alive(19 * S, 1), KeepAlive::Expiring);
    clock.not_proposed(&[1]);
    assert_eq!(clock.keep_alive(19 * S, 1), KeepAlive::Renewed(10));
    assert_eq!(clock.keep_alive(0, 7), KeepAlive::NotFound);
}

#[test]
fn a_recorded_remainder_counts_until_a_keep_alive_removes_it() {
    let mut clock = clock(&[(1, 1000, 30)]);
    assert_eq!(clock.keep_alive(S, 1), KeepAlive::RemoveRecordFirst);
    clock.recorded(1, 0);
    assert_eq!(clock.keep_alive(S, 1), KeepAlive::Renewed(1000));
    assert!(clock.take_expired(30 * S).is_none());
}

#[test]
fn remainders_are_recorded_for_long_leases_that_have_aged() {
    let mut clock = clock(&[(1, 30, 0), (2, 600, 0), (3, 600, 0)]);
    assert!(take_due(&mut clock, RECORD_INTERVAL_NS - 1).is_empty());
    clock.keep_alive(RECORD_INTERVAL_NS - S, 3);
    clock.take_expired(RECORD_INTERVAL_NS);
    let slice_ns = RECORD_INTERVAL_NS / RECORD_SLICES;
    let slices = (0..3).map(|slice| take_due(&mut clock, RECORD_INTERVAL_NS + slice * slice_ns));
    assert_eq!(slices.collect::<Vec<_>>(), [vec![], vec![(2, 540)], vec![]], "a lease a slice");
    let renewed = clock.keep_alive(RECORD_INTERVAL_NS + S, 2);
    assert_eq!(renewed, KeepAlive::RemoveRecordFirst, "the record may be in the log already");
}

/// A successor would read what was recorded behind the removal, and forget the keep-alive that waited for it.
#[test]
fn no_remainder_is_recorded_while_one_is_being_removed() {
    let mut clock = clock(&[(1, 600, 600)]);
    assert_eq!(clock.keep_alive(61 * S, 1), KeepAlive::RemoveRecordFirst);
    assert!(take_due(&mut clock, 61 * S).is_empty());
    clock.recorded(1, 0);
    assert_eq!(clock.keep_alive(62 * S, 1), KeepAlive::Renewed(600));
    assert_eq!(take_due(&mut clock, 122 * S), [(1, 540)], "later ones are recorded again");
}

#[test]
fn a_lease_is_recorded_once_an_interval_however_few_there_are() {
    let mut clock = clock(&[(1, 600, 0)]);
    let ticks = (0..6_000).map(|tick| tick * RECORD_INTERVAL_NS / RECORD_SLICES);
    let recorded: Vec<_> = ticks.flat_map(|at_ns| take_due(&mut clock, at_ns)).collect();
    assert_eq!(recorded, (1..10).map(|minute| (1, 600 - 60 * minute)).collect::<Vec<_>>());
}

#[test]
fn a_million_leases_are_never_looked_at_at_once() {
    let mut clock = LeaseClock::default();
    clock.start(0, (0..100_000).map(|id| (id, 600, 0)));
    let slice_ns = RECORD_INTERVAL_NS / RECORD_SLICES;
    let mut seen = std::collections::BTreeSet::new();
    for slice in 0..RECORD_SLICES {
        let taken = take_due(&mut clock, RECORD_INTERVAL_NS + slice * slice_ns);
        assert!(taken.len() <= 167, "a six-hundredth each");
        seen.extend(taken.into_iter().map(|(id, _)| id));
    }
    assert_eq!(seen.len(), 100_000, "and each has its turn");
}

#[test]
fn hostile_ttls_do_not_overflow() {
    let mut clock = clock(&[(1, i64::MAX, 0), (2, -5, 0)]);
    assert_eq!(clock.take_expired(0), Some(2));
    assert_eq!(clock.keep_alive(u64::MAX - 1, 1), KeepAlive::Renewed(i64::MAX));
}

#[test]
fn leases_that_are_granted_for_years_and_revoked_leave_nothing_behind() {
    let mut clock = clock(&[(1, 100, 0)]);
    for id in 2..10_000 {
        clock.granted(0, id, 9_000_000_000);
        clock.revoked(id);
    }
    assert!(clock.due.len() <= 2 + DUE_SLACK);
    assert_eq!(clock.take_expired(100 * S), Some(1), "the living one is still watched");
}

#[test]
fn a_renewal_that_is_decided_late_takes_no_time_away() {
    let mut clock = clock(&[(1, 10, 0)]);
    clock.keep_alive(9 * S, 1);
    clock.keep_alive(3 * S, 1);
    assert!(clock.take_expired(19 * S - 1).is_none());
}
