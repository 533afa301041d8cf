//! Processes start and end; power is lost; directories are wiped.

use std::sync::Arc;

use api::etcdserverpb::WatchCreateRequest;
use bytes::Bytes;
use log::{Disk, Log};
use member::{Fatal, Opened};
use store::watch::WatchStream;

use super::{Cluster, salt};
use crate::checks::promises::Remembered;
use crate::defects::{Defect, checkpoints, records};
use crate::disk::SimDisk;
use crate::process::{self, Process};
use crate::queue::Event;
use crate::report::Violation;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Revisions that a started member's watch looks at again.
const OVERLAP: i64 = 20;

/// Bytes of a response that ends a fragment; nothing here comes near it.
const FRAGMENT_BYTES: usize = 2 << 20;

impl Cluster {
    pub(crate) fn start(&mut self, member: usize) -> Result<(), Violation> {
        let machine = &self.machines[member];
        if machine.is_up() || machine.gone.is_some() {
            return Ok(());
        }
        self.tamper_before_start(member);
        if self.tail_is_lost(member)? {
            return Ok(());
        }
        let start = self.member_rng.next();
        let machine = &self.machines[member];
        let opened = match process::open(machine, &self.plan, start, machine.incarnation) {
            Ok(opened) => opened,
            Err(error) => return self.does_not_start(member, &error),
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
        let machine = &mut self.machines[member];
        machine.run += 1;
        machine.process = Some(new_process(opened));
        self.dial_all(member);
        self.plan_turn(member, self.now_ns + 1);
        Ok(())
    }

    fn does_not_start(&mut self, member: usize, error: &member::OpenError) -> Result<(), Violation> {
        let machine = &mut self.machines[member];
        self.trace.line(self.now_ns, format!("m{member} does not start: {error}"));
        if machine.damaged {
            machine.gone = Some("its damage was noticed at the start");
            self.coverage.event("damage noticed at start");
            return Ok(());
        }
        let full = machine.disk.inner.free_bytes("/data".as_ref()).is_ok_and(|free| free < 1 << 30);
        if full && error.to_string().contains("storage") || error.to_string().contains("no storage space") {
            self.queue.plan(self.now_ns + 500 * MS, Event::Start { member });
            return Ok(());
        }
        Violation::err("members start again", format!("member {member} does not start: {error}"))
    }

    /// A bit flipped at the end of a member's log. Recovery either refuses the log, or cuts it there, as it must cut a
    /// torn tail: nothing wrong may be in what is left, and nothing may be missing but what lies behind the flip. If it
    /// was cut, promises may be missing: the copy is lost like a lost directory, and the member takes no part any more.
    fn tail_is_lost(&mut self, member: usize) -> Result<bool, Violation> {
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
        // Recovery goes on from record to record: who found an entry behind the flip lost nothing.
        if end > flip.position {
            return Ok(false);
        }
        self.trace.line(self.now_ns, format!("m{member} has lost the tail of its log, up to {}", found.last));
        self.coverage.event("tails lost");
        self.machines[member].gone = Some("it lost the tail of its log");
        Ok(true)
    }

    /// What a defective member would make of its disk at a start.
    fn tamper_before_start(&mut self, member: usize) {
        let machine = &self.machines[member];
        let (disk, files, salt) = (&machine.disk.inner, machine.disk.files(), salt(machine.incarnation));
        match self.defect {
            Some(Defect::TornTailAccepted | Defect::ChecksumNotChecked) => {
                records::accept_damage(disk, &files, salt);
            }
            Some(Defect::CheckpointMissesBatch) if machine.checkpoint > 0 => {
                records::skip_entry(disk, &files, salt, machine.checkpoint + 1);
            }
            Some(Defect::StaleRecordAccepted) => records::accept_stale(disk, &files, salt),
            Some(Defect::CheckpointWithoutSmallState) => checkpoints::drop_small_state(disk, &files),
            _ => {}
        }
    }

    /// The process is gone; what it had written but not synced is still there.
    pub(crate) fn kill(&mut self, member: usize, down_ns: u64) -> Result<(), Violation> {
        if !self.machines[member].is_up() {
            return Ok(());
        }
        self.end_process(member, 5 * MS);
        let machine = &mut self.machines[member];
        machine.disk = machine.disk.with(machine.disk.inner.fork());
        self.trace.line(self.now_ns, format!("m{member} is killed for {:.3} s", down_ns as f64 / 1e9));
        self.queue.plan(self.now_ns + down_ns + 1, Event::Start { member });
        Ok(())
    }

    /// The machine loses power: of what was not synced, anything may be there.
    pub(crate) fn power_loss(&mut self, member: usize) -> Result<(), Violation> {
        self.end_process(member, 6 * SECOND);
        let mode = self.disk_rng.below(4);
        let rng = &mut self.disk_rng;
        // 0 is "kept", 1 "lost", 2 "torn"; sometimes all is kept or all is lost.
        let mut choose = |n: u64| match (mode, n) {
            (0, 3) => 1,
            (1, 3) => 0,
            _ => rng.below(n),
        };
        let after = self.machines[member].disk.inner.crash(&mut choose);
        let machine = &mut self.machines[member];
        machine.disk = machine.disk.with(after);
        let down_ns = self.disk_rng.between(MS, 4 * SECOND);
        self.trace.line(self.now_ns, format!("m{member} loses power for {:.3} s", down_ns as f64 / 1e9));
        self.examine(member)?;
        self.queue.plan(self.now_ns + down_ns, Event::Start { member });
        Ok(())
    }

    /// A failed write or sync stops the process; often the machine is switched off then.
    pub(super) fn process_fails(&mut self, member: usize, fatal: &Fatal) -> Result<(), Violation> {
        self.trace.line(self.now_ns, format!("m{member} stops: {fatal}"));
        self.coverage.event("fatal errors");
        if let Fatal::Entry { .. } = fatal {
            return Violation::err("entries can be applied", fatal.to_string());
        }
        self.power_loss(member)
    }

    pub(super) fn stopped(&mut self, member: usize) -> Result<(), Violation> {
        self.coverage.event("graceful stops");
        let down_ns = self.disk_rng.between(MS, 2 * SECOND);
        self.kill(member, down_ns)
    }

    /// A victim loses its directory.
    pub(crate) fn wipe(&mut self, member: usize) -> Result<(), Violation> {
        if self.machines[member].is_up() {
            self.end_process(member, 5 * MS);
        }
        for peer in (0..self.plan.members).filter(|peer| *peer != member) {
            self.network.forget(self.now_ns, peer, member, &mut self.queue);
        }
        let incarnation = self.member_rng.next() | 1;
        let machine = &mut self.machines[member];
        machine.incarnation = incarnation;
        machine.disk = SimDisk::new(self.defect, salt(incarnation));
        machine.checkpoint = 0;
        if self.defect != Some(Defect::WipedMemberVotes) {
            // Its peers must refuse it; nothing it says counts.
            machine.damaged = true;
            machine.wiped = true;
        }
        self.checks.promises.forgotten(member);
        self.trace.line(self.now_ns, format!("m{member} loses its directory"));
        self.queue.plan(self.now_ns + 50 * MS, Event::Start { member });
        Ok(())
    }

    fn end_process(&mut self, member: usize, noticed_ns: u64) {
        let Some(process) = self.machines[member].process.take() else { return };
        for asked in process.asked.values() {
            self.client_loses(asked.client, asked.number);
        }
        for peer in (0..self.plan.members).filter(|peer| *peer != member) {
            self.break_link(peer, member, noticed_ns);
            if self.network.rng.percent(50) {
                self.network.lose(member, peer);
            } else {
                self.network.link(member, peer).up = false;
            }
        }
    }

    /// What a crash left must hold what was promised.
    fn examine(&mut self, member: usize) -> Result<(), Violation> {
        let machine = &self.machines[member];
        if machine.damaged || machine.gone.is_some() {
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

    /// Reads a member's log with the log's own recovery: what it remembers and where its last entry lies, if the log
    /// can be read at all, and if what is in it is what others have.
    fn read_log(&mut self, member: usize) -> Result<Result<(Remembered, u64), Violation>, String> {
        let disk: Arc<dyn Disk> = Arc::new(self.machines[member].disk.inner.fork());
        let options = process::options(&self.plan);
        if !Log::exists(disk.as_ref(), &options).unwrap_or(false) {
            return Ok(Ok((Remembered::default(), 0)));
        }
        let opened = Log::open(&disk, &options).map_err(|error| error.to_string())?;
        let first = opened.log.first_index();
        let before = opened.log.term(first - 1).filter(|term| *term > 0);
        let mut entries = Vec::new();
        for replayed in opened.log.replay(first) {
            let (entry, _) = replayed.map_err(|error| error.to_string())?;
            entries.push((entry.index, entry.term, entry.checksum()));
        }
        let hard_state = opened.recovered.hard_state;
        let found =
            Remembered { term: hard_state.term, vote: hard_state.vote, last: opened.log.last_index() };
        let end = opened.log.address(found.last).unwrap_or(0);
        Ok(self.checks.log.read(before, &entries).map(|()| (found, end)))
    }
}

/// A watch over everything from a revision on.
pub(super) fn observer(opened: &Opened, from: i64) -> WatchStream {
    let mut observer = opened.hub.open(Arc::new(|| {}), FRAGMENT_BYTES);
    let everything = Bytes::from_static(b"\0");
    observer.create(&WatchCreateRequest {
        key: everything.clone(),
        range_end: everything,
        start_revision: from,
        ..Default::default()
    });
    observer
}

fn new_process(opened: Opened) -> Process {
    let from = (opened.reader.current_revision() - OVERLAP).max(opened.reader.compacted()).max(1);
    let observer = observer(&opened, from);
    Process {
        opened,
        inbox: Default::default(),
        turn_at_ns: u64::MAX,
        idle_turns: 0,
        paused_until_ns: 0,
        writes: Vec::new(),
        writing: false,
        jobs: Default::default(),
        moving: None,
        asked: Default::default(),
        next_token: 1,
        streams: Default::default(),
        observer,
        shown: None,
        kept: Default::default(),
    }
}
