//! The leader's clock over leases: when each expires, and what is recorded of it in the log.
//!
//! The store replicates which leases exist; only the leader watches time, from the moment it has applied an entry of
//! its own term. It then gives every lease its full TTL again, except those whose remainder is recorded in the log. A
//! keep-alive moves a deadline without a log entry, so it is acknowledged only after a ReadIndex round: a deposed
//! leader cannot acknowledge one that its successor does not honour.
//!
//! ```text
//! lease 7, TTL 300 s; remainders are recorded every 60 s
//!   0 s   member 1 leads; granted: deadline 300 s
//!  70 s   60 s without a keep-alive: remainder 230 s is recorded in the log
//! 100 s   keep-alive: the record must be removed first (a command), then deadline 400 s
//! 170 s   remainder 230 s is recorded again
//! 180 s   member 1 fails; member 2 leads and starts from the record: deadline 180 + 230 = 410 s, not 180 + 300
//! 410 s   expired: proposed with the term of member 2; keep-alives wait for the outcome
//! ```
//!
//! A lease that expired is proposed together with the leader's term ([`super::Expiry`]); apply ignores the command in
//! an entry of another term.
//!
//! Cost: a keep-alive is one map update. A deadline is looked at only when it comes up, and put back if it has moved.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Remainders are recorded this often, in nanoseconds; a leader change gives back at most this much of a long TTL.
pub const RECORD_INTERVAL_NS: u64 = 60 * 1_000_000_000;

/// Slices in which all leases are looked at once an interval: one each tick of the usual heartbeat.
const RECORD_SLICES: u64 = 600;

/// Remainders recorded in one command: bounds the size of the entry.
pub const MAX_RECORDED_PER_COMMAND: usize = 1000;

/// Entries of the heap that may be out of date beyond as many as there are leases.
const DUE_SLACK: usize = 1024;

const SECOND_NS: u64 = 1_000_000_000;

/// What the clock says of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deadline {
    at_ns: u64,
    granted_ttl_s: i64,
    /// The remainder in the log, in seconds, or on its way there: a keep-alive must remove it first.
    recorded_s: Option<i64>,
    /// Its removal is proposed and the outcome open. One recorded behind it would outlive the keep-alive that waits.
    removing: bool,
    /// Whether its expiry is proposed and the outcome open.
    expiring: bool,
}

/// Answer to a keep-alive that may go ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// Renewed; the TTL in seconds.
    Renewed(i64),
    /// A remainder stands in the log: propose its removal, then ask again.
    RemoveRecordFirst,
    /// Its expiry is proposed: ask again when that is applied.
    Expiring,
    /// No such lease.
    NotFound,
}

/// The deadlines of all leases, kept while this member leads.
#[derive(Debug, Default)]
pub struct LeaseClock {
    deadlines: BTreeMap<i64, Deadline>,
    // May name old deadlines; the map decides.
    due: BinaryHeap<Reverse<(u64, i64)>>,
    record_at_ns: u64,
    /// The lease at which the next slice begins.
    record_from: i64,
}

impl LeaseClock {
    /// Forgets everything: this member does not lead.
    pub fn clear(&mut self) {
        *self = LeaseClock::default();
    }

    /// Starts the clock of a new leader: `leases` are (id, granted TTL, recorded remainder or 0) in seconds.
    pub fn start(&mut self, now_ns: u64, leases: impl IntoIterator<Item = (i64, i64, i64)>) {
        self.clear();
        self.record_at_ns = now_ns + RECORD_INTERVAL_NS;
        self.record_from = i64::MIN;
        for (id, ttl_s, remaining_s) in leases {
            let left_s = if remaining_s > 0 { remaining_s } else { ttl_s };
            self.set(id, after(now_ns, left_s), ttl_s, (remaining_s > 0).then_some(remaining_s));
        }
    }

    /// A lease was granted.
    pub fn granted(&mut self, now_ns: u64, id: i64, ttl_s: i64) {
        self.set(id, after(now_ns, ttl_s), ttl_s, None);
    }

    /// A lease is gone.
    pub fn revoked(&mut self, id: i64) {
        self.deadlines.remove(&id);
        // Without this, leases granted for years and revoked at once would stay here for years.
        if self.due.len() > 2 * self.deadlines.len() + DUE_SLACK {
            let living = self.deadlines.iter().filter(|(_, deadline)| !deadline.expiring);
            self.due = living.map(|(id, deadline)| Reverse((deadline.at_ns, *id))).collect();
        }
    }

    /// A remainder was recorded (or, 0, removed) through the log.
    pub fn recorded(&mut self, id: i64, remaining_s: i64) {
        if let Some(deadline) = self.deadlines.get_mut(&id) {
            deadline.recorded_s = (remaining_s > 0).then_some(remaining_s);
            deadline.removing &= remaining_s > 0;
        }
    }

