//! The plan of a run: how large, how fast, how hostile. All of it is drawn from the seed before the run begins.
//!
//! Each run has a mix of its own, in which most kinds of faults are missing (*swarm testing*): a run with few kinds of
//! faults goes deeper into each of them than a run in which everything happens at once.
//!
//! ```text
//! draw_plan(42)
//!   members 3, segments of 16 KiB, checkpoint every 57 commands, 9 clients   sizes, speeds (this file)
//!   42 ends in 2: focus on Snapshot -> catch-up of 11 entries, compactions   kind (seed_kinds, focus, long)
//!   at 1.4 s Kill { target: Leader, down_ns: 800 ms }, during Snapshot       faults (schedule, fault)
//!   at 2.1 s SlowLink { from: 0, to: 2, by_ns: 90 ms, for_ns: 3 s }
//! ```
//!
//! The plan is data: a failing run is repeated with a part of its faults, and everything else stays as it was.

pub(crate) mod fault;
mod focus;
pub(crate) mod key_names;
mod lagging;
mod long;
mod many_keys;
pub(crate) mod operation;
pub(crate) mod run_plan;
mod schedule;
mod seed_kinds;

use member::proposal_queue::QueueLimits;
use store::{DEFAULT_SLICE_KEYS, Limits};

use crate::rng::{Rng, RngStream};
use key_names::KeyNames;
use run_plan::{DiskDelays, LinkDelays, RunPlan};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Usual weight of each request: put, transaction, delete, read, read of the past, serializable read, grant, renew,
/// look at a lease, revoke, compact.
pub(crate) const REQUEST_WEIGHTS: [u64; 11] = [30, 18, 6, 18, 6, 10, 4, 12, 2, 2, 1];

/// Draws the plan of a seed.
pub(crate) fn draw_plan(seed: u64) -> RunPlan {
    let mut rng = Rng::new(seed, RngStream::Plan);
    let usual_members = [3, 3, 3, 3, 3, 5, 5, 1][rng.below(8) as usize];
    let mut membership_rng = Rng::new(seed, RngStream::Membership);
    let members = match seed {
        _ if seed_kinds::changes_members(seed) => [1, 1, 2, 3, 3, 5, 7][membership_rng.below(7) as usize],
        _ if seed_kinds::has_seven_members(seed) => 7,
        // The order of commands is read from what members send each other.
        _ if seed_kinds::changes_permissions(seed) => usual_members.max(3),
        _ => usual_members,
    };
    let joiners = if seed_kinds::changes_members(seed) { membership_rng.between(2, 7) as usize } else { 0 };
    let first_victim = rng.below(members as u64) as usize;
    // While members come and go, no fixed choice of them is fewer than a quorum.
    let victims = if joiners > 0 { 0 } else { (members - 1) / 2 };
    let victims = (0..victims).map(|n| (first_victim + n) % members).collect();
    let long_leases = rng.percent(10);
    let small = rng.percent(50);
    let mut plan = RunPlan {
        seed,
        members,
        joiners,
        moves_for_good: seed_kinds::moves_for_good(seed),
        changes_permissions: seed_kinds::changes_permissions(seed),
        pipelines: seed_kinds::pipelines(seed),
        victims,
        late_start: None,
        clients: rng.between(3, 14) as usize,
        watchers: rng.between(1, 4) as usize,
        names: KeyNames::few(rng.between(2, 40)),
        max_value_bytes: [32, 300, 3_000, 9_000][rng.below(4) as usize],
        max_think_ns: [20 * MS, 60 * MS, 250 * MS][rng.below(3) as usize],
        fault_phase_ns: rng.between(8, 30) * SECOND,
        bursts: Vec::new(),
        focus: focus::draw_focus(seed),
        recovery_phase_ns: if long_leases { 110 * SECOND } else { 32 * SECOND },
        segment_bytes: [16 << 10, 64 << 10, 256 << 10][rng.below(3) as usize],
        tail_bytes: if small { 4 << 10 } else { 1 << 20 },
        cache_bytes: 0,
        encoded_range_percent: 0,
        checkpoint_commands: rng.between(5, 400),
        catchup_entries: rng.between(5, 500),
        quota_bytes: if rng.percent(15) { rng.between(20_000, 120_000) } else { 0 },
        memory_limit_bytes: 0,
        max_unapplied_bytes: member::MAX_UNAPPLIED_BYTES,
        store_limits: Vec::new(),
        queue_limits: QueueLimits::default(),
        apply_ns_per_key: 0,
        is_calm: false,
        rates_ppm: Vec::new(),
        link: LinkDelays { base_ns: rng.between(20_000, MS), jitter_ns: rng.between(1, 3 * MS) },
        streams_fail_apart: seed_kinds::streams_fail_apart(seed),
        disk: DiskDelays { base_ns: rng.between(50_000, MS), jitter_ns: rng.between(1, 4 * MS) },
        request_weights: Vec::new(),
        max_ttl_s: if long_leases { 75 } else { 12 },
        faults: Vec::new(),
    };
    draw_differences(&mut plan, &mut rng);
    focus::adapt_plan(&mut plan);
    if seed_kinds::has_many_keys(seed) {
        many_keys::enlarge_plan(&mut plan);
    }
    draw_faults(&mut plan);
    plan
}

/// Draws what differs between members, and between requests.
fn draw_differences(plan: &mut RunPlan, rng: &mut Rng) {
    plan.rates_ppm = (0..plan.machines()).map(|_| rng.below(20_001) as i64 - 10_000).collect();
    plan.request_weights =
        REQUEST_WEIGHTS.iter().map(|usual| if rng.percent(20) { 0 } else { *usual }).collect();
    // Other sizes on each member: where a command is sliced must not be seen.
    let mut slice_keys = || [1, 2, 3, 5, 13, DEFAULT_SLICE_KEYS][rng.below(6) as usize];
    let slices = seed_kinds::slices(plan.seed);
    let mut limits = || Limits { slice_keys: slice_keys(), ..Limits::default() };
    plan.store_limits =
        (0..plan.machines()).map(|_| if slices { limits() } else { Limits::default() }).collect();
    // A run without writes tests nothing.
    plan.request_weights[0] = plan.request_weights[0].max(10);
}

/// Draws the faults, and the bursts of a long run.
fn draw_faults(plan: &mut RunPlan) {
    if seed_kinds::is_long(plan.seed) {
        long::extend_plan(plan);
    } else {
        plan.faults = schedule::draw_schedule(plan, &mut Rng::new(plan.seed, RngStream::Faults));
    }
    if plan.is_calm {
        plan.faults.clear();
    }
    focus::delay_faults(plan);
    if seed_kinds::lags_at_a_wipe(plan.seed) {
        lagging::add_wipe(plan);
    }
}
