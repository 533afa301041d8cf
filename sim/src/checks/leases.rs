//! Leases never end early, and end within a bound once all is well and nobody renews them.
//!
//! The TTL counts from the moment the client *asked* for the last renewal that was acknowledged, the most
//! that a client
//! can rely on; clocks may run fast by [`MAX_RATE_PPM`].

use std::collections::BTreeMap;

use member::peer_message::LeaseAnswer;

use crate::clock::MAX_RATE_PPM;
use crate::report::Violation;

const CHECK: &str = "leases never expire early";
const SECOND: u64 = 1_000_000_000;

/// How late an expiry may be once all is well: an election, a round of agreement, and the clocks' rates.
const LATE_NS: u64 = 8 * SECOND;

#[derive(Clone, Copy, Debug)]
struct Known {
    ttl_s: i64,
    asked_ns: u64,
    /// Somebody asked for its end.
    revoked: bool,
}

/// All leases that were granted.
#[derive(Default)]
pub(crate) struct Leases {
    known: BTreeMap<i64, Known>,
}

impl Leases {
    /// A grant that was asked for at a moment is acknowledged.
    pub(crate) fn granted(&mut self, id: i64, ttl_s: i64, asked_ns: u64) {
        self.known.insert(id, Known { ttl_s, asked_ns, revoked: false });
    }

    /// Somebody asks for the end of a lease.
    pub(crate) fn revoking(&mut self, id: i64) {
        if let Some(known) = self.known.get_mut(&id) {
            known.revoked = true;
        }
    }

    /// An answer about a lease that was asked for at a moment.
    pub(crate) fn answered(
        &mut self,
        id: i64,
        renew: bool,
        answer: LeaseAnswer,
        asked_ns: u64,
        now_ns: u64,
    ) -> Result<(), Violation> {
        match answer {
            LeaseAnswer::NotFound => self.gone(id, now_ns),
            LeaseAnswer::NotLeader => {
                Violation::err("leases", "a client was told that a member does not lead")
            }
            LeaseAnswer::Alive { remaining_s, granted_s } => {
                if let Some(known) = self.known.get_mut(&id) {
                    if granted_s != known.ttl_s || remaining_s > granted_s || remaining_s < 0 {
                        let text = format!("lease {id} of {} s: {answer:?}", known.ttl_s);
                        return Violation::err("leases", text);
                    }
                    if renew {
                        known.asked_ns = known.asked_ns.max(asked_ns);
                    }
                }
                Ok(())
            }
        }
    }

    /// A lease is seen to be gone.
    pub(crate) fn gone(&self, id: i64, now_ns: u64) -> Result<(), Violation> {
        let Some(known) = self.known.get(&id).filter(|known| !known.revoked) else { return Ok(()) };
        let ttl_ns = known.ttl_s as u64 * SECOND;
        let shortest_ns = ttl_ns - ttl_ns / 1_000_000 * MAX_RATE_PPM as u64;
        if now_ns < known.asked_ns + shortest_ns {
            let text = format!(
                "lease {id} of {} s, renewed at {:.4} s, was gone at {:.4} s",
                known.ttl_s,
                known.asked_ns as f64 / 1e9,
                now_ns as f64 / 1e9
            );
            return Violation::err(CHECK, text);
        }
        Ok(())
    }

    /// A lease that a member holds at the end, when nobody has renewed any since `calm_ns`.
    pub(crate) fn remains(&self, id: i64, ttl_s: i64, calm_ns: u64, now_ns: u64) -> Result<(), Violation> {
        let ttl_ns = ttl_s as u64 * SECOND;
        let longest_ns = ttl_ns + ttl_ns / 1_000_000 * MAX_RATE_PPM as u64 * 2;
        if now_ns > calm_ns + longest_ns + LATE_NS {
            let text = format!(
                "lease {id} of {ttl_s} s is still there, {:.1} s after the last fault",
                (now_ns - calm_ns) as f64 / 1e9
            );
            return Violation::err("leases expire within a bound", text);
        }
        Ok(())
    }
}
