//! Invariant: within a bounded time after the last fault, every member answers a write and has applied the same
//! entries.

use api::etcdserverpb as pb;

use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::machine::{IS_NOT_ADDED, SimProcess};
use crate::world::queue::SimEvent;
use crate::world::request::{ClientRequest, NO_CLIENT};

const SECOND: u64 = 1_000_000_000;

/// Time between the final writes and the check: far more than a request needs in a cluster without faults.
const FINAL_WRITE_NS: u64 = 6 * SECOND;

/// How often the check waits for as long again while members apply. In a calm run deleting all keys takes ten seconds,
/// and several such commands may wait when the clients stop.
const MAX_POSTPONED: u32 = 40;

const CHECK: &str = "progress after faults stop";

impl Simulation {
    /// Faults stop: cuts end, disks have space, every member starts. Only a member that lost its directory stays down:
    /// an operator would have to remove and add it.
    pub(in crate::simulation) fn stop_faults(&mut self) -> Result<(), Violation> {
        self.trace.line(self.now_ns, "no more faults");
        self.ending.faults_stopped_ns = Some(self.now_ns);
        self.pending_faults.armed.clear();
        for (from, to) in self.network.pairs() {
            let link = self.network.link(from, to);
            link.slow_ns = 0;
            link.cuts = link.cuts.min(1);
            if link.cuts == 1 {
                self.network.uncut(self.now_ns, from, to, &mut self.queue);
            }
        }
        for member in 0..self.plan.machines() {
            let machine = &mut self.machines[member];
            machine.disk.inner.set_capacity(None);
            machine.syncs_stalled_until_ns = 0;
            if let Some(process) = machine.process.as_mut() {
                process.paused_until_ns = 0;
            }
            if machine.wiped {
                self.kill(member, 1)?;
                self.machines[member].excluded = Some("it lost its directory");
            }
            self.queue.schedule(self.now_ns + 1, SimEvent::Start { member });
        }
        Ok(())
    }

    /// Clients stop, and each member is sent a last write.
    pub(in crate::simulation) fn send_final_writes(&mut self) -> Result<(), Violation> {
        self.ending.final_writes_sent = true;
        self.queue.schedule(self.now_ns + FINAL_WRITE_NS, SimEvent::CheckConvergence);
        if self.plan.joiners > 0 {
            self.operator_acts()?;
        }
        let is_lost = |excluded: Option<&str>| excluded.is_some_and(|why| why != IS_NOT_ADDED);
        let is_one_lost = self.machines.iter().any(|machine| is_lost(machine.excluded));
        for member in 0..self.plan.machines() {
            if is_one_lost && self.is_recovering(member) {
                self.machines[member].excluded = Some("its log waits for a member that is lost");
                self.coverage.event("logs that wait for a member that is lost");
            }
            if self.machines[member].excluded.is_some() {
                continue;
            }
            if !self.machines[member].is_up() {
                return Violation::err(CHECK, format!("member {member} is still down"));
            }
            self.workload.last_number += 1;
            let value = format!("{}:0:", self.workload.last_number).into();
            let put = pb::PutRequest { key: "final".into(), value, ..Default::default() };
            self.ending.unanswered_writes.push(self.workload.last_number);
            self.send_request(NO_CLIENT, member, self.workload.last_number, ClientRequest::Put(put))?;
        }
        Ok(())
    }

    /// Whether a member repairs its log. It waits for the answer of each member that could have what it lacks.
    fn is_recovering(&self, member: usize) -> bool {
        let process = self.machines[member].process.as_ref();
        process.is_some_and(|process| process.opened.member.is_recovering())
    }

    /// All members have applied the same, final writes are answered, watchers have received everything, leases have
    /// expired.
    pub(in crate::simulation) fn check_convergence(&mut self) -> Result<(), Violation> {
        if self.is_applying() && self.ending.postponed < MAX_POSTPONED {
            self.ending.postponed += 1;
            self.coverage.event("checks at the end that wait for slow commands");
            self.queue.schedule(self.now_ns + FINAL_WRITE_NS, SimEvent::CheckConvergence);
            return Ok(());
        }
        let revision = self.checks.history.revision();
        let newest = self.newest_applied();
        for member in 0..self.plan.machines() {
            let Some((at, here)) = self.applied_by(member) else { continue };
            self.check_invariants(member)?;
            self.check_final_write(member)?;
            if at != newest || here != revision {
                let text =
                    format!("member {member} is at index {at} of {newest}, revision {here} of {revision}");
                return Violation::err(CHECK, text);
            }
            self.check_leases(member)?;
            self.check_acknowledged_changes(member)?;
        }
        self.check_calm()?;
        self.check_watchers()?;
        self.checks.finish()?;
        self.start_final_reads();
        Ok(())
    }

    /// Whether applying takes long in this run, and a member has not applied yet what it knows to be committed, or owes
    /// the answer to its final write: its leader may not have proposed that yet.
    fn is_applying(&self) -> bool {
        let is_behind = |process: &SimProcess| {
            let status = &process.opened.status;
            let mut pending = process.pending.values();
            status.applied_index() < status.committed_index()
                || pending.any(|pending| self.ending.unanswered_writes.contains(&pending.number))
        };
        let mut processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        self.plan.is_calm && processes.any(is_behind)
    }

    /// While no fault strikes, the first leader leads forever, however much it applies.
    fn check_calm(&self) -> Result<(), Violation> {
        let terms = self.checks.leaders.terms();
        if !self.plan.is_calm || self.plan.joiners > 0 || terms.len() == 1 {
            return Ok(());
        }
        let text = format!("no fault struck, and terms {terms:?} had leaders");
        Violation::err("a leader keeps its leadership while it applies", text)
    }

    /// Index and revision that a member, if it takes part, has applied.
    pub(super) fn applied_by(&self, member: usize) -> Option<(u64, i64)> {
        let machine = &self.machines[member];
        let process = machine.process.as_ref().filter(|_| machine.excluded.is_none())?;
        Some((process.opened.reader.applied().index, process.opened.reader.current_revision()))
    }

    fn newest_applied(&self) -> u64 {
        let applied = (0..self.plan.machines()).filter_map(|member| self.applied_by(member));
        applied.map(|(index, _)| index).max().unwrap_or(0)
    }

    /// The final write of a member is answered. With a quota it may have been refused.
    fn check_final_write(&self, member: usize) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let pending = process.pending.values();
        let owed = pending.filter(|pending| self.ending.unanswered_writes.contains(&pending.number)).count();
        if owed > 0 {
            let leader = process.opened.status.leader();
            let text = format!("member {member}, whose leader is {leader:x}, owes {owed} answers");
            return Violation::err(CHECK, text);
        }
        Ok(())
    }

    fn check_leases(&self, member: usize) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        for lease in process.opened.reader.leases(i64::MIN, usize::MAX) {
            let calm_ns = self.ending.faults_stopped_ns.unwrap_or(0);
            self.checks.leases.still_held(lease.id, lease.ttl, calm_ns, self.now_ns)?;
        }
        Ok(())
    }
}
