//! A member's turn: it takes in what has happened, decides, and what it decided is carried out.

use std::time::Duration;

use api::etcdserverpb::WatchResponse;
use bytes::Bytes;
use consensus::MAX_INFLIGHT_MESSAGES;
use log::{WriteDone, WriteJob};
use member::background::{Done, Job, Purpose};
use member::{Answer, Fatal, Input, MessageClass, Notice, Output, SnapshotEvent};
use prost::Message;
use store::watch::NextResponse;

use super::Cluster;
use super::lifecycle::observer;
use crate::checks::queues;
use crate::defects::{Defect, frames};
use crate::disk::DISK_STOPPED;
use crate::process::Process;
use crate::queue::Event;
use crate::report::Violation;

/// Turns for nothing that a member may take one after another: purging a long history takes some.
const MAX_IDLE_TURNS: u32 = 200;

/// The longest that a checkpoint takes, and any other job.
const CHECKPOINT_NS: u64 = 300_000_000;
const JOB_NS: u64 = 25_000_000;

/// Faults of reading that may be set at the same time.
const MAX_READ_FAULTS: u32 = 50;

/// Frames that our own watch may send at once; far above what one turn can apply.
const MAX_OBSERVED: usize = 100_000;

impl Cluster {
    /// Gives a member something to handle at its next turn, which is soon.
    pub(crate) fn feed(&mut self, member: usize, input: Input) {
        let at_ns = self.now_ns + self.member_rng.below(60_000);
        let Some(process) = self.machines[member].process.as_mut() else { return };
        process.inbox.push_back(input);
        self.plan_turn(member, at_ns);
    }

    /// Plans a turn, unless one is planned that is sooner.
    pub(crate) fn plan_turn(&mut self, member: usize, at_ns: u64) {
        let run = self.machines[member].run;
        let Some(process) = self.machines[member].process.as_mut() else { return };
        if at_ns < process.turn_at_ns {
            process.turn_at_ns = at_ns;
            self.queue.plan(at_ns, Event::Turn { member, run });
        }
    }

    pub(super) fn turn(&mut self, member: usize, run: u64) -> Result<(), Violation> {
        let now_ns = self.now_ns;
        let machine = &mut self.machines[member];
        if now_ns >= machine.jump_at_ns {
            machine.clock.jump_monotonic(8_000_000_000);
            machine.jump_at_ns = u64::MAX;
        }
        let now = machine.clock.read(now_ns);
        let Some(process) = machine.process(run) else { return Ok(()) };
        if process.turn_at_ns != now_ns {
            return Ok(());
        }
        process.turn_at_ns = u64::MAX;
        if process.paused_until_ns > now_ns {
            let at_ns = process.paused_until_ns;
            self.plan_turn(member, at_ns);
            return Ok(());
        }
        let mut out = Output::default();
        let inputs = process.inbox.len() as u64;
        let result = decide(process, now, &mut out);
        self.trace.mix(&[
            1,
            now_ns,
            member as u64,
            inputs,
            out.frames.len() as u64,
            out.answers.len() as u64,
        ]);
        if let Err(fatal) = result {
            return self.process_fails(member, &fatal);
        }
        let idle = inputs == 0 && out.writes.is_empty() && out.background.is_empty() && out.frames.is_empty();
        if !self.observe(member)? {
            // Its machine is losing power: it cannot even read any more.
            return self.power_loss(member);
        }
        self.carry_out(member, out)?;
        self.look_at_armed();
        self.plan_next_turn(member, idle)
    }

    /// A member is woken when it wants to be, and must not want to be woken for nothing.
    fn plan_next_turn(&mut self, member: usize, idle: bool) -> Result<(), Violation> {
        let machine = &mut self.machines[member];
        let Some(process) = machine.process.as_mut() else { return Ok(()) };
        let due_ns = process.opened.member.next_due_ns();
        let at_ns = due_ns.map_or(u64::MAX, |due_ns| machine.clock.moment_of(due_ns));
        let at_ns = if self.defect == Some(Defect::MemberNeverRests) { self.now_ns } else { at_ns };
        let spins = idle && at_ns <= self.now_ns + 1;
        process.idle_turns = if spins { process.idle_turns + 1 } else { 0 };
        if process.idle_turns > MAX_IDLE_TURNS {
            let text =
                format!("member {member} wants to be woken at once, again and again, and does nothing");
            return Violation::err("members rest", text);
        }
        self.plan_turn(member, at_ns.max(self.now_ns + 20_000));
        Ok(())
    }

