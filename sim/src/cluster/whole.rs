//! Last of all, every member that takes part must have every value. Bits flip on fewer members than make a quorum, and
//! what members have not compacted the others have: so whatever cannot be read is repaired with a peer's copy.
//!
//! Most of what flips in a run lies in history, in checkpoints, or in values that are gone by now. So a few bits flip
//! once more, in what the members that may be damaged hold of the keys as they are.

use api::etcdserverpb as pb;
use bytes::Bytes;

use super::Cluster;
use crate::queue::Event;
use crate::report::Violation;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// From the first read to the last: far more than repair each of the damaged values takes, one after the other, and a
/// start of a member that meets one more fault of its disk.
const READ_NS: u64 = 30 * SECOND;

/// From one read of a member that could not read all to the next.
const AGAIN_NS: u64 = 100 * MS;

/// Bits that flip in the current values of a member.
const FLIPS: usize = 3;

const CHECK: &str = "damage is repaired";

impl Cluster {
    /// Begins to read everything everywhere.
    pub(super) fn read_everything(&mut self) {
        for victim in self.plan.victims.clone() {
            (0..FLIPS).for_each(|_| self.flip_current(victim));
        }
        self.whole_by_ns = self.now_ns + READ_NS;
        let takes_part = |member: &usize| self.applied_by(*member).is_some();
        self.unread = (0..self.plan.members).filter(takes_part).collect();
        self.ended = self.unread.is_empty();
        for member in self.unread.clone() {
            self.queue.plan(self.now_ns + 1, Event::ReadAll { member });
        }
    }

    /// Flips a bit in one of the values that a member would show.
    fn flip_current(&mut self, victim: usize) {
        let Some(process) = &self.machines[victim].process else { return };
        let Ok(reply) = process.opened.reader.range(&everything()) else { return };
        let drawn = self.list_rng.below(reply.kvs.len() as u64) as usize;
        if let Some(kv) = reply.kvs.get(drawn)
            && self.machines[victim].gone.is_none()
        {
            self.flip_value(victim, &kv.value);
        }
    }

    /// Reads a member from its first key to its last. What it cannot read it is asked to repair, and read again.
    pub(super) fn read_all(&mut self, member: usize) -> Result<(), Violation> {
        let request = everything();
        let hindrance = match self.list(member, &request)? {
            Some(Ok(Ok(response))) => {
                let revision = response.header.as_ref().map_or(0, |header| header.revision);
                if revision <= self.checks.history.revision() {
                    self.checks.linear.read(&request, &response, None, &self.checks.history)?;
                    self.checks.checked += 1;
                    self.coverage.event("members read whole");
                    self.unread.remove(&member);
                    self.ended = self.unread.is_empty();
                    return Ok(());
                }
                format!("nobody has seen revision {revision}")
            }
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(damaged)) => {
                self.unreadable(member, &damaged)?;
                self.coverage.event("damage met at the end");
                damaged.to_string()
            }
            None => "it does not run".to_owned(),
        };
        if self.now_ns >= self.whole_by_ns {
            return Violation::err(CHECK, format!("member {member} cannot read everything: {hindrance}"));
        }
        self.queue.plan(self.now_ns + AGAIN_NS, Event::ReadAll { member });
        Ok(())
    }
}

/// All keys.
fn everything() -> pb::RangeRequest {
    let all = Bytes::from_static(b"\0");
    pb::RangeRequest { key: all.clone(), range_end: all, ..Default::default() }
}
