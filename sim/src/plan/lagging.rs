//! Runs in which a directory is lost while another member does not know yet whose it was (RFC 0038).
//!
//! ```text
//! 3 to 5 s          a member, the victim, is started late, when both others of three have said that it may begin;
//!                   just after, another one is killed for some seconds
//! soon after        a quorum has applied the victim's publication, the one that is down has not: the victim's
//!                   directory is lost, at the first of many moments that find this
//! meanwhile         the others are cut off from the victim now and then: it reaches only the one that lags, or none
//! ```
//!
//! No other data is damaged, so that the quorum that knows of the victim stays.

use super::fault::{FaultTarget, PlannedFault, SimFault};
use super::run_plan::RunPlan;
use crate::rng::{Rng, RngStream};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Moments at which the directory may be lost, and the time between two.
const WIPES: u64 = 40;
const WIPE_INTERVAL_NS: u64 = 50 * MS;

/// Time from the start of the victim until the other member is killed: less than a publication takes.
const MAX_KILL_DELAY_NS: u64 = 20 * MS;

/// Adds the scenario to a run that has a victim.
pub(super) fn add_wipe(plan: &mut RunPlan) {
    let Some(victim) = plan.victims.first().copied() else { return };
    let mut rng = Rng::new(plan.seed, RngStream::Membership);
    let members = plan.members as u64;
    let other = |by: u64| ((victim as u64 + by) % members) as usize;
    let lagging = other(rng.between(1, members - 1));
    let late_ns = rng.between(3 * SECOND, 5 * SECOND);
    plan.late_start = Some((victim, late_ns));
    plan.faults.retain(|planned| {
        let fault = planned.fault;
        !matches!(fault, SimFault::Wipe { .. } | SimFault::BitFlip { .. } | SimFault::TailFlip { .. })
    });
    let mut add = |at_ns, fault| plan.faults.push(PlannedFault { at_ns, fault, during: None });
    let down_ns = rng.between(SECOND, 6 * SECOND);
    let target = FaultTarget::Member(lagging);
    add(late_ns + 1 + rng.below(MAX_KILL_DELAY_NS), SimFault::Kill { target, down_ns });
    for number in 1..=WIPES {
        add(late_ns + number * WIPE_INTERVAL_NS, SimFault::Wipe { victim });
    }
    for peer in (1..members).map(other).filter(|peer| *peer != lagging) {
        let at_ns = late_ns + rng.between(200 * MS, 3 * SECOND);
        let for_ns = rng.between(SECOND, 6 * SECOND);
        add(at_ns, SimFault::Cut { from: peer, to: victim, for_ns });
    }
    plan.faults.sort_by_key(|planned| planned.at_ns);
}
