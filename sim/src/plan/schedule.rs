//! Draws the fault schedule of a run.

use super::fault::{FaultTarget, PlannedFault, SimFault, TAIL_FLIP, WIPE};
use super::run_plan::RunPlan;
use super::{focus, seed_kinds};
use crate::rng::Rng;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Usual weight of each fault but the last four, in the order of [`NAMES`](super::fault::NAMES).
const USUAL: [u64; 19] = [10, 3, 10, 3, 8, 12, 10, 8, 6, 3, 3, 4, 3, 5, 4, 3, 1, 8, 3];

/// Weight of a fault that causes the operation in focus.
const CAUSING_WEIGHT: u64 = 12;

/// Weights in focused runs of faults that strike once in a run at most: lost directories and lost tails.
const FOCUSED_WIPE_WEIGHT: u64 = 4;
const TAIL_FLIP_WEIGHT: u64 = 4;

/// Weights of a broken and of a held-up stream in runs that have them.
const STREAM_WEIGHTS: [u64; 2] = [12, 6];

/// Draws how long a fault lasts, in nanoseconds.
type DrawDuration = fn(&mut Rng) -> u64;

/// Draws the schedule of a run. Which kinds of faults occur in it, and how closely they follow each other, differs
/// between runs.
pub(super) fn draw_schedule(plan: &RunPlan, rng: &mut Rng) -> Vec<PlannedFault> {
    if rng.percent(5) {
        return Vec::new();
    }
    let mut schedule = FaultSchedule::default();
    schedule.burst(plan, rng, SECOND, plan.fault_phase_ns);
    schedule.planned
}

/// Draws the schedule of a long run: each burst has kinds of faults of its own, and faults that last for minutes
/// strike at any time.
pub(super) fn draw_long_schedule(plan: &RunPlan, rng: &mut Rng) -> Vec<PlannedFault> {
    let mut schedule = FaultSchedule::default();
    for (from_ns, until_ns) in &plan.bursts {
        schedule.burst(plan, rng, *from_ns, *until_ns);
    }
    let weights = weights(plan, rng);
    let mut at_ns = rng.below(300 * SECOND);
    while at_ns < plan.fault_phase_ns {
        schedule.add(at_ns, &weights, plan, rng, draw_minutes);
        at_ns += rng.between(60 * SECOND, 480 * SECOND);
    }
    schedule.planned.sort_by_key(|planned| planned.at_ns);
    schedule.planned
}

/// A schedule being drawn.
#[derive(Default)]
struct FaultSchedule {
    planned: Vec<PlannedFault>,
    /// A victim's data is damaged or lost.
    damaged: bool,
}

impl FaultSchedule {
    fn burst(&mut self, plan: &RunPlan, rng: &mut Rng, from_ns: u64, until_ns: u64) {
        let weights = weights(plan, rng);
        if weights.iter().sum::<u64>() == 0 {
            return;
        }
        let mean_ns = [300 * MS, SECOND, 4 * SECOND][rng.below(3) as usize];
        let mut at_ns = from_ns + rng.below(SECOND);
        while at_ns < until_ns {
            self.add(at_ns, &weights, plan, rng, draw_time);
            at_ns += 1 + rng.below(2 * mean_ns);
        }
    }

    fn add(&mut self, at_ns: u64, weights: &[u64], plan: &RunPlan, rng: &mut Rng, times: DrawDuration) {
        if weights.iter().sum::<u64>() == 0 {
            return;
        }
        let Some(fault) = draw(rng.weighted(weights), plan, rng, times) else { return };
        // Damage lasts to the end of the run: one lost copy is enough.
        let lasting =
            matches!(fault, SimFault::Wipe { .. } | SimFault::BitFlip { .. } | SimFault::TailFlip { .. });
        if self.damaged && matches!(fault, SimFault::Wipe { .. } | SimFault::TailFlip { .. }) {
            return;
        }
        self.damaged |= lasting;
        self.planned.push(PlannedFault { at_ns, fault, during: None });
    }
}