    /// Renews a lease, after the ReadIndex round that makes it safe.
    pub fn keep_alive(&mut self, now_ns: u64, id: i64) -> KeepAlive {
        match self.deadlines.get_mut(&id) {
            None => KeepAlive::NotFound,
            Some(deadline) if deadline.expiring => KeepAlive::Expiring,
            Some(deadline) if deadline.recorded_s.is_some() => {
                deadline.removing = true;
                KeepAlive::RemoveRecordFirst
            }
            Some(deadline) => {
                // Rounds may be decided out of order; a renewal never takes time away.
                deadline.at_ns = deadline.at_ns.max(after(now_ns, deadline.granted_ttl_s));
                KeepAlive::Renewed(deadline.granted_ttl_s)
            }
        }
    }

    /// Remaining and granted seconds of a lease. A lease past its deadline whose expiry is not applied has 0 left.
    pub fn remaining_s(&self, now_ns: u64, id: i64) -> Option<(i64, i64)> {
        let deadline = self.deadlines.get(&id)?;
        Some(((deadline.at_ns.saturating_sub(now_ns) / SECOND_NS) as i64, deadline.granted_ttl_s))
    }

    /// When something comes due next: an expiry, if leases may be taken, or the recording of remainders.
    pub fn next_due_ns(&self, may_expire: bool) -> Option<u64> {
        if self.deadlines.is_empty() {
            return None;
        }
        let first = self.due.peek().filter(|_| may_expire).map_or(u64::MAX, |Reverse((at, _))| *at);
        Some(first.min(self.record_at_ns))
    }

    /// Takes a lease whose TTL has passed; it counts as expiring from now on.
    pub fn take_expired(&mut self, now_ns: u64) -> Option<i64> {
        loop {
            let Reverse((_, id)) = *self.due.peek().filter(|Reverse((at, _))| *at <= now_ns)?;
            self.due.pop();
            match self.deadlines.get_mut(&id) {
                Some(deadline) if deadline.expiring => {}
                Some(deadline) if deadline.at_ns > now_ns => self.due.push(Reverse((deadline.at_ns, id))),
                Some(deadline) => {
                    deadline.expiring = true;
                    return Some(id);
                }
                None => {}
            }
        }
    }

    /// Expiries that could not be proposed: they come up again.
    pub fn not_proposed(&mut self, ids: &[i64]) {
        for id in ids {
            if let Some(deadline) = self.deadlines.get_mut(id) {
                deadline.expiring = false;
                self.due.push(Reverse((deadline.at_ns, *id)));
            }
        }
    }

    /// Whether the next slice of leases should be looked at for remainders to record.
    pub fn remainders_are_due(&self, now_ns: u64) -> bool {
        now_ns >= self.record_at_ns
    }

    /// Remainders to record, (id, seconds): of leases that live longer than the interval and were neither renewed nor
    /// recorded for one. Each call looks at a slice of the leases, so that all have their turn once an interval and a
    /// million of them never at once. What is taken counts as recorded from now on, before the log has it: a
    /// keep-alive acknowledged in between would be forgotten by a successor that reads the remainder.
    pub fn take_remainders(&mut self, now_ns: u64) -> Vec<(i64, i64)> {
        self.record_at_ns = now_ns + RECORD_INTERVAL_NS / RECORD_SLICES;
        let interval_s = (RECORD_INTERVAL_NS / SECOND_NS) as i64;
        let count = self.deadlines.len().div_ceil(RECORD_SLICES as usize);
        let mut remainders = Vec::new();
        let mut next = None;
        for (looked, (id, deadline)) in self.deadlines.range_mut(self.record_from..).enumerate() {
            if looked == count {
                next = Some(*id);
                break;
            }
            // Rounded up: a recorded remainder may only ever give more time than was left.
            let left_s = deadline.at_ns.saturating_sub(now_ns).div_ceil(SECOND_NS) as i64;
            let last_s = deadline.recorded_s.unwrap_or(deadline.granted_ttl_s);
            let aged = left_s > 0 && last_s - left_s >= interval_s;
            if aged && !deadline.expiring && !deadline.removing {
                deadline.recorded_s = Some(left_s);
                remainders.push((*id, left_s));
            }
        }
        self.record_from = next.unwrap_or(i64::MIN);
        remainders
    }

    fn set(&mut self, id: i64, at_ns: u64, granted_ttl_s: i64, recorded_s: Option<i64>) {
        let deadline = Deadline { at_ns, granted_ttl_s, recorded_s, removing: false, expiring: false };
        self.deadlines.insert(id, deadline);
        self.due.push(Reverse((at_ns, id)));
    }
}

fn after(now_ns: u64, seconds: i64) -> u64 {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    now_ns.saturating_add(seconds.saturating_mul(SECOND_NS))
}

#[cfg(test)]
mod tests;
