//! Focused runs: faults strike while one chosen operation is under way.
//!
//! By chance alone a rare fault hardly ever meets an operation that takes milliseconds. So every second seed has a
//! focus: the plan makes the operation frequent, and most faults wait until it is under way on the member that they
//! strike.
//!
//! ```text
//! focus Snapshot:  segments 16 KiB, catch-up 5..20 entries, more compactions   adapt_plan
//!                  kills are drawn often: a restarted member needs a snapshot  causing_fault
//!                  65 % of the faults get `during: Some(Snapshot)`             delay_faults
//! ```

use super::fault::{DEFRAGMENT, KILL, MOVE_LEADER};
use super::operation::MemberOperation;
use super::run_plan::RunPlan;
use super::seed_kinds;
use crate::rng::{Rng, RngStream};

/// Percentage of the faults of a focused run that wait for the operation.
const DELAYED_PERCENT: u64 = 65;

/// Operations that are rare or short.
const FOCUS: [MemberOperation; 9] = [
    MemberOperation::PastRead,
    MemberOperation::Lease,
    MemberOperation::Checkpoint,
    MemberOperation::Snapshot,
    MemberOperation::Compaction,
    MemberOperation::Relocation,
    MemberOperation::Transfer,
    MemberOperation::Quota,
    MemberOperation::Election,
];

/// The operation in focus, if the seed is one of a focused run.
pub(super) fn draw_focus(seed: u64) -> Option<MemberOperation> {
    seed_kinds::is_focused(seed)
        .then(|| FOCUS[Rng::new(seed, RngStream::Focus).below(FOCUS.len() as u64) as usize])
}

/// Makes the operation in focus frequent, and lets ranges be answered in encoded form.
pub(super) fn adapt_plan(plan: &mut RunPlan) {
    let Some(focus) = plan.focus else { return };
    // Kept seeds of long runs were drawn before encoded ranges existed.
    if !seed_kinds::is_long(plan.seed) {
        let mut rng = Rng::new(plan.seed, RngStream::Ranges);
        plan.cache_bytes = [0, 2 << 10, 32 << 10, 256 << 10][rng.below(4) as usize];
        plan.encoded_range_percent = [30, 70, 100][rng.below(3) as usize];
    }
    let mut rng = Rng::new(plan.seed, RngStream::Focus);
    rng.next();
    let weights = &mut plan.request_weights;
    let (past, grant, renew, compact) = (4, 6, 7, 10);
    let mut often = |request: usize, weight: u64| weights[request] = weights[request].max(weight);
    match focus {
        MemberOperation::PastRead => often(past, 25),
        MemberOperation::Lease => {
            often(grant, 8);
            often(renew, 25);
        }
        MemberOperation::Checkpoint => plan.checkpoint_commands = rng.between(5, 30),
        MemberOperation::Snapshot => {
            often(compact, 4);
            plan.segment_bytes = 16 << 10;
            plan.catchup_entries = rng.between(5, 20);
            plan.checkpoint_commands = rng.between(5, 40);
        }
        MemberOperation::Compaction => often(compact, 8),
        MemberOperation::Relocation => {
            often(compact, 4);
            plan.segment_bytes = 16 << 10;
            plan.catchup_entries = rng.between(5, 50);
            plan.checkpoint_commands = rng.between(5, 60);
        }
        MemberOperation::Quota => plan.quota_bytes = rng.between(3_000, 30_000),
        _ => {}
    }
}

/// The number of the fault that causes the operation in focus, if one does.
pub(super) fn causing_fault(focus: MemberOperation) -> Option<usize> {
    match focus {
        MemberOperation::Snapshot | MemberOperation::Election => Some(KILL),
        MemberOperation::Relocation | MemberOperation::Checkpoint => Some(DEFRAGMENT),
        MemberOperation::Transfer => Some(MOVE_LEADER),
        _ => None,
    }
}

/// Makes most faults wait for the operation in focus.
pub(super) fn delay_faults(plan: &mut RunPlan) {
    let mut rng = Rng::new(plan.seed.rotate_left(32), RngStream::Focus);
    for planned in &mut plan.faults {
        planned.during = plan.focus.filter(|_| rng.percent(DELAYED_PERCENT));
    }
}
