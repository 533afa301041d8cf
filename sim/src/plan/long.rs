//! Long runs: hours of simulated time, most of them quiet.
//!
//! Bursts of client work, with faults close to each other, are minutes apart. Between them little happens: leases are
//! kept alive or run out, remainders are recorded each minute, now and then somebody asks for something. Faults that
//! last for minutes strike at any time: a member that was down or apart meanwhile comes back far behind.

use super::Plan;
use crate::faults::draw_long_schedule;
use crate::rng::{Rng, Stream};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// One seed in so many is a long run.
const EVERY: u64 = 10;

/// The longest TTL in a long run, seconds: it lives through a quiet spell, and its remainder is recorded often.
const TTL_MAX_S: u64 = 600;

/// Quiet at the end: as long as the longest lease with the slowest clock, an election and some patience.
const CALM_NS: u64 = (TTL_MAX_S + TTL_MAX_S / 50 + 30) * SECOND;

/// Whether a seed stands for a long run.
pub(super) fn is_long(seed: u64) -> bool {
    seed.is_multiple_of(EVERY)
}

/// Makes a long run of a plan.
pub(super) fn stretch(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, Stream::Long);
    plan.chaos_ns = rng.between(45, 215) * MINUTE;
    plan.calm_ns = CALM_NS;
    plan.ttl_max_s = TTL_MAX_S as i64;
    let mut at_ns = SECOND;
    while at_ns < plan.chaos_ns {
        let until_ns = (at_ns + rng.between(4 * SECOND, 20 * SECOND)).min(plan.chaos_ns);
        plan.bursts.push((at_ns, until_ns));
        at_ns = until_ns + rng.between(2 * MINUTE, 13 * MINUTE);
    }
    plan.faults = draw_long_schedule(plan, &mut rng);
}
