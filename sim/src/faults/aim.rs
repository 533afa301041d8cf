//! Faults that wait for an operation to be under way on whom they strike.

use api::etcdserverpb as pb;
use member::Input;

use super::Target;
use crate::clients::{NOBODY, Op};
use crate::cluster::Cluster;
use crate::coverage::Operation;
use crate::queue::Event;
use crate::report::Violation;

const SECOND: u64 = 1_000_000_000;

/// How long a fault waits for its operation before it strikes anyway.
const PATIENCE_NS: u64 = 4 * SECOND;

/// Revisions that are left when history is given up so that there is something to do.
const KEPT_REVISIONS: i64 = 3;

impl Cluster {
    /// A planned fault's moment has come: it strikes now, or waits for its operation.
    pub(crate) fn fault_due(&mut self, planned: usize) -> Result<(), Violation> {
        let Some(operation) = self.plan.faults[planned].during else { return self.strike(planned) };
        if self.meets(planned, operation) {
            return self.strike(planned);
        }
        self.armed.push(planned);
        self.queue.plan(self.now_ns + PATIENCE_NS, Event::ArmedFault { planned });
        self.bring_about(operation, planned)
    }

    /// A fault that waited strikes.
    pub(crate) fn armed_fault(&mut self, planned: usize) -> Result<(), Violation> {
        let waits = self.armed.iter().position(|armed| *armed == planned);
        let Some(at) = waits.filter(|_| self.calm_ns.is_none()) else { return Ok(()) };
        self.armed.remove(at);
        self.strike(planned)
    }

    /// After a member's turn: what waits for an operation that is under way now strikes at once.
    pub(crate) fn look_at_armed(&mut self) {
        for at in 0..self.armed.len() {
            let planned = self.armed[at];
            if self.plan.faults[planned].during.is_some_and(|operation| self.meets(planned, operation)) {
                self.queue.plan(self.now_ns + 1, Event::ArmedFault { planned });
            }
        }
    }

    /// Whether a fault would strike a member on which this is under way.
    fn meets(&self, planned: usize, operation: Operation) -> bool {
        let members = self.struck(&self.plan.faults[planned].fault);
        members.is_some_and(|members| self.under_way(&members).contains(&operation))
    }

    /// Does what an operator can do to make an operation happen where the fault will strike.
    fn bring_about(&mut self, operation: Operation, planned: usize) -> Result<(), Violation> {
        let struck = self.struck(&self.plan.faults[planned].fault);
        let Some(member) = struck.and_then(|members| members.first().copied()) else { return Ok(()) };
        let Some(leader) = self.resolve(Target::Leader) else { return Ok(()) };
        match operation {
            Operation::Transfer if self.plan.members > 1 => {
                let other = (leader + 1) % self.plan.members;
                let to = if member == leader { other } else { member };
                self.move_leader(leader, to);
            }
            Operation::Checkpoint => self.tell(member, Input::Defragment),
            Operation::Compaction => self.give_up_history(leader, true)?,
            Operation::Relocation => {
                self.give_up_history(leader, false)?;
                self.tell(member, Input::Defragment);
            }
            _ => {}
        }
        Ok(())
    }

    fn give_up_history(&mut self, leader: usize, physical: bool) -> Result<(), Violation> {
        self.next_op += 1;
        let revision = (self.checks.history.revision() - KEPT_REVISIONS).max(1);
        let request = pb::CompactionRequest { revision, physical };
        self.ask(NOBODY, leader, self.next_op, Op::Compact(request))
    }

    /// What is under way on members.
    pub(super) fn under_way(&self, members: &[usize]) -> Vec<Operation> {
        let mut found: Vec<_> = members.iter().flat_map(|m| self.machines[*m].under_way()).collect();
        if self.transfers.values().any(|transfer| members.iter().any(|member| transfer.concerns(*member))) {
            found.push(Operation::Snapshot);
        }
        let targets = self.machines.iter().filter_map(|machine| machine.process.as_ref()?.moving_to());
        if targets.into_iter().any(|target| members.contains(&target)) {
            found.push(Operation::Transfer);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
