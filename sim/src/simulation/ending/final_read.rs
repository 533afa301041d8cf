//! Invariant: at the end every member has every current value; damage was repaired with the copy of a peer.
//!
//! Bits flip on fewer members than a quorum, so an intact copy exists. Most bits that flip during a run lie in history,
//! in checkpoints, or in values that are superseded by now. So a few more bits flip at the end, in current values of
//! the victims. Then every member is read from its first key to its last; a value that cannot be read must be repaired
//! within a bounded time.

use api::etcdserverpb as pb;
use bytes::Bytes;

use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Time for all reads: far more than the repair of each damaged value takes, one after the other, and a restart.
const READ_TIMEOUT_NS: u64 = 30 * SECOND;

/// Time between two reads of a member.
const RETRY_NS: u64 = 100 * MS;

/// Bits that flip in current values of each victim.
const FLIPS: usize = 3;

const CHECK: &str = "damage is repaired";

impl Simulation {
    /// Damages the victims once more, and schedules the final read of each member.
    pub(super) fn start_final_reads(&mut self) {
        for victim in self.plan.victims.clone() {
            (0..FLIPS).for_each(|_| self.flip_current(victim));
        }
        self.ending.read_until_ns = self.now_ns + READ_TIMEOUT_NS;
        let takes_part = |member: &usize| self.applied_by(*member).is_some();
        self.ending.unread_members = (0..self.plan.machines()).filter(takes_part).collect();
        self.ending.is_over = self.ending.unread_members.is_empty();
        for member in self.ending.unread_members.clone() {
            self.queue.schedule(self.now_ns + 1, SimEvent::FinalRead { member });
        }
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
