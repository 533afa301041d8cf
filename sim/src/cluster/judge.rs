//! The end of a run: faults stop, and within a bound all must be well again.

use api::etcdserverpb as pb;
use member::Input;

use super::Cluster;
use crate::clients::{NOBODY, Op};
use crate::queue::Event;
use crate::report::Violation;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// From the judge's questions to the end: far more than a request needs in a sound cluster.
const JUDGE_NS: u64 = 6 * SECOND;

const CHECK: &str = "progress after faults stop";

impl Cluster {
    /// No more faults: links are repaired, disks have room, everybody starts. Only a member that lost its
    /// directory stays
    /// away: it has to be removed and added again.
    pub(super) fn calm(&mut self) -> Result<(), Violation> {
        self.trace.line(self.now_ns, "no more faults");
        self.calm_ns = Some(self.now_ns);
        self.armed.clear();
        for (from, to) in self.network.pairs() {
            let link = self.network.link(from, to);
            link.slow_ns = 0;
            link.cuts = link.cuts.min(1);
            if link.cuts == 1 {
                self.network.mend(self.now_ns, from, to, &mut self.queue);
            }
        }
        for member in 0..self.plan.members {
            let machine = &mut self.machines[member];
            machine.disk.inner.set_capacity(None);
            machine.stalled_until_ns = 0;
            if let Some(process) = machine.process.as_mut() {
                process.paused_until_ns = 0;
            }
            if machine.wiped {
                self.kill(member, 1)?;
                self.machines[member].gone = Some("it lost its directory");
            }
            self.queue.plan(self.now_ns + 1, Event::Start { member });
        }
        Ok(())
    }

    /// Clients stop. Each member is asked to write, and must.
    pub(super) fn judge(&mut self) -> Result<(), Violation> {
        self.judging = true;
        self.queue.plan(self.now_ns + JUDGE_NS, Event::End);
        for member in 0..self.plan.members {
            if self.machines[member].gone.is_some() {
                continue;
            }
            if !self.machines[member].is_up() {
                return Violation::err(CHECK, format!("member {member} is still down"));
            }
            self.next_op += 1;
            let value = format!("{}:0:", self.next_op).into();
            let put = pb::PutRequest { key: "judge".into(), value, ..Default::default() };
            self.owed_answers.push(self.next_op);
            self.ask(NOBODY, member, self.next_op, Op::Put(put))?;
        }
        Ok(())
    }

    /// All have applied the same, everything asked was answered, watchers have everything, leases have run
    /// out.
    pub(super) fn end(&mut self) -> Result<(), Violation> {
        let revision = self.checks.history.revision();
        let newest = self.newest_applied();
        for member in 0..self.plan.members {
            let Some((at, here)) = self.applied_by(member) else { continue };
            self.has_answered(member)?;
            if at != newest || here != revision {
                let text =
                    format!("member {member} is at index {at} of {newest}, revision {here} of {revision}");
                return Violation::err(CHECK, text);
            }
            self.has_no_old_leases(member)?;
        }
        self.watchers_have_all()?;
        self.checks.finish()?;
        self.read_everything();
        Ok(())
    }

    /// Index and revision that a member, if it takes part, has applied.
    pub(super) fn applied_by(&self, member: usize) -> Option<(u64, i64)> {
        let machine = &self.machines[member];
        let process = machine.process.as_ref().filter(|_| machine.gone.is_none())?;
        Some((process.opened.reader.applied().index, process.opened.reader.current_revision()))
    }

    fn newest_applied(&self) -> u64 {
        let applied = (0..self.plan.members).filter_map(|member| self.applied_by(member));
        applied.map(|(index, _)| index).max().unwrap_or(0)
    }

    /// What the judge asked a member was answered. With a quota it may have been refused.
    fn has_answered(&self, member: usize) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let owed = process.asked.values().filter(|asked| self.owed_answers.contains(&asked.number)).count();
        if owed > 0 {
            let leader = process.opened.status.leader();
            let text = format!("member {member}, whose leader is {leader:x}, owes {owed} answers");
            return Violation::err(CHECK, text);
        }
        Ok(())
    }

    fn has_no_old_leases(&self, member: usize) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        for lease in process.opened.reader.leases(i64::MIN, usize::MAX) {
            let calm_ns = self.calm_ns.unwrap_or(0);
            self.checks.leases.remains(lease.id, lease.ttl, calm_ns, self.now_ns)?;
        }
        Ok(())
    }

    /// Lets a member hear something at once; only the judge is that impatient.
    pub(crate) fn wake(&mut self, member: usize) {
        self.plan_turn(member, self.now_ns + MS);
    }

    /// Gives a member an input that nobody waits for.
    pub(crate) fn tell(&mut self, member: usize, input: Input) {
        self.feed(member, input);
        self.wake(member);
    }
}
