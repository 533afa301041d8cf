//! Faults that strike and end.

use log::{Disk, Fault as DiskFault, Operation as DiskOperation};
use member::Input;

use crate::plan::fault::{FaultTarget, SimFault};
use crate::report::trace::Violation;
use crate::simulation::members::streams::STREAM_NOTICED_NS;
use crate::simulation::state::Simulation;
use crate::world::machine::id_of;
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;

/// Free space of a disk that is full: less than a segment.
const FULL_DISK_BYTES: u64 = 2_000;

impl Simulation {
    /// A planned fault strikes.
    pub(super) fn strike(&mut self, planned: usize) -> Result<(), Violation> {
        let fault = self.plan.faults[planned].fault;
        let Some(members) = self.members_struck(&fault) else { return Ok(()) };
        let under_way = self.under_way(&members);
        self.coverage.fault(fault.name(), &under_way);
        self.trace.line(self.now_ns, format!("fault {planned}: {fault:?} on {members:?}"));
        let member = members[0];
        match fault {
            SimFault::PowerLoss { after_changes, .. } => self.lose_power_within(member, after_changes),
            SimFault::PowerLossAll { .. } => {
                members.iter().for_each(|member| self.lose_power_within(*member, 0))
            }
            SimFault::Kill { down_ns, .. } => self.kill(member, down_ns)?,
            SimFault::Stop { .. } => self.give_at_once(member, Input::Stop),
            SimFault::Pause { for_ns, .. } => {
                let until_ns = self.now_ns + for_ns;
                if let Some(process) = self.machines[member].process.as_mut() {
                    process.paused_until_ns = until_ns;
                }
            }
            SimFault::Isolate { pause_ns, for_ns, .. } => self.isolate(planned, member, pause_ns, for_ns),
            SimFault::MoveLeader { to } => self.transfer_leadership(member, to),
            SimFault::Defragment { .. } => self.give_at_once(member, Input::Defragment),
            SimFault::Wipe { victim } => self.wipe(victim)?,
            SimFault::WallJump { by_ms, .. } => self.machines[member].clock.jump_wall(by_ms),
            SimFault::BitFlip { victim, addresses } => {
                (0..addresses).for_each(|_| self.flip_anywhere(victim))
            }
            SimFault::TailFlip { victim } => self.flip_tail(victim),
            SimFault::BreakLink { .. }
            | SimFault::BreakStream { .. }
            | SimFault::HoldUpStream { .. }
            | SimFault::Cut { .. }
            | SimFault::Partition { .. }
            | SimFault::SlowLink { .. } => {
                self.fault_links(planned, fault);
            }
            _ => self.fault_disk(planned, member, fault),
        }
        Ok(())
    }

    /// The members that a fault strikes; `None` if there is none.
    pub(super) fn members_struck(&self, fault: &SimFault) -> Option<Vec<usize>> {
        let up = |member: usize| self.machines[member].is_up().then(|| vec![member]);
        match *fault {
            SimFault::PowerLoss { target, .. }
            | SimFault::Kill { target, .. }
            | SimFault::Stop { target, .. }
            | SimFault::Pause { target, .. }
            | SimFault::SyncFails { target, .. }
            | SimFault::WriteFails { target, .. }
            | SimFault::ReadFails { target, .. }
            | SimFault::DiskFull { target, .. }
            | SimFault::SyncStalls { target, .. }
            | SimFault::WallJump { target, .. }
            | SimFault::Isolate { target, .. }
            | SimFault::Defragment { target } => up(self.target_of(target)?),
            SimFault::BreakLink { from, to }
            | SimFault::BreakStream { from, to }
            | SimFault::HoldUpStream { from, to, .. }
            | SimFault::Cut { from, to, .. }
            | SimFault::SlowLink { from, to, .. } => Some(vec![from, to]),
            SimFault::PowerLossAll { .. } | SimFault::Partition { .. } => {
                let all = 0..self.plan.machines();
                Some(all.filter(|member| self.machines[*member].is_up()).collect())
                    .filter(|members: &Vec<usize>| !members.is_empty())
            }
            SimFault::BitFlip { victim, .. } => up(victim),
            SimFault::TailFlip { victim } => up(victim).filter(|_| !self.machines[victim].damaged),
            SimFault::Wipe { victim } => {
                // Before every member knows the directory, a peer cannot distinguish the old one from the new one. Then
                // the victim must not start (`may_begin`), for a quorum knows it.
                let all = 0..self.plan.machines();
                let knowing = all.filter(|member| self.knows_directory_of(*member, victim)).count();
                let needed = match self.plan.late_start {
                    Some(_) => self.plan.members / 2 + 1,
                    None => self.plan.machines(),
                };
                let bound = knowing >= needed;
                up(victim).filter(|_| bound && !self.machines[victim].damaged)
            }
            SimFault::MoveLeader { .. } => up(self.target_of(FaultTarget::Leader)?),
        }
    }

    pub(super) fn target_of(&self, target: FaultTarget) -> Option<usize> {
        match target {
            FaultTarget::Member(member) => Some(member),
            FaultTarget::Leader => (0..self.plan.machines()).find(|member| {
                let process = self.machines[*member].process.as_ref();
                process.is_some_and(|process| process.opened.status.leader() == id_of(*member))
            }),
        }
    }

    pub(in crate::simulation) fn knows_directory_of(&self, member: usize, of: usize) -> bool {
        let Some(process) = self.machines[member].process.as_ref() else { return false };
        let members = process.opened.reader.members();
        members.iter().any(|known| known.id == id_of(of) && known.incarnation != 0)
    }

