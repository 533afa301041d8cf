//! The gate's runs: seeds that once found a bug, new ones, the same seed twice, and defects that must be noticed.

use sim::Defect;

/// Seeds that every change runs; fewer without optimization, which is thirty times slower. Other seeds that find a bug
/// go into `seeds.txt`.
const SEEDS: u64 = if cfg!(debug_assertions) { 8 } else { 112 };

/// Runs at the same time: machines that run the gate have at least two cores.
const JOBS: usize = 2;

/// Seeds within which these defects must be noticed.
const DEFECT_SEEDS: u64 = 30;

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 7] {
        let once = sim::replay(seed, None, None, false).expect("nothing breaks");
        let twice = sim::replay(seed, None, None, false).expect("nothing breaks");
        assert_eq!(once, twice);
    }
}

/// Those of `seeds.txt` come first: some of them take longest.
#[test]
fn nothing_breaks() {
    let lines = include_str!("../seeds.txt").lines().filter(|line| !line.starts_with('#'));
    let seeds = lines.map(|line| line.split_whitespace().next()?.parse().ok());
    let known: Vec<u64> = seeds.map(|seed: Option<u64>| seed.expect("a seed")).collect();
    let others = (1..=SEEDS).filter(|seed| !known.contains(seed));
    if let Err(text) = sim::run_seeds(known.iter().copied().chain(others), JOBS, |_| true, |_| {}) {
        panic!("{text}");
    }
}

#[test]
fn defects_are_noticed() {
    let quick = [
        Defect::ReadWithoutIndex,
        Defect::ForwardedTwice,
        Defect::AcceptedOnArrival,
        Defect::RepairUnanswered,
        Defect::RangeCheckedByFirstKey,
        Defect::ReadNotRechecked,
        Defect::WatchNotRechecked,
        Defect::NestedTxnUnchecked,
        Defect::StreamUnpinned,
        Defect::LeasesListedUnchecked,
        Defect::TokenNotAwaited,
        Defect::TokenOutlivesUser,
        Defect::RevisionShownEarly,
        Defect::HashMissesNewest,
        Defect::MovedElsewhere,
    ];
    for (defect, found) in sim::run_defects(&quick, JOBS, DEFECT_SEEDS) {
        assert!(found.is_some(), "{defect:?} was not noticed in {DEFECT_SEEDS} seeds");
    }
}
