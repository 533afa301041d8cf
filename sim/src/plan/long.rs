//! Long runs: hours of simulated time, most of them quiet.
//!
//! ```text
//!  |##|............|###|..................|#|.........|##|   no faults  |
//!   burst  2..13 min    4..20 s                                11 min
//!     ^^^^^^^^^^ faults that last 20 s to 10 min strike at any time ^^
//! ```
//!
//! In a burst, clients are busy and faults follow each other closely. Between bursts leases are renewed or run out,
//! their remainders are recorded each minute, and clients send few requests. A fault that lasts for minutes leaves a
//! member far behind.

use super::run_plan::RunPlan;
use super::schedule::draw_long_schedule;
use crate::rng::{Rng, RngStream};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// Longest TTL in a long run: such a lease outlives a quiet period, and its remainder is recorded several times.
const MAX_TTL_S: u64 = 600;

/// Recovery phase: the longest lease at the slowest clock, an election, and some margin.
const RECOVERY_PHASE_NS: u64 = (MAX_TTL_S + MAX_TTL_S / 50 + 30) * SECOND;

/// Turns a plan into that of a long run.
pub(super) fn extend_plan(plan: &mut RunPlan) {
    let mut rng = Rng::new(plan.seed, RngStream::Long);
    plan.fault_phase_ns = rng.between(45, 215) * MINUTE;
    plan.recovery_phase_ns = RECOVERY_PHASE_NS;
    plan.max_ttl_s = MAX_TTL_S as i64;
    let mut at_ns = SECOND;
    while at_ns < plan.fault_phase_ns {
        let until_ns = (at_ns + rng.between(4 * SECOND, 20 * SECOND)).min(plan.fault_phase_ns);
        plan.bursts.push((at_ns, until_ns));
        at_ns = until_ns + rng.between(2 * MINUTE, 13 * MINUTE);
    }
    plan.faults = draw_long_schedule(plan, &mut rng);
}
