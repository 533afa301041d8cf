//! What can go wrong, and when it does.
//!
//! A schedule is drawn before the run, as data: so a failing run can be repeated with a part of it.

mod strike;

use crate::plan::Plan;
use crate::rng::Rng;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Whom a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// This member.
    Member(usize),
    /// Whoever leads then.
    Leader,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Power is lost after so many more changes of the disk.
    PowerLoss { target: Target, after_changes: u64, down_ns: u64 },
    /// Power is lost everywhere at once.
    PowerLossAll { down_ns: u64 },
    /// The process is killed; the machine stays up.
    Kill { target: Target, down_ns: u64 },
    /// The process stops in good order.
    Stop { target: Target, down_ns: u64 },
    /// The process does not run for a while.
    Pause { target: Target, for_ns: u64 },
    /// A connection breaks; it is dialled again at once.
    BreakLink { from: usize, to: usize },
    /// Nothing gets through in one direction.
    Cut { from: usize, to: usize, for_ns: u64 },
    /// Members in different groups do not hear each other; the bits are a member's group.
    Partition { groups: u64, for_ns: u64 },
    /// A machine freezes and, when it goes on, is cut off from all others: a leader does not know yet that
    /// it is none.
    Isolate { target: Target, pause_ns: u64, for_ns: u64 },
    /// A link becomes slow.
    SlowLink { from: usize, to: usize, by_ns: u64, for_ns: u64 },
    /// A sync fails.
    SyncFails { target: Target, after: u64 },
    /// A write fails.
    WriteFails { target: Target, after: u64 },
    /// A read fails.
    ReadFails { target: Target, after: u64 },
    /// The disk is full.
    DiskFull { target: Target, for_ns: u64 },
    /// Syncs take seconds.
    SyncStalls { target: Target, for_ns: u64 },
    /// A bit flips in what a victim has on its disk.
    BitFlip { victim: usize, places: u64 },
    /// Somebody sets the time of day.
    WallJump { target: Target, by_ms: i64 },
    /// A victim loses its directory and starts again.
    Wipe { victim: usize },
    /// An operator moves the leadership.
    MoveLeader { to: usize },
    /// An operator gives back space.
    Defragment { target: Target },
}

impl Fault {
    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        NAMES[self.number()]
    }

    fn number(&self) -> usize {
        match self {
            Fault::PowerLoss { .. } => 0,
            Fault::PowerLossAll { .. } => 1,
            Fault::Kill { .. } => 2,
            Fault::Stop { .. } => 3,
            Fault::Pause { .. } => 4,
            Fault::BreakLink { .. } => 5,
            Fault::Cut { .. } => 6,
            Fault::Partition { .. } => 7,
            Fault::SlowLink { .. } => 8,
            Fault::SyncFails { .. } => 9,
            Fault::WriteFails { .. } => 10,
            Fault::ReadFails { .. } => 11,
            Fault::DiskFull { .. } => 12,
            Fault::SyncStalls { .. } => 13,
            Fault::BitFlip { .. } => 14,
            Fault::WallJump { .. } => 15,
            Fault::Wipe { .. } => 16,
            Fault::MoveLeader { .. } => 17,
            Fault::Defragment { .. } => 18,
            Fault::Isolate { .. } => 19,
        }
    }
}

/// The names of all faults.
pub(crate) const NAMES: [&str; 20] = [
    "power loss",
    "power loss of all",
    "kill",
    "graceful stop",
    "pause",
    "broken link",
    "cut",
    "partition",
    "slow link",
    "sync fails",
    "write fails",
    "read fails",
    "disk full",
    "sync stalls",
    "bit flip",
    "wall clock jump",
    "wipe",
    "leader transfer",
    "defragment",
    "isolation",
];

/// A fault and its moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// When.
    pub(crate) at_ns: u64,
    /// What.
    pub(crate) fault: Fault,
}

/// How often each fault but isolation is drawn where it is drawn at all, in the order of [`NAMES`].
const USUAL: [u64; 19] = [10, 3, 10, 3, 8, 12, 10, 8, 6, 3, 3, 4, 3, 5, 4, 3, 1, 8, 3];

/// Isolation came later than the other faults: seeds of these remainders draw it, so that all others are
/// what they were.
const ISOLATING_SEEDS: [u64; 3] = [2, 6, 7];

/// Draws the schedule of a run: each kind of fault is in it or not, and how close faults follow each other
/// differs.
pub(crate) fn draw_schedule(plan: &Plan, rng: &mut Rng) -> Vec<Planned> {
    if rng.percent(5) {
        return Vec::new();
    }
    let mut weights: Vec<u64> = USUAL.iter().map(|usual| if rng.percent(45) { *usual } else { 0 }).collect();
    weights.push(if ISOLATING_SEEDS.contains(&(plan.seed % 8)) { 12 } else { 0 });
    if weights.iter().sum::<u64>() == 0 {
        return Vec::new();
    }
    let gap_ns = [300 * MS, SECOND, 4 * SECOND][rng.below(3) as usize];
    let mut planned = Vec::new();
    let mut at_ns = SECOND + rng.below(SECOND);
    let mut damaged = false;
    while at_ns < plan.chaos_ns {
        if let Some(fault) = draw(rng.weighted(&weights), plan, rng) {
            // One thing that lasts for ever is enough.
            let lasting = matches!(fault, Fault::Wipe { .. } | Fault::BitFlip { .. });
            if !(lasting && damaged && matches!(fault, Fault::Wipe { .. })) {
                damaged |= lasting;
                planned.push(Planned { at_ns, fault });
            }
        }
        at_ns += 1 + rng.below(2 * gap_ns);
    }
    planned
}

fn draw_target(plan: &Plan, rng: &mut Rng) -> Target {
    if rng.percent(40) { Target::Leader } else { Target::Member(rng.below(plan.members as u64) as usize) }
}

/// A time that is short as a rule and sometimes much longer than an election.
fn draw_time(rng: &mut Rng) -> u64 {
    let longest = [50 * MS, 500 * MS, 3 * SECOND, 9 * SECOND][rng.weighted(&[3, 3, 3, 1])];
    1 + rng.below(longest)
}

fn draw(number: usize, plan: &Plan, rng: &mut Rng) -> Option<Fault> {
    let target = draw_target(plan, rng);
    let time = draw_time(rng);
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
        14 => Fault::BitFlip { victim: victim?, places: rng.between(1, 4) },
        15 => Fault::WallJump { target, by_ms: rng.below(7_200_000) as i64 - 3_600_000 },
        16 => Fault::Wipe { victim: victim? },
        17 if alone => return None,
        17 => Fault::MoveLeader { to },
        18 => Fault::Defragment { target },
        _ if alone => return None,
        _ => Fault::Isolate { target, pause_ns: rng.below(3 * SECOND), for_ns: SECOND + time },
    })
}