    /// Looks at what the member shows to the world; false when its disk has stopped.
    fn observe(&mut self, member: usize) -> Result<bool, Violation> {
        let now_ns = self.now_ns;
        let run = self.machines[member].run;
        let damaged = self.machines[member].damaged;
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(true) };
        let mut events = Vec::new();
        let mut retries = MAX_READ_FAULTS;
        for _ in 0..MAX_OBSERVED {
            match process.observer.next(0) {
                Ok(NextResponse::Send(frame)) => {
                    if let Ok(response) = WatchResponse::decode(frame.to_bytes()) {
                        // Who catches up may find its next revisions applied and purged in one turn.
                        if response.canceled {
                            process.observer = observer(&process.opened, response.compact_revision);
                        }
                        events.extend(response.events);
                    }
                }
                Ok(NextResponse::Busy) => {}
                Ok(NextResponse::Idle) => break,
                // A read may fail once; what is damaged stays so.
                Err(damaged) if damaged.reason.contains(DISK_STOPPED) => return Ok(false),
                Err(_) if retries == 0 => break,
                Err(_) => {
                    retries -= 1;
                    process.observer.retry_damaged();
                }
            }
        }
        let reader = &process.opened.reader;
        let applied = reader.applied().index;
        // Whoever falls back to its disk and goes on does not say that it began anew.
        let shown_run = if self.defect == Some(Defect::StateFallsBack) { 0 } else { run };
        // The same entries give the same state: it is looked at when there are more of them.
        let state = (process.shown != Some(applied)).then(|| reader.state_hash());
        process.shown = Some(applied);
        let revision = reader.current_revision();
        let pending = process.opened.status.pending();
        let stats = process.opened.hub.stats();
        self.checks.applied(member, &events, now_ns)?;
        self.checks.monotonic.shows(member, shown_run, applied, revision)?;
        if let Some((position, hash)) = state {
            self.checks.hashes.shows(member, position, hash)?;
        }
        queues::member(member, pending, stats.streams, stats.pending_events)?;
        // Its own watch waits for what is damaged; what the others see must explain its answers.
        if revision > self.checks.history.revision() && !damaged {
            let text = format!("member {member} is at revision {revision}, but its watch is not");
            return Violation::err("watches are complete", text);
        }
        Ok(true)
    }

    fn carry_out(&mut self, member: usize, out: Output) -> Result<(), Violation> {
        for notice in out.notices {
            self.note(member, &notice)?;
        }
        for (to, class, pieces) in out.frames {
            self.send(member, to, class, pieces.concat().into())?;
        }
        for peer in out.disconnect {
            self.disconnect(member, (peer - 1) as usize);
        }
        if let Some(process) = self.machines[member].process.as_mut() {
            process.writes.extend(out.writes);
        }
        self.start_writing(member);
        for job in out.background {
            self.start_job(member, job);
        }
        for outgoing in out.snapshots {
            self.send_snapshot(member, outgoing)?;
        }
        for (token, answer) in out.answers {
            self.answered(member, token, answer)?;
            if self.defect == Some(Defect::AnsweredTwice) && self.member_rng.below(100) == 0 {
                self.answered(member, token, Answer::ReadNow)?;
            }
        }
        if out.stopped {
            self.stopped(member)?;
        }
        Ok(())
    }

    fn note(&mut self, member: usize, notice: &Notice) -> Result<(), Violation> {
        match notice {
            Notice::TickLate(_) => return Ok(()),
            Notice::Leadership { term, leading, .. } => {
                if *leading {
                    self.coverage.event("leaderships");
                    self.checks.leaders.leads(member, *term)?;
                    if self.defect == Some(Defect::LeaseClockReset) {
                        self.machines[member].jump_at_ns = self.now_ns + 400_000_000;
                    }
                }
            }
            Notice::Checkpoint { index } => {
                self.coverage.event("checkpoints");
                self.machines[member].checkpoint = *index;
            }
            Notice::Diverged { peer, index } => {
                let text = format!("member {member} says that member {} differs at {index}", peer - 1);
                return Violation::err("equal index means equal state", text);
            }
            Notice::BadFrame { from, reason } => {
                let text = format!("member {member} refuses a frame of member {}: {reason}", from - 1);
                // What a sound member sends is never refused.
                return Violation::err("frames are sound", text);
            }
            Notice::Damage { .. } => self.coverage.event("damage noticed"),
            Notice::Repaired { .. } => self.coverage.event("damage repaired"),
            Notice::Reclaimed { .. } => self.coverage.event("files reclaimed"),
            Notice::Failure { .. } => self.coverage.event("trouble noticed"),
            Notice::Snapshot { event, .. } => {
                if matches!(event, SnapshotEvent::Installed { .. }) {
                    self.coverage.event("snapshots installed");
                }
            }
        }
        self.trace.line(self.now_ns, format!("m{member} {notice:?}"));
        Ok(())
    }

    fn send(&mut self, member: usize, to: u64, class: MessageClass, bytes: Bytes) -> Result<(), Violation> {
        let peer = (to - 1) as usize;
        if let Some(message) = frames::message(&bytes) {
            queues::append(member, &message)?;
            self.checks.log.sent(&message)?;
            self.checks.promises.sent(member, &message)?;
        }
        match self.defect {
            Some(Defect::ReadIndexWithoutQuorum) => {
                if let Some(answer) = frames::confirmation(&bytes) {
                    self.feed(member, Input::Frame { from: to, bytes: answer });
                    return Ok(());
                }
            }
            Some(Defect::VotesNotAwaited) => {
                if let Some(grant) = frames::grant(&bytes) {
                    self.feed(member, Input::Frame { from: to, bytes: grant });
                }
            }
            Some(Defect::AppendsRepeated) if frames::is_append(&bytes) && self.network.rng.below(20) == 0 => {
                for _ in 0..4 * MAX_INFLIGHT_MESSAGES {
                    self.network.send(self.now_ns, (member, peer), class, bytes.clone(), &mut self.queue);
                }
            }
            Some(Defect::RepairUnanswered) if frames::is_value_answer(&bytes) => return Ok(()),
            Some(Defect::FrameNotChecked) if self.network.rng.below(300) == 0 => {
                let bytes = frames::altered(&bytes).unwrap_or(bytes);
                self.network.send(self.now_ns, (member, peer), class, bytes, &mut self.queue);
                return Ok(());
            }
            _ => {}
        }
        self.network.send(self.now_ns, (member, peer), class, bytes, &mut self.queue);
        let link = self.network.link(member, peer);
        queues::link(member, peer, link.in_flight_bytes, link.in_flight_appends)
    }

    /// The log thread takes everything that waits for it.
    fn start_writing(&mut self, member: usize) {
        let run = self.machines[member].run;
        let stalled_ns = self.machines[member].stalled_until_ns;
        let Some(process) = self.machines[member].process.as_mut() else { return };
        if process.writing || process.writes.is_empty() {
            return;
        }
        process.writing = true;
        let took_ns = self.plan.disk.base_ns + self.disk_rng.below(self.plan.disk.jitter_ns);
        self.queue.plan((self.now_ns + took_ns).max(stalled_ns), Event::RunWrites { member, run });
    }

    pub(super) fn run_writes(&mut self, member: usize, run: u64) {
        let Some(process) = self.machines[member].process(run) else { return };
        let writes = std::mem::take(&mut process.writes);
        let bytes: u64 = writes.iter().map(WriteJob::bytes).sum();
        let done = WriteJob::run_all(writes, &|| Duration::ZERO);
        self.trace.mix(&[2, self.now_ns, member as u64, bytes]);
        let at_ns = self.now_ns + self.disk_rng.below(200_000);
        self.queue.plan(at_ns, Event::Written { member, run, done });
    }

    pub(super) fn written(&mut self, member: usize, run: u64, done: WriteDone) {
        let Some(process) = self.machines[member].process(run) else { return };
        process.writing = false;
        self.feed(member, Input::Written(done));
        self.start_writing(member);
    }

    fn start_job(&mut self, member: usize, job: Job) {
        let run = self.machines[member].run;
        let Some(process) = self.machines[member].process.as_mut() else { return };
        match job {
            Job::Log(_) => process.jobs.log += 1,
            Job::Checkpoint(_) => process.jobs.checkpoint += 1,
            Job::Relocate { purpose: Purpose::Space, .. } => process.jobs.relocation += 1,
            _ => {}
        }
        let longest_ns = if matches!(job, Job::Checkpoint(_)) { CHECKPOINT_NS } else { JOB_NS };
        let took_ns = self.disk_rng.below(longest_ns);
        self.queue.plan(self.now_ns + took_ns, Event::RunJob { member, run, job });
    }

    pub(super) fn run_job(&mut self, member: usize, run: u64, job: Job) {
        if self.machines[member].process(run).is_none() {
            return;
        }
        let relocates = matches!(job, Job::Relocate { purpose: Purpose::Space, .. });
        self.machines[member].disk.set_relocating(relocates);
        let done = job.run();
        self.machines[member].disk.set_relocating(false);
        self.trace.mix(&[3, self.now_ns, member as u64]);
        let at_ns = self.now_ns + self.disk_rng.below(500_000);
        self.queue.plan(at_ns, Event::JobDone { member, run, done });
    }

    pub(super) fn job_done(&mut self, member: usize, run: u64, done: Done) {
        let Some(process) = self.machines[member].process(run) else { return };
        match done {
            Done::Log(_) => process.jobs.log -= 1,
            Done::Checkpoint { .. } => process.jobs.checkpoint -= 1,
            Done::Relocated { purpose: Purpose::Space, .. } => process.jobs.relocation -= 1,
            _ => {}
        }
        self.feed(member, Input::Background(Box::new(done)));
    }
}

fn decide(process: &mut Process, now: member::Now, out: &mut Output) -> Result<(), Fatal> {
    let member = &mut process.opened.member;
    for input in process.inbox.drain(..) {
        member.handle(now, input, out)?;
    }
    member.drive(now, out)
}
