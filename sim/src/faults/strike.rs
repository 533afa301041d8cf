//! Faults as they strike a running cluster.

use log::{Disk, Fault as DiskFault, Operation as DiskOperation};
use member::Input;

use super::{Fault, Target};
use crate::cluster::Cluster;
use crate::process::id_of;
use crate::queue::Event;
use crate::report::Violation;

const MS: u64 = 1_000_000;

/// Bytes that a full disk may still take: less than a segment.
const NEARLY_FULL_BYTES: u64 = 2_000;

impl Cluster {
    /// A planned fault strikes.
    pub(crate) fn strike(&mut self, planned: usize) -> Result<(), Violation> {
        let fault = self.plan.faults[planned].fault;
        let Some(members) = self.struck(&fault) else { return Ok(()) };
        let under_way = self.under_way(&members);
        self.coverage.fault(fault.name(), &under_way);
        self.trace.line(self.now_ns, format!("fault {planned}: {fault:?} on {members:?}"));
        let member = members[0];
        match fault {
            Fault::PowerLoss { after_changes, .. } => self.lose_power_within(member, after_changes),
            Fault::PowerLossAll { .. } => {
                members.iter().for_each(|member| self.lose_power_within(*member, 0))
            }
            Fault::Kill { down_ns, .. } => self.kill(member, down_ns)?,
            Fault::Stop { .. } => self.tell(member, Input::Stop),
            Fault::Pause { for_ns, .. } => {
                let until_ns = self.now_ns + for_ns;
                if let Some(process) = self.machines[member].process.as_mut() {
                    process.paused_until_ns = until_ns;
                }
            }
            Fault::Isolate { pause_ns, for_ns, .. } => self.isolate(planned, member, pause_ns, for_ns),
            Fault::MoveLeader { to } => self.move_leader(member, to),
            Fault::Defragment { .. } => self.tell(member, Input::Defragment),
            Fault::Wipe { victim } => self.wipe(victim)?,
            Fault::WallJump { by_ms, .. } => self.machines[member].clock.jump_wall(by_ms),
            Fault::BitFlip { victim, addresses } => (0..addresses).for_each(|_| self.flip(victim)),
            Fault::TailFlip { victim } => self.flip_tail(victim),
            Fault::BreakLink { .. }
            | Fault::Cut { .. }
            | Fault::Partition { .. }
            | Fault::SlowLink { .. } => {
                self.disturb_links(planned, fault);
            }
            _ => self.trouble_disk(planned, member, fault),
        }
        Ok(())
    }

    /// Whom a fault strikes; `None` when there is nobody.
    pub(super) fn struck(&self, fault: &Fault) -> Option<Vec<usize>> {
        let up = |member: usize| self.machines[member].is_up().then(|| vec![member]);
        match *fault {
            Fault::PowerLoss { target, .. }
            | Fault::Kill { target, .. }
            | Fault::Stop { target, .. }
            | Fault::Pause { target, .. }
            | Fault::SyncFails { target, .. }
            | Fault::WriteFails { target, .. }
            | Fault::ReadFails { target, .. }
            | Fault::DiskFull { target, .. }
            | Fault::SyncStalls { target, .. }
            | Fault::WallJump { target, .. }
            | Fault::Isolate { target, .. }
            | Fault::Defragment { target } => up(self.resolve(target)?),
            Fault::BreakLink { from, to }
            | Fault::Cut { from, to, .. }
            | Fault::SlowLink { from, to, .. } => Some(vec![from, to]),
            Fault::PowerLossAll { .. } | Fault::Partition { .. } => {
                let all = 0..self.plan.members;
                Some(all.filter(|member| self.machines[*member].is_up()).collect())
                    .filter(|members: &Vec<usize>| !members.is_empty())
            }
            Fault::BitFlip { victim, .. } => up(victim),
            Fault::TailFlip { victim } => up(victim).filter(|_| !self.machines[victim].damaged),
            Fault::Wipe { victim } => {
                // Until its directory is bound to its id everywhere, peers cannot tell.
                let bound = (0..self.plan.members).all(|member| self.knows_directory_of(member, victim));
                up(victim).filter(|_| bound && !self.machines[victim].damaged)
            }
            Fault::MoveLeader { .. } => up(self.resolve(Target::Leader)?),
        }
    }

    pub(super) fn resolve(&self, target: Target) -> Option<usize> {
        match target {
            Target::Member(member) => Some(member),
            Target::Leader => (0..self.plan.members).find(|member| {
                let process = self.machines[*member].process.as_ref();
                process.is_some_and(|process| process.opened.status.leader() == id_of(*member))
            }),
        }
    }

    fn knows_directory_of(&self, member: usize, of: usize) -> bool {
        let Some(process) = self.machines[member].process.as_ref() else { return false };
        let members = process.opened.reader.members();
        members.iter().any(|known| known.id == id_of(of) && known.incarnation != 0)
    }

