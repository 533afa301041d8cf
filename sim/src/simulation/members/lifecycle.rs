//! Processes start and end, machines lose power, directories are lost. What is on a disk after a crash is checked here.

use std::io::ErrorKind;
use std::sync::Arc;

use log::{Disk, Log};
use member::MemberFatal;

use crate::checks::durable_promises::RecoveredPromises;
use crate::defects::{Defect, checkpoints, records};
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::disk::SimDisk;
use crate::world::machine::{self, SimProcess};
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

impl Simulation {
    /// Starts the process of a member, unless it runs.
    pub(in crate::simulation) fn start(&mut self, member: usize) -> Result<(), Violation> {
        let machine = &self.machines[member];
        if machine.is_up() || machine.excluded.is_some() {
            return Ok(());
        }
        self.tamper_before_start(member);
        if self.has_lost_tail(member)? || !self.may_begin(member)? {
            return Ok(());
        }
        let start = self.member_rng.next();
        let machine = &self.machines[member];
        let opened = match machine::open_member(machine, &self.plan, start) {
            Ok(opened) => opened,
            Err(error) => return self.start_failed(member, &error),
        };
        self.trace.line(
            self.now_ns,
            format!(
                "m{member} starts at index {} revision {} {:?}",
                opened.status.applied_index(),
                opened.reader.current_revision(),
                opened.warnings,
            ),
        );
        if opened.member.is_recovering() {
            self.coverage.event("starts with a damaged log");
        }
        self.checks.tokens.starts(member, opened.reader.applied().index);
        let now_ns = self.now_ns;
        let machine = &mut self.machines[member];
        machine.run += 1;
        machine.has_power = true;
        let began_ns = machine.clock.read(now_ns).monotonic_ns;
        machine.process = Some(SimProcess::new(opened, start, began_ns));
        self.dial_all(member);
        self.schedule_step(member, self.now_ns + 1);
        Ok(())
    }

    fn start_failed(&mut self, member: usize, error: &member::OpenMemberError) -> Result<(), Violation> {
        self.trace.line(self.now_ns, format!("m{member} does not start: {error}"));
        if matches!(error, member::OpenMemberError::Removed { .. }) {
            self.member_is_gone(member);
            return Ok(());
        }
        let machine = &mut self.machines[member];
        if machine.damaged {
            machine.excluded = Some("its damage was noticed at the start");
            self.coverage.event("damage noticed at start");
            return Ok(());
        }
        // Only a directory that is still to be made needs space.
        let is_new =
            !machine.disk.files().iter().any(|file| file.extension().is_some_and(|end| end == "base"));
        if is_new && error.to_string().contains("no storage space") {
            self.queue.schedule(self.now_ns + 500 * MS, SimEvent::Start { member });
            return Ok(());
        }
        Violation::err("members start again", format!("member {member} does not start: {error}"))
    }

    /// Whether a bit flip at the end of a member's log has cost it entries.
    ///
    /// Recovery either refuses the log or cuts it at the flip, as it cuts a torn tail. Then the entries before the flip
    /// must be there, unchanged. Votes and entries behind it may be lost, so the member counts as lost, like one
    /// without its directory, and takes no part any more.
    fn has_lost_tail(&mut self, member: usize) -> Result<bool, Violation> {
        let Some(flip) = self.machines[member].tail_flip.take() else { return Ok(false) };
        let Ok(found) = self.read_log(member) else { return Ok(false) };
        let (found, end) = found?;
        if found.last < self.checks.promises.accepted(member).min(flip.last_whole) {
            let text = format!(
                "member {member}'s log ends at {}, but the damage lies behind {}",
                found.last, flip.last_whole
            );
            return Violation::err("only the damaged tail is lost", text);
        }
        // Recovery reads record after record: if it found an entry behind the flip, nothing was cut.
        if end > flip.position {
            return Ok(false);
        }
        self.trace.line(self.now_ns, format!("m{member} has lost the tail of its log, up to {}", found.last));
        self.coverage.event("tails lost");
        self.machines[member].excluded = Some("it lost the tail of its log");
        Ok(true)
    }

    /// Changes the files as the defect of this run does at a start.
    fn tamper_before_start(&mut self, member: usize) {
        let machine = &self.machines[member];
        let (disk, files, salt) = (&machine.disk.inner, machine.disk.files(), machine.salt());
        match self.defect {
            Some(Defect::TornTailAccepted | Defect::ChecksumNotChecked) => {
                records::accept_damage(disk, &files, salt);
            }
            Some(Defect::CheckpointMissesBatch) if machine.checkpoint_index > 0 => {
                records::skip_entry(disk, &files, salt, machine.checkpoint_index + 1);
            }
            Some(Defect::StaleRecordAccepted) => records::accept_stale(disk, &files, salt),
            Some(Defect::MergeLosesKeys) => checkpoints::drop_keys(disk, &files, machine.merged.as_deref()),
            Some(Defect::CheckpointWithoutSmallState) => checkpoints::drop_small_state(disk, &files),
            _ => {}
        }
    }

    /// Kills a process. Its writes that were not synced are kept.
    pub(in crate::simulation) fn kill(&mut self, member: usize, down_ns: u64) -> Result<(), Violation> {
        if !self.machines[member].is_up() {
            return Ok(());
        }
        self.end_process(member, 5 * MS);
        let machine = &mut self.machines[member];
        machine.disk = machine.disk.with(machine.disk.inner.fork());
        self.trace.line(self.now_ns, format!("m{member} is killed for {:.3} s", down_ns as f64 / 1e9));
        self.queue.schedule(self.now_ns + down_ns + 1, SimEvent::Start { member });
        Ok(())
    }