/// The weight of each fault in this run, or in this burst.
fn weights(plan: &RunPlan, rng: &mut Rng) -> Vec<u64> {
    let mut weights: Vec<u64> = USUAL.iter().map(|usual| if rng.percent(45) { *usual } else { 0 }).collect();
    weights.push(if seed_kinds::isolates(plan.seed) { 12 } else { 0 });
    weights.push(0);
    weights.extend(if plan.streams_fail_apart { STREAM_WEIGHTS } else { [0; 2] });
    let Some(focus) = plan.focus else { return weights };
    if let Some(causing) = focus::causing_fault(focus) {
        weights[causing] = weights[causing].max(CAUSING_WEIGHT);
    }
    for (fault, often) in [(WIPE, FOCUSED_WIPE_WEIGHT), (TAIL_FLIP, TAIL_FLIP_WEIGHT)] {
        // A long run has many bursts, and would lose a victim's copy in the first of them.
        let percent = if plan.is_long() { 2 } else { 30 };
        weights[fault] = if rng.percent(percent) { often } else { 0 };
    }
    weights
}

fn draw_target(plan: &RunPlan, rng: &mut Rng) -> FaultTarget {
    if rng.percent(40) {
        FaultTarget::Leader
    } else {
        FaultTarget::Member(rng.below(plan.machines() as u64) as usize)
    }
}

/// Usually short, sometimes much longer than an election.
fn draw_time(rng: &mut Rng) -> u64 {
    let longest = [50 * MS, 500 * MS, 3 * SECOND, 9 * SECOND][rng.weighted(&[3, 3, 3, 1])];
    1 + rng.below(longest)
}

/// Long enough for a member to fall far behind.
fn draw_minutes(rng: &mut Rng) -> u64 {
    rng.between(20 * SECOND, 600 * SECOND)
}

fn draw(number: usize, plan: &RunPlan, rng: &mut Rng, times: DrawDuration) -> Option<SimFault> {
    let target = draw_target(plan, rng);
    let time = times(rng);
    let from = rng.below(plan.machines() as u64) as usize;
    let to = (from + 1 + rng.below(plan.machines() as u64 - 1) as usize) % plan.machines();
    let victim = plan.victims.get(rng.below(plan.victims.len() as u64) as usize).copied();
    let alone = plan.machines() == 1;
    Some(match number {
        0 => SimFault::PowerLoss { target, after_changes: rng.below(30), down_ns: time },
        1 => SimFault::PowerLossAll { down_ns: time },
        2 => SimFault::Kill { target, down_ns: time },
        3 => SimFault::Stop { target, down_ns: time },
        4 => SimFault::Pause { target, for_ns: time },
        5..=8 if alone => return None,
        5 => SimFault::BreakLink { from, to },
        6 => SimFault::Cut { from, to, for_ns: time },
        7 => SimFault::Partition { groups: rng.next(), for_ns: time },
        8 => SimFault::SlowLink { from, to, by_ns: rng.between(5 * MS, 400 * MS), for_ns: time },
        9 => SimFault::SyncFails { target, after: rng.below(5) },
        10 => SimFault::WriteFails { target, after: rng.below(5) },
        11 => SimFault::ReadFails { target, after: rng.below(20) },
        12 => SimFault::DiskFull { target, for_ns: time },
        13 => SimFault::SyncStalls { target, for_ns: time },
        14 => SimFault::BitFlip { victim: victim?, addresses: rng.between(1, 4) },
        15 => SimFault::WallJump { target, by_ms: rng.below(7_200_000) as i64 - 3_600_000 },
        16 => SimFault::Wipe { victim: victim? },
        17 if alone => return None,
        17 => SimFault::MoveLeader { to },
        18 => SimFault::Defragment { target },
        20 => SimFault::TailFlip { victim: victim? },
        _ if alone => return None,
        21 => SimFault::BreakStream { from, to },
        22 => SimFault::HoldUpStream { from, to, for_ns: time },
        _ => SimFault::Isolate { target, pause_ns: rng.below(3 * SECOND), for_ns: SECOND + time },
    })
}