    /// A machine loses power after this many changes of its disk, or after 300 ms if there are fewer.
    pub(super) fn lose_power_within(&mut self, member: usize, changes: u64) {
        self.machines[member].disk.inner.stop_after(changes);
        let run = self.machines[member].run;
        let at_ns = self.now_ns + if changes == 0 { 1 } else { 300 * MS };
        self.queue.schedule(at_ns, SimEvent::PowerLoss { member, run });
    }

    fn isolate(&mut self, planned: usize, member: usize, pause_ns: u64, for_ns: u64) {
        if let Some(process) = self.machines[member].process.as_mut() {
            process.paused_until_ns = self.now_ns + pause_ns;
        }
        for (from, to) in self.links_of(member) {
            self.network.cut(self.now_ns, from, to, &mut self.queue);
        }
        self.pending_faults.isolated.insert(planned, member);
        self.queue.schedule(self.now_ns + pause_ns + for_ns, SimEvent::FaultEnds { planned });
    }

    fn links_of(&self, member: usize) -> Vec<(usize, usize)> {
        self.network.pairs().into_iter().filter(|(from, to)| *from == member || *to == member).collect()
    }

    pub(super) fn transfer_leadership(&mut self, member: usize, to: usize) {
        if let Some(process) = self.machines[member].process.as_mut() {
            let token = process.take_token();
            process.transfer = Some((token, to));
            self.give_at_once(member, Input::MoveLeader { token, to: id_of(to) });
        }
    }

    fn fault_links(&mut self, planned: usize, fault: SimFault) {
        match fault {
            SimFault::BreakLink { from, to } => self.break_link(from, to, 10 * MS),
            SimFault::BreakStream { from, to } => self.break_stream(from, to, STREAM_NOTICED_NS),
            SimFault::HoldUpStream { from, to, for_ns } => self.hold_up_stream(from, to, for_ns),
            SimFault::SlowLink { from, to, by_ns, for_ns } => {
                self.network.link(from, to).slow_ns = by_ns;
                self.queue.schedule(self.now_ns + for_ns, SimEvent::FaultEnds { planned });
            }
            SimFault::Cut { for_ns, .. } | SimFault::Partition { for_ns, .. } => {
                for (from, to) in self.cut_links(fault) {
                    self.network.cut(self.now_ns, from, to, &mut self.queue);
                }
                self.queue.schedule(self.now_ns + for_ns, SimEvent::FaultEnds { planned });
            }
            _ => {}
        }
    }

    /// The links that a cut or a partition cuts.
    fn cut_links(&self, fault: SimFault) -> Vec<(usize, usize)> {
        match fault {
            SimFault::Cut { from, to, .. } => vec![(from, to)],
            SimFault::Partition { groups, .. } => {
                let group = |member: usize| groups >> member & 1;
                // Some partitions let frames through in one direction.
                let one_way = groups >> 60 == 0 || groups >> 62 == 3;
                let apart = |(from, to): &(usize, usize)| {
                    group(*from) != group(*to) && (!one_way || group(*from) == 1)
                };
                self.network.pairs().into_iter().filter(apart).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A fault that lasts ends.
    pub(in crate::simulation) fn fault_ends(&mut self, planned: usize) {
        if self.ending.faults_stopped_ns.is_some() {
            return;
        }
        let fault = self.plan.faults[planned].fault;
        match fault {
            SimFault::SlowLink { from, to, .. } => self.network.link(from, to).slow_ns = 0,
            SimFault::Cut { .. } | SimFault::Partition { .. } => {
                for (from, to) in self.cut_links(fault) {
                    self.network.uncut(self.now_ns, from, to, &mut self.queue);
                }
            }
            SimFault::Isolate { .. } => {
                let Some(member) = self.pending_faults.isolated.remove(&planned) else { return };
                for (from, to) in self.links_of(member) {
                    self.network.uncut(self.now_ns, from, to, &mut self.queue);
                }
            }
            SimFault::DiskFull { .. } => {
                self.machines.iter().for_each(|machine| machine.disk.inner.set_capacity(None));
            }
            _ => {}
        }
    }

    fn fault_disk(&mut self, planned: usize, member: usize, fault: SimFault) {
        let machine = &mut self.machines[member];
        let disk = &machine.disk.inner;
        let inject = |operation: DiskOperation, after: u64| {
            disk.inject(DiskFault { operation, after, kind: std::io::ErrorKind::Other });
        };
        match fault {
            SimFault::SyncFails { after, .. } => inject(DiskOperation::Sync, after),
            SimFault::WriteFails { after, .. } => inject(DiskOperation::Write, after),
            SimFault::ReadFails { after, .. } => inject(DiskOperation::Read, after),
            // A sync that waits stays late, so none may wait longer than the faults last.
            SimFault::SyncStalls { for_ns, .. } => {
                machine.syncs_stalled_until_ns = (self.now_ns + for_ns).min(self.plan.fault_phase_ns);
            }
            SimFault::DiskFull { for_ns, .. } => {
                disk.set_capacity(Some(u64::MAX));
                let used = u64::MAX - disk.free_bytes("/data".as_ref()).unwrap_or(u64::MAX);
                disk.set_capacity(Some(used + FULL_DISK_BYTES));
                self.queue.schedule(self.now_ns + for_ns, SimEvent::FaultEnds { planned });
            }
            _ => {}
        }
    }
}
