//! Aimed runs: faults that strike while a certain operation is under way.
//!
//! Left to chance, a fault that is rare hardly ever meets an operation that takes milliseconds. So every second seed
//! has an operation in focus: the plan is bent so that it happens often, and most faults wait for it.

use super::{Plan, long};
use crate::coverage::Operation;
use crate::faults::{DEFRAGMENT, KILL, MOVE_LEADER};
use crate::rng::{Rng, Stream};

/// Seeds of these remainders have an operation in focus. The others, seeds that once found something among them, are
/// what they were before there was such a thing.
const AIMED_SEEDS: [u64; 5] = [0, 2, 3, 5, 8];

/// Of a hundred faults in an aimed run, so many wait for the operation.
const AIMED_PERCENT: u64 = 65;

/// What is under way for a short time only, or rarely.
const FOCUS: [Operation; 9] = [
    Operation::PastRead,
    Operation::Lease,
    Operation::Checkpoint,
    Operation::Snapshot,
    Operation::Compaction,
    Operation::Relocation,
    Operation::Transfer,
    Operation::Quota,
    Operation::Election,
];

/// The operation in focus, drawn for its seed.
pub(super) fn focus(seed: u64) -> Option<Operation> {
    let aimed = AIMED_SEEDS.contains(&(seed % 10));
    aimed.then(|| FOCUS[Rng::new(seed, Stream::Aim).below(FOCUS.len() as u64) as usize])
}

/// Makes the operation in focus a frequent one, and lets ranges be answered as lists.
pub(super) fn bend(plan: &mut Plan) {
    let Some(focus) = plan.focus else { return };
    // Long runs that found something are kept, and had no lists.
    if !long::is_long(plan.seed) {
        let mut rng = Rng::new(plan.seed, Stream::Lists);
        plan.cache_bytes = [0, 2 << 10, 32 << 10, 256 << 10][rng.below(4) as usize];
        plan.list_percent = [30, 70, 100][rng.below(3) as usize];
    }
    let mut rng = Rng::new(plan.seed, Stream::Aim);
    rng.next();
    let weights = &mut plan.mix.weights;
    let (past, grant, renew, compact) = (4, 6, 7, 10);
    let mut often = |request: usize, weight: u64| weights[request] = weights[request].max(weight);
    match focus {
        Operation::PastRead => often(past, 25),
        Operation::Lease => {
            often(grant, 8);
            often(renew, 25);
        }
        Operation::Checkpoint => plan.checkpoint_commands = rng.between(5, 30),
        Operation::Snapshot => {
            often(compact, 4);
            plan.segment_bytes = 16 << 10;
            plan.catchup_entries = rng.between(5, 20);
            plan.checkpoint_commands = rng.between(5, 40);
        }
        Operation::Compaction => often(compact, 8),
        Operation::Relocation => {
            often(compact, 4);
            plan.segment_bytes = 16 << 10;
            plan.catchup_entries = rng.between(5, 50);
            plan.checkpoint_commands = rng.between(5, 60);
        }
        Operation::Quota => plan.quota_bytes = rng.between(3_000, 30_000),
        _ => {}
    }
}

/// The number of the fault that brings about what is in focus, if one does.
pub(crate) fn helper(focus: Operation) -> Option<usize> {
    match focus {
        Operation::Snapshot | Operation::Election => Some(KILL),
        Operation::Relocation | Operation::Checkpoint => Some(DEFRAGMENT),
        Operation::Transfer => Some(MOVE_LEADER),
        _ => None,
    }
}

/// Lets most faults wait for what is in focus.
pub(super) fn aim(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed.rotate_left(32), Stream::Aim);
    for planned in &mut plan.faults {
        planned.during = plan.focus.filter(|_| rng.percent(AIMED_PERCENT));
    }
}