    /// A machine loses power. Each write that was not synced is kept, lost or torn.
    pub(in crate::simulation) fn lose_power(&mut self, member: usize) -> Result<(), Violation> {
        self.end_process(member, 6 * SECOND);
        let mode = self.disk_rng.below(4);
        let rng = &mut self.disk_rng;
        // The disk asks for each unsynced write; of three, 0 keeps it, 1 loses it, 2 tears it.
        let mut choose = |n: u64| match (mode, n) {
            (0, 3) => 1,
            (1, 3) => 0,
            _ => rng.below(n),
        };
        let after = self.machines[member].disk.inner.crash(&mut choose);
        let machine = &mut self.machines[member];
        machine.has_power = false;
        machine.disk = machine.disk.with(after);
        let down_ns = self.disk_rng.between(MS, 4 * SECOND);
        self.trace.line(self.now_ns, format!("m{member} loses power for {:.3} s", down_ns as f64 / 1e9));
        self.check_disk(member)?;
        self.queue.schedule(self.now_ns + down_ns, SimEvent::Start { member });
        Ok(())
    }

    /// A process stops because a write or sync failed; then its machine loses power.
    pub(super) fn process_fails(&mut self, member: usize, fatal: &MemberFatal) -> Result<(), Violation> {
        self.trace.line(self.now_ns, format!("m{member} stops: {fatal}"));
        self.coverage.event("fatal errors");
        if let MemberFatal::LostEntry { .. } = fatal
            && self.machines[member].damaged
        {
            self.end_process(member, 5 * MS);
            self.machines[member].excluded = Some("no member has an entry that is damaged in its log");
            self.coverage.event("damaged entries that no member has");
            return Ok(());
        }
        if let MemberFatal::Entry { .. } = fatal {
            return Violation::err("entries can be applied", fatal.to_string());
        }
        if let MemberFatal::Log(cause) = fatal
            && cause.source.kind() == ErrorKind::StorageFull
        {
            return Violation::err("a full disk stops no member", fatal.to_string());
        }
        self.lose_power(member)
    }

    /// A process has stopped gracefully.
    pub(super) fn process_stopped(&mut self, member: usize) -> Result<(), Violation> {
        self.coverage.event("graceful stops");
        let down_ns = self.disk_rng.between(MS, 2 * SECOND);
        self.kill(member, down_ns)
    }

    /// A victim loses its directory.
    pub(in crate::simulation) fn wipe(&mut self, member: usize) -> Result<(), Violation> {
        if self.machines[member].is_up() {
            self.end_process(member, 5 * MS);
        }
        for peer in (0..self.plan.machines()).filter(|peer| *peer != member) {
            self.network.forget_receiver(self.now_ns, peer, member, &mut self.queue);
        }
        let incarnation = self.member_rng.next() | 1;
        let machine = &mut self.machines[member];
        machine.incarnation = incarnation;
        machine.disk = SimDisk::new(self.defect, machine.salt());
        machine.checkpoint_index = 0;
        if self.defect != Some(Defect::WipedMemberVotes) {
            // Its peers must refuse it.
            machine.damaged = true;
            machine.wiped = true;
        }
        self.checks.promises.forgotten(member);
        self.trace.line(self.now_ns, format!("m{member} loses its directory"));
        self.queue.schedule(self.now_ns + 50 * MS, SimEvent::Start { member });
        Ok(())
    }

    pub(in crate::simulation) fn end_process(&mut self, member: usize, noticed_ns: u64) {
        let Some(process) = self.machines[member].process.take() else { return };
        for pending in process.pending.values() {
            self.workload.calls.remove(&pending.number);
            self.client_loses_process(pending.client, pending.number);
        }
        for peer in (0..self.plan.machines()).filter(|peer| *peer != member) {
            self.break_link(peer, member, noticed_ns);
            if self.network.rng.percent(50) {
                self.network.disconnect(member, peer);
            } else {
                self.network.link(member, peer).up = false;
            }
        }
    }

    /// Checks that a disk holds after a power loss what its member promised.
    fn check_disk(&mut self, member: usize) -> Result<(), Violation> {
        let machine = &self.machines[member];
        if machine.damaged || machine.excluded.is_some() {
            return Ok(());
        }
        match self.read_log(member) {
            Ok(found) => self.checks.promises.after_crash(member, found?.0),
            Err(reason) => {
                let text = format!("the log of member {member} cannot be read after a crash: {reason}");
                Violation::err("logs survive a crash", text)
            }
        }
    }

    /// Reads a member's log with the log's own recovery: what it holds, and the log address of its last entry. The
    /// outer error says that it cannot be read, the inner one that an entry differs from what other members have.
    fn read_log(&mut self, member: usize) -> Result<Result<(RecoveredPromises, u64), Violation>, String> {
        let disk: Arc<dyn Disk> = Arc::new(self.machines[member].disk.inner.fork());
        let options = machine::log_options(&self.plan);
        if !Log::exists(disk.as_ref(), &options).unwrap_or(false) {
            return Ok(Ok((RecoveredPromises::default(), 0)));
        }
        let opened = Log::open(&disk, &options).map_err(|error| error.to_string())?;
        let first = opened.log.first_index();
        let before = opened.log.term(first - 1).filter(|term| *term > 0);
        let mut entries = Vec::new();
        for replayed in opened.log.entries_from(first) {
            let (entry, _) = replayed.map_err(|error| error.to_string())?;
            entries.push((entry.index, entry.term, entry.checksum()));
        }
        let hard_state = opened.recovered.hard_state;
        let found =
            RecoveredPromises { term: hard_state.term, vote: hard_state.vote, last: opened.log.last_index() };
        let end = opened.log.address(found.last).unwrap_or(0);
        Ok(self.checks.log.read(before, &entries).map(|()| (found, end)))
    }
}
