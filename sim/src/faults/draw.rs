//! Schedules, drawn before the run.

use super::{Fault, Planned, Target, WIPE};
use crate::plan::{Plan, aim};
use crate::rng::Rng;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// How often each fault but the last two is drawn where it is drawn at all, in the order of [`super::NAMES`].
const USUAL: [u64; 19] = [10, 3, 10, 3, 8, 12, 10, 8, 6, 3, 3, 4, 3, 5, 4, 3, 1, 8, 3];

/// Isolation came later than the other faults: seeds of these remainders draw it, so that all others are
/// what they were.
const ISOLATING_SEEDS: [u64; 3] = [2, 6, 7];

/// Weight of a fault that brings about what is in focus.
const HELPER: u64 = 12;

/// Weights in aimed runs of what is rare by nature, since it is once in a run: lost directories, lost tails.
const WIPE_AIMED: u64 = 4;
const TAIL_FLIP: u64 = 4;

/// Draws a time.
type Times = fn(&mut Rng) -> u64;

/// Draws the schedule of a run: each kind of fault is in it or not, and how close faults follow each other
/// differs.
pub(crate) fn draw_schedule(plan: &Plan, rng: &mut Rng) -> Vec<Planned> {
    if rng.percent(5) {
        return Vec::new();
    }
    let mut schedule = Schedule::default();
    schedule.burst(plan, rng, SECOND, plan.chaos_ns);
    schedule.planned
}

/// Draws the schedule of a long run: each burst has kinds of faults of its own, and faults that last for minutes
/// strike at any time.
pub(crate) fn draw_long_schedule(plan: &Plan, rng: &mut Rng) -> Vec<Planned> {
    let mut schedule = Schedule::default();
    for (from_ns, until_ns) in &plan.bursts {
        schedule.burst(plan, rng, *from_ns, *until_ns);
    }
    let weights = weights(plan, rng);
    let mut at_ns = rng.below(300 * SECOND);
    while at_ns < plan.chaos_ns {
        schedule.add(at_ns, &weights, plan, rng, draw_minutes);
        at_ns += rng.between(60 * SECOND, 480 * SECOND);
    }
    schedule.planned.sort_by_key(|planned| planned.at_ns);
    schedule.planned
}

/// A schedule being drawn.
#[derive(Default)]
struct Schedule {
    planned: Vec<Planned>,
    /// A victim's data is damaged or lost.
    damaged: bool,
}

impl Schedule {
    fn burst(&mut self, plan: &Plan, rng: &mut Rng, from_ns: u64, until_ns: u64) {
        let weights = weights(plan, rng);
        if weights.iter().sum::<u64>() == 0 {
            return;
        }
        let gap_ns = [300 * MS, SECOND, 4 * SECOND][rng.below(3) as usize];
        let mut at_ns = from_ns + rng.below(SECOND);
        while at_ns < until_ns {
            self.add(at_ns, &weights, plan, rng, draw_time);
            at_ns += 1 + rng.below(2 * gap_ns);
        }
    }

    fn add(&mut self, at_ns: u64, weights: &[u64], plan: &Plan, rng: &mut Rng, times: Times) {
        if weights.iter().sum::<u64>() == 0 {
            return;
        }
        let Some(fault) = draw(rng.weighted(weights), plan, rng, times) else { return };
        // One thing that lasts for ever is enough.
        let lasting = matches!(fault, Fault::Wipe { .. } | Fault::BitFlip { .. } | Fault::TailFlip { .. });
        if self.damaged && matches!(fault, Fault::Wipe { .. } | Fault::TailFlip { .. }) {
            return;
        }
        self.damaged |= lasting;
        self.planned.push(Planned { at_ns, fault, during: None });
    }
}

/// How often each fault is drawn in this run, or this burst.
fn weights(plan: &Plan, rng: &mut Rng) -> Vec<u64> {
    let mut weights: Vec<u64> = USUAL.iter().map(|usual| if rng.percent(45) { *usual } else { 0 }).collect();
    weights.push(if ISOLATING_SEEDS.contains(&(plan.seed % 8)) { 12 } else { 0 });
    weights.push(0);
    let Some(focus) = plan.focus else { return weights };
    if let Some(helper) = aim::helper(focus) {
        weights[helper] = weights[helper].max(HELPER);
    }
    let last = weights.len() - 1;
    for (fault, often) in [(WIPE, WIPE_AIMED), (last, TAIL_FLIP)] {
        // A long run has many bursts, and would lose a victim's copy in the first of them.
        let percent = if plan.is_long() { 2 } else { 30 };
        weights[fault] = if rng.percent(percent) { often } else { 0 };
    }
    weights
}

fn draw_target(plan: &Plan, rng: &mut Rng) -> Target {
    if rng.percent(40) { Target::Leader } else { Target::Member(rng.below(plan.members as u64) as usize) }
}

/// A time that is short as a rule and sometimes much longer than an election.
fn draw_time(rng: &mut Rng) -> u64 {
    let longest = [50 * MS, 500 * MS, 3 * SECOND, 9 * SECOND][rng.weighted(&[3, 3, 3, 1])];
    1 + rng.below(longest)
}

/// A time long enough to fall far behind.
fn draw_minutes(rng: &mut Rng) -> u64 {
    rng.between(20 * SECOND, 600 * SECOND)
}

fn draw(number: usize, plan: &Plan, rng: &mut Rng, times: Times) -> Option<Fault> {
    let target = draw_target(plan, rng);
    let time = times(rng);
    let from = rng.below(plan.members as u64) as usize;
    let to = (from + 1 + rng.below(plan.members as u64 - 1) as usize) % plan.members;
    let victim = plan.victims.get(rng.below(plan.victims.len() as u64) as usize).copied();
    let alone = plan.members == 1;
    Some(match number {
        0 => Fault::PowerLoss { target, after_changes: rng.below(30), down_ns: time },
        1 => Fault::PowerLossAll { down_ns: time },
        2 => Fault::Kill { target, down_ns: time },
        3 => Fault::Stop { target, down_ns: time },
        4 => Fault::Pause { target, for_ns: time },
        5..=8 if alone => return None,
        5 => Fault::BreakLink { from, to },
        6 => Fault::Cut { from, to, for_ns: time },
        7 => Fault::Partition { groups: rng.next(), for_ns: time },
        8 => Fault::SlowLink { from, to, by_ns: rng.between(5 * MS, 400 * MS), for_ns: time },
        9 => Fault::SyncFails { target, after: rng.below(5) },
        10 => Fault::WriteFails { target, after: rng.below(5) },
        11 => Fault::ReadFails { target, after: rng.below(20) },
        12 => Fault::DiskFull { target, for_ns: time },
        13 => Fault::SyncStalls { target, for_ns: time },
        14 => Fault::BitFlip { victim: victim?, addresses: rng.between(1, 4) },
        15 => Fault::WallJump { target, by_ms: rng.below(7_200_000) as i64 - 3_600_000 },
        16 => Fault::Wipe { victim: victim? },
        17 if alone => return None,
        17 => Fault::MoveLeader { to },
        18 => Fault::Defragment { target },
        20 => Fault::TailFlip { victim: victim? },
        _ if alone => return None,
        _ => Fault::Isolate { target, pause_ns: rng.below(3 * SECOND), for_ns: SECOND + time },
    })
}
