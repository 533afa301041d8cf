//! Invariant: no lease expires before its TTL, and every lease expires within a bounded time once no client renews it.
//!
//! The TTL counts from the moment at which the client *sent* the last renewal that was acknowledged: a client can rely
//! on no more. Clocks run at most [`MAX_RATE_PPM`] too fast.
//!
//! ```text
//!    renewal sent   acknowledged          TTL - 1 %      TTL + 2 % + 8 s
//!         |--------------|--------------------|-----------------|
//!          gone in here: expired early         may go           still there: expires too late
//! ```

use std::collections::BTreeMap;

use member::peer_message::LeaseAnswer;

use crate::report::trace::Violation;
use crate::world::clock::MAX_RATE_PPM;

const CHECK: &str = "leases never expire early";
const SECOND: u64 = 1_000_000_000;

/// How late a lease may expire after the faults: an election, and a command through the log.
const MAX_LATE_NS: u64 = 8 * SECOND;

#[derive(Clone, Copy, Debug)]
struct KnownLease {
    ttl_s: i64,
    sent_ns: u64,
    /// A client sent a revocation.
    revoked: bool,
}

/// The leases that were granted.
#[derive(Default)]
pub(crate) struct LeaseTimes {
    known: BTreeMap<i64, KnownLease>,
}

impl LeaseTimes {
    /// A grant that was sent at `sent_ns` is acknowledged.
    pub(crate) fn granted(&mut self, id: i64, ttl_s: i64, sent_ns: u64) {
        self.known.insert(id, KnownLease { ttl_s, sent_ns, revoked: false });
    }

    /// A client sends a revocation.
    pub(crate) fn revoking(&mut self, id: i64) {
        if let Some(known) = self.known.get_mut(&id) {
            known.revoked = true;
        }
    }

    /// A renewal, or a request for the remaining time, that was sent at `sent_ns` is answered.
    pub(crate) fn answered(
        &mut self,
        id: i64,
        renew: bool,
        answer: LeaseAnswer,
        sent_ns: u64,
        now_ns: u64,
    ) -> Result<(), Violation> {
        match answer {
            LeaseAnswer::NotFound => self.gone(id, now_ns),
            LeaseAnswer::NotLeader => {
                Violation::err("leases", "a client received the answer that a member does not lead")
            }
            LeaseAnswer::Alive { remaining_s, granted_s } => {
                if let Some(known) = self.known.get_mut(&id) {
                    if granted_s != known.ttl_s || remaining_s > granted_s || remaining_s < 0 {
                        let text = format!("lease {id} of {} s: {answer:?}", known.ttl_s);
                        return Violation::err("leases", text);
                    }
                    if renew {
                        known.sent_ns = known.sent_ns.max(sent_ns);
                    }
                }
                Ok(())
            }
        }
    }

    /// A lease does not exist any more.
    pub(crate) fn gone(&self, id: i64, now_ns: u64) -> Result<(), Violation> {
        let Some(known) = self.known.get(&id).filter(|known| !known.revoked) else { return Ok(()) };
        let ttl_ns = known.ttl_s as u64 * SECOND;
        let shortest_ns = ttl_ns - ttl_ns / 1_000_000 * MAX_RATE_PPM as u64;
        if now_ns < known.sent_ns + shortest_ns {
            let text = format!(
                "lease {id} of {} s, renewed at {:.4} s, was gone at {:.4} s",
                known.ttl_s,
                known.sent_ns as f64 / 1e9,
                now_ns as f64 / 1e9
            );
            return Violation::err(CHECK, text);
        }
        Ok(())
    }

    /// A member still holds a lease at the end; faults and renewals stopped at `stopped_ns`.
    pub(crate) fn still_held(
        &self,
        id: i64,
        ttl_s: i64,
        stopped_ns: u64,
        now_ns: u64,
    ) -> Result<(), Violation> {
        let ttl_ns = ttl_s as u64 * SECOND;
        let longest_ns = ttl_ns + ttl_ns / 1_000_000 * MAX_RATE_PPM as u64 * 2;
        if now_ns > stopped_ns + longest_ns + MAX_LATE_NS {
            let text = format!(
                "lease {id} of {ttl_s} s is still there, {:.1} s after the last fault",
                (now_ns - stopped_ns) as f64 / 1e9
            );
            return Violation::err("leases expire within a bound", text);
        }
        Ok(())
    }
}
