//! Faults of focused runs: they wait until an operation is under way on the member that they strike.

use api::etcdserverpb as pb;
use member::Input;

use crate::plan::fault::FaultTarget;
use crate::plan::operation::MemberOperation;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::queue::SimEvent;
use crate::world::request::{ClientRequest, NO_CLIENT};

const SECOND: u64 = 1_000_000_000;

/// How long a fault waits for its operation before it strikes without it.
const MAX_WAIT_NS: u64 = 4 * SECOND;

/// Revisions that a compaction keeps when it is to cause an operation.
const KEPT_REVISIONS: i64 = 3;

impl Simulation {
    /// The time of a planned fault has come: it strikes, or waits for its operation.
    pub(in crate::simulation) fn fault_due(&mut self, planned: usize) -> Result<(), Violation> {
        let Some(operation) = self.plan.faults[planned].during else { return self.strike(planned) };
        if self.meets(planned, operation) {
            return self.strike(planned);
        }
        self.pending_faults.armed.push(planned);
        self.queue.schedule(self.now_ns + MAX_WAIT_NS, SimEvent::ArmedFaultDue { planned });
        self.cause(operation, planned)
    }

    /// A fault that waited strikes, unless it has struck before.
    pub(in crate::simulation) fn armed_fault_due(&mut self, planned: usize) -> Result<(), Violation> {
        let waits = self.pending_faults.armed.iter().position(|armed| *armed == planned);
        let Some(at) = waits.filter(|_| self.ending.faults_stopped_ns.is_none()) else { return Ok(()) };
        self.pending_faults.armed.remove(at);
        self.strike(planned)
    }

    /// After the step of a member: faults whose operation is under way strike next.
    pub(in crate::simulation) fn strike_armed(&mut self) {
        for at in 0..self.pending_faults.armed.len() {
            let planned = self.pending_faults.armed[at];
            if self.plan.faults[planned].during.is_some_and(|operation| self.meets(planned, operation)) {
                self.queue.schedule(self.now_ns + 1, SimEvent::ArmedFaultDue { planned });
            }
        }
    }

    /// Whether a fault would strike a member on which this is under way.
    fn meets(&self, planned: usize, operation: MemberOperation) -> bool {
        let members = self.members_struck(&self.plan.faults[planned].fault);
        members.is_some_and(|members| self.under_way(&members).contains(&operation))
    }

    /// Does what an operator can do to cause an operation on the member that the fault strikes.
    fn cause(&mut self, operation: MemberOperation, planned: usize) -> Result<(), Violation> {
        let struck = self.members_struck(&self.plan.faults[planned].fault);
        let Some(member) = struck.and_then(|members| members.first().copied()) else { return Ok(()) };
        let Some(leader) = self.target_of(FaultTarget::Leader) else { return Ok(()) };
        match operation {
            MemberOperation::Transfer if self.plan.machines() > 1 => {
                let other = (leader + 1) % self.plan.machines();
                let to = if member == leader { other } else { member };
                self.transfer_leadership(leader, to);
            }
            MemberOperation::Checkpoint => self.give_at_once(member, Input::Defragment),
            MemberOperation::Compaction => self.compact_history(leader, true)?,
            MemberOperation::Relocation => {
                self.compact_history(leader, false)?;
                self.give_at_once(member, Input::Defragment);
            }
            _ => {}
        }
        Ok(())
    }

    fn compact_history(&mut self, leader: usize, physical: bool) -> Result<(), Violation> {
        self.workload.last_number += 1;
        let revision = (self.checks.history.revision() - KEPT_REVISIONS).max(1);
        let request = pb::CompactionRequest { revision, physical };
        self.send_request(NO_CLIENT, leader, self.workload.last_number, ClientRequest::Compact(request))
    }

    /// The operations that are under way on members.
    pub(super) fn under_way(&self, members: &[usize]) -> Vec<MemberOperation> {
        let mut found: Vec<_> = members.iter().flat_map(|m| self.machines[*m].under_way()).collect();
        if self.snapshots.streams.values().any(|stream| members.iter().any(|member| stream.concerns(*member)))
        {
            found.push(MemberOperation::Snapshot);
        }
        let targets = self.machines.iter().filter_map(|machine| machine.process.as_ref()?.transfer_to());
        if targets.into_iter().any(|target| members.contains(&target)) {
            found.push(MemberOperation::Transfer);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