    /// Power is lost at some operation of the disk, or soon if there are none.
    pub(super) fn lose_power_within(&mut self, member: usize, changes: u64) {
        self.machines[member].disk.inner.stop_after(changes);
        let run = self.machines[member].run;
        let at_ns = self.now_ns + if changes == 0 { 1 } else { 300 * MS };
        self.queue.plan(at_ns, Event::PowerLoss { member, run });
    }

    fn isolate(&mut self, planned: usize, member: usize, pause_ns: u64, for_ns: u64) {
        if let Some(process) = self.machines[member].process.as_mut() {
            process.paused_until_ns = self.now_ns + pause_ns;
        }
        for (from, to) in self.links_of(member) {
            self.network.cut(self.now_ns, from, to, &mut self.queue);
        }
        self.isolated.insert(planned, member);
        self.queue.plan(self.now_ns + pause_ns + for_ns, Event::FaultEnds { planned });
    }

    fn links_of(&self, member: usize) -> Vec<(usize, usize)> {
        self.network.pairs().into_iter().filter(|(from, to)| *from == member || *to == member).collect()
    }

    pub(super) fn move_leader(&mut self, member: usize, to: usize) {
        if let Some(process) = self.machines[member].process.as_mut() {
            let token = process.next_token;
            process.next_token += 1;
            process.moving = Some((token, to));
            self.tell(member, Input::MoveLeader { token, to: id_of(to) });
        }
    }

    fn disturb_links(&mut self, planned: usize, fault: Fault) {
        match fault {
            Fault::BreakLink { from, to } => self.break_link(from, to, 10 * MS),
            Fault::SlowLink { from, to, by_ns, for_ns } => {
                self.network.link(from, to).slow_ns = by_ns;
                self.queue.plan(self.now_ns + for_ns, Event::FaultEnds { planned });
            }
            Fault::Cut { for_ns, .. } | Fault::Partition { for_ns, .. } => {
                for (from, to) in self.cut_links(fault) {
                    self.network.cut(self.now_ns, from, to, &mut self.queue);
                }
                self.queue.plan(self.now_ns + for_ns, Event::FaultEnds { planned });
            }
            _ => {}
        }
    }

    /// The links that a cut or a partition takes.
    fn cut_links(&self, fault: Fault) -> Vec<(usize, usize)> {
        match fault {
            Fault::Cut { from, to, .. } => vec![(from, to)],
            Fault::Partition { groups, .. } => {
                let group = |member: usize| groups >> member & 1;
                // One in four partitions lets words through in one direction.
                let one_way = groups >> 60 == 0 || groups >> 62 == 3;
                let apart = |(from, to): &(usize, usize)| {
                    group(*from) != group(*to) && (!one_way || group(*from) == 1)
                };
                self.network.pairs().into_iter().filter(apart).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Something that lasts is over.
    pub(crate) fn fault_ends(&mut self, planned: usize) {
        if self.calm_ns.is_some() {
            return;
        }
        let fault = self.plan.faults[planned].fault;
        match fault {
            Fault::SlowLink { from, to, .. } => self.network.link(from, to).slow_ns = 0,
            Fault::Cut { .. } | Fault::Partition { .. } => {
                for (from, to) in self.cut_links(fault) {
                    self.network.mend(self.now_ns, from, to, &mut self.queue);
                }
            }
            Fault::Isolate { .. } => {
                let Some(member) = self.isolated.remove(&planned) else { return };
                for (from, to) in self.links_of(member) {
                    self.network.mend(self.now_ns, from, to, &mut self.queue);
                }
            }
            Fault::DiskFull { .. } => {
                self.machines.iter().for_each(|machine| machine.disk.inner.set_capacity(None));
            }
            _ => {}
        }
    }

    fn trouble_disk(&mut self, planned: usize, member: usize, fault: Fault) {
        let machine = &mut self.machines[member];
        let disk = &machine.disk.inner;
        let inject = |operation: DiskOperation, after: u64| {
            disk.inject(DiskFault { operation, after, kind: std::io::ErrorKind::Other });
        };
        match fault {
            Fault::SyncFails { after, .. } => inject(DiskOperation::Sync, after),
            Fault::WriteFails { after, .. } => inject(DiskOperation::Write, after),
            Fault::ReadFails { after, .. } => inject(DiskOperation::Read, after),
            // A sync that has begun to wait cannot be hurried when the faults stop.
            Fault::SyncStalls { for_ns, .. } => {
                machine.stalled_until_ns = (self.now_ns + for_ns).min(self.plan.chaos_ns);
            }
            Fault::DiskFull { for_ns, .. } => {
                disk.set_capacity(Some(u64::MAX));
                let used = u64::MAX - disk.free_bytes("/data".as_ref()).unwrap_or(u64::MAX);
                disk.set_capacity(Some(used + NEARLY_FULL_BYTES));
                self.queue.plan(self.now_ns + for_ns, Event::FaultEnds { planned });
            }
            _ => {}
        }
    }
}
