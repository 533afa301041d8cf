//! Invariant: at the end every member has every current value; damage was repaired with the copy of a peer.
//!
//! Bits flip on fewer members than a quorum, so an intact copy exists. Most bits that flip during a run lie in history,
//! in checkpoints, or in values that are superseded by now. So a few more bits flip at the end, in current values of
//! the victims. Then every member is read from its first key to its last; a value that cannot be read must be repaired
//! within a bounded time. In runs with even seeds nothing is read before the scrub has had its time: then no damage may
//! be left.

use api::etcdserverpb as pb;
use bytes::Bytes;

use crate::report::trace::Violation;
use crate::simulation::state::{AwaitedScrub, Simulation};
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Time for all reads: far more than the repair of each damaged value takes, one after the other, and a restart.
const READ_TIMEOUT_NS: u64 = 30 * SECOND;

/// Time between two reads of a member.
const RETRY_NS: u64 = 100 * MS;

/// Bits that flip in current values of each victim.
const FLIPS: usize = 3;

/// Time for two rounds of the scrub, one of which begins after the damage was done, and for repair. Rounds of a machine
/// that starts again count from 0.
const SCRUB_TIMEOUT_NS: u64 = 30 * SECOND;

/// Time for what a scrub has found to be repaired: each peer may be asked several times.
const REPAIR_NS: u64 = 5 * SECOND;

const CHECK: &str = "damage is repaired";
const SCRUB_CHECK: &str = "damage is repaired before it is read";

impl Simulation {
    /// Damages the victims once more, and schedules the final read of each member.
    pub(super) fn start_final_reads(&mut self) {
        for victim in self.plan.victims.clone() {
            (0..FLIPS).for_each(|_| self.flip_current(victim));
        }
        self.ending.read_until_ns = self.now_ns + READ_TIMEOUT_NS;
        if self.plan.seed.is_multiple_of(2) {
            self.ending.read_until_ns += SCRUB_TIMEOUT_NS;
            for victim in self.plan.victims.clone() {
                let awaited = self.scrub_rounds(victim).map(|(run, rounds_before)| AwaitedScrub {
                    run,
                    rounds_before,
                    ended_ns: None,
                });
                self.ending.awaited_scrubs.extend(awaited.map(|awaited| (victim, awaited)));
            }
        }
        let takes_part = |member: &usize| self.applied_by(*member).is_some();
        self.ending.unread_members = (0..self.plan.machines()).filter(takes_part).collect();
        self.ending.is_over = self.ending.unread_members.is_empty();
        for member in self.ending.unread_members.clone() {
            self.queue.schedule(self.now_ns + 1, SimEvent::FinalRead { member });
        }
    }

    /// The process of a member, and the rounds of the scrub that it has ended.
    fn scrub_rounds(&self, member: usize) -> Option<(u64, u64)> {
        let machine = &self.machines[member];
        machine.process.as_ref().map(|process| (machine.run, process.opened.status.scrub_rounds()))
    }

    /// Whether a member's scrub has had its time since the last damage, if it is to have it.
    fn is_scrubbed(&mut self, member: usize) -> bool {
        let found = self.scrub_rounds(member);
        let now_ns = self.now_ns;
        let Some(awaited) = self.ending.awaited_scrubs.get_mut(&member) else { return true };
        let Some((run, rounds)) = found else { return false };
        if run != awaited.run {
            *awaited = AwaitedScrub { run, ..AwaitedScrub::default() };
        }
        if rounds >= awaited.rounds_before + 2 {
            awaited.ended_ns.get_or_insert(now_ns);
        }
        awaited.ended_ns.is_some_and(|ended_ns| now_ns >= ended_ns + REPAIR_NS)
    }

    /// Flips a bit in a current value of a victim.
    fn flip_current(&mut self, victim: usize) {
        let Some(process) = &self.machines[victim].process else { return };
        let Ok(reply) = process.opened.reader.range(&all_keys()) else { return };
        let drawn = self.workload.range_rng.below(reply.kvs.len() as u64) as usize;
        if let Some(kv) = reply.kvs.get(drawn)
            && self.machines[victim].excluded.is_none()
        {
            self.flip_value(victim, &kv.value);
        }
    }

    /// Reads a member from its first key to its last. It is given a damaged value to repair, and is read again.
    pub(in crate::simulation) fn final_read(&mut self, member: usize) -> Result<(), Violation> {
        if !self.is_scrubbed(member) && self.now_ns < self.ending.read_until_ns {
            self.queue.schedule(self.now_ns + RETRY_NS, SimEvent::FinalRead { member });
            return Ok(());
        }
        let request = all_keys();
        let obstacle = match self.encoded_range(member, &request)? {
            Some(Ok(Ok(response))) => {
                let revision = response.header.as_ref().map_or(0, |header| header.revision);
                if revision <= self.checks.history.revision() {
                    self.checks.serializability.read(&request, &response, None, &self.checks.history)?;
                    self.checks.checked += 1;
                    self.coverage.event("members read completely");
                    self.ending.unread_members.remove(&member);
                    self.ending.is_over = self.ending.unread_members.is_empty();
                    return Ok(());
                }
                format!("no member has shown revision {revision}")
            }
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(damaged)) => {
                if self.ending.awaited_scrubs.contains_key(&member) {
                    return Violation::err(SCRUB_CHECK, format!("member {member}: {damaged}"));
                }
                self.request_repair(member, &damaged)?;
                self.coverage.event("damage found at the end");
                damaged.to_string()
            }
            None => "it does not run".to_owned(),
        };
        if self.now_ns >= self.ending.read_until_ns {
            return Violation::err(CHECK, format!("member {member} cannot read everything: {obstacle}"));
        }
        self.queue.schedule(self.now_ns + RETRY_NS, SimEvent::FinalRead { member });
        Ok(())
    }
}

/// A range over all keys.
fn all_keys() -> pb::RangeRequest {
    let all = Bytes::from_static(b"\0");
    pb::RangeRequest { key: all.clone(), range_end: all, ..Default::default() }
}
