//! Runs with thousands of keys: trees split and merge, checkpoints and snapshots have many frames, a command takes many
//! slices, a list has many pages.
//!
//! The limits of the store are drawn for each member, so small that a walk needs many holds of the lock, and applying
//! takes simulated time. Some runs have a memory limit that the keys may exceed, or small queues.

use member::proposal_queue::QueueLimits;
use store::Limits;

use super::key_names::KeyNames;
use super::operation::MemberOperation;
use super::run_plan::RunPlan;
use super::seed_kinds;
use crate::rng::{Rng, RngStream};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Percentage of the runs in which no fault strikes: then nothing but its own work can cost a leader its leadership.
const CALM_PERCENT: u64 = 20;

/// Time for a key in such a run, so that deleting all keys takes longer than an election; and keys of a slice, which
/// takes less than a tick.
const CALM_NS_PER_KEY: u64 = 2_000_000;
const CALM_SLICE_KEYS: usize = 40;

/// Percentage of the runs in which few commands may wait, and fewer are proposed together.
const SMALL_QUEUES_PERCENT: u64 = 40;

/// Percentage of the runs with a memory limit.
const LIMITED_PERCENT: u64 = 40;

/// What may wait to be applied where little may: a few batches of single commands.
const FEW_UNAPPLIED_BYTES: u64 = 2_000;

/// Turns a plan into that of a run with many keys.
pub(super) fn enlarge_plan(plan: &mut RunPlan) {
    let mut rng = Rng::new(plan.seed, RngStream::Keys);
    plan.names = KeyNames::many(rng.between(2_000, 5_000), &mut rng);
    plan.clients = rng.between(5, 10) as usize;
    plan.max_think_ns = [10 * MS, 30 * MS, 100 * MS][rng.below(3) as usize];
    plan.max_value_bytes = [8, 60, 300][rng.below(3) as usize];
    plan.fault_phase_ns = rng.between(4, 8) * SECOND;
    plan.encoded_range_percent = [30, 70, 100][rng.below(3) as usize];
    plan.cache_bytes = [0, 2 << 10, 256 << 10][rng.below(3) as usize];
    plan.segment_bytes = [64 << 10, 256 << 10][rng.below(2) as usize];
    plan.checkpoint_commands = rng.between(20, 200);
    plan.apply_ns_per_key = [1_000, 20_000, 150_000][rng.below(3) as usize];
    plan.quota_bytes = match plan.focus {
        Some(MemberOperation::Quota) => rng.between(200_000, 900_000),
        _ => 0,
    };
    if rng.percent(SMALL_QUEUES_PERCENT) {
        plan.queue_limits = QueueLimits {
            waiting_commands: rng.between(1, 4) as usize,
            waiting_bytes: rng.between(20_000, 100_000) as usize,
            batch_commands: rng.between(1, 4) as usize,
            batch_bytes: rng.between(1_000, 60_000) as usize,
        };
    }
    if rng.percent(LIMITED_PERCENT) {
        plan.memory_limit_bytes = rng.between(1 << 20, 4 << 20);
    }
    if seed_kinds::bounds_unapplied(plan.seed) {
        plan.max_unapplied_bytes = FEW_UNAPPLIED_BYTES;
    }
    plan.store_limits = (0..plan.machines()).map(|_| draw_limits(&mut rng)).collect();
    plan.is_calm = rng.percent(CALM_PERCENT);
    if plan.is_calm {
        (plan.memory_limit_bytes, plan.queue_limits) = (0, QueueLimits::default());
        plan.apply_ns_per_key = CALM_NS_PER_KEY;
        plan.store_limits.iter_mut().for_each(|limits| limits.slice_keys = CALM_SLICE_KEYS);
    }
}

/// Limits of one member: where it divides its work must not be seen.
fn draw_limits(rng: &mut Rng) -> Limits {
    let mut one_of = |choices: [usize; 3]| choices[rng.below(3) as usize];
    Limits {
        slice_keys: one_of([40, 200, 1_000]),
        chunk_keys: one_of([7, 64, 256]),
        count_steps: one_of([11, 100, 1_000]),
        found_keys: one_of([50, 500, 20_000]),
        sorted_versions: one_of([300, 2_000, 1 << 20]),
        checkpoint_chunk_bytes: one_of([1 << 10, 8 << 10, 64 << 10]),
        merge_round_bytes: one_of([2 << 10, 32 << 10, 4 << 20]),
        fetched_bytes: one_of([200, 20_000, 16 << 20]) as u64,
    }
}
