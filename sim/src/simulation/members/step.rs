//! One step of a member: it takes its inputs, decides, and its outputs are carried out.

use member::{Answer, Input, MemberFatal, Output};

use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::machine::SimProcess;
use crate::world::queue::SimEvent;

/// Consecutive steps in which a member may do nothing: purging a long history takes some.
const MAX_IDLE_STEPS: u32 = 200;

/// The same while it has entries to apply: applying many in small slices shows nothing outside.
const MAX_APPLYING_STEPS: u32 = 20_000;

/// All invariants of a member are checked after a step whose number among the events of the run is a multiple of this:
/// often enough to find the step that broke one, at a small part of the cost of a run.
const EVENTS_PER_CHECK: u64 = 512;

/// The same in runs with many keys, of which a check looks at each.
const MANY_KEYS_EVENTS_PER_CHECK: u64 = 1_024;

impl Simulation {
    /// Gives a member an input, to be handled in a step within 60 µs.
    pub(in crate::simulation) fn give(&mut self, member: usize, input: Input) {
        let at_ns = self.now_ns + self.member_rng.below(60_000);
        let Some(process) = self.machines[member].process.as_mut() else { return };
        process.inputs.push_back(input);
        self.schedule_step(member, at_ns);
    }

    /// Gives a member an input of an operator, to be handled within 1 ms.
    pub(in crate::simulation) fn give_at_once(&mut self, member: usize, input: Input) {
        self.give(member, input);
        self.schedule_step(member, self.now_ns + 1_000_000);
    }

    /// Schedules a step, unless an earlier one is scheduled.
    pub(in crate::simulation) fn schedule_step(&mut self, member: usize, at_ns: u64) {
        let run = self.machines[member].run;
        let Some(process) = self.machines[member].process.as_mut() else { return };
        if at_ns < process.step_at_ns {
            process.step_at_ns = at_ns;
            self.queue.schedule(at_ns, SimEvent::MemberStep { member, run });
        }
    }

    /// One step of a member.
    pub(in crate::simulation) fn step(&mut self, member: usize, run: u64) -> Result<(), Violation> {
        let now_ns = self.now_ns;
        let machine = &mut self.machines[member];
        if now_ns >= machine.clock_jump_at_ns {
            machine.clock.jump_monotonic(8_000_000_000);
            machine.clock_jump_at_ns = u64::MAX;
        }
        let now = machine.clock.read(now_ns);
        let Some(process) = machine.process(run) else { return Ok(()) };
        if process.step_at_ns != now_ns {
            return Ok(());
        }
        process.step_at_ns = u64::MAX;
        if process.paused_until_ns > now_ns || process.busy_until_ns > 0 {
            // A step that ends at this very moment ends before the next one begins.
            let at_ns = process.paused_until_ns.max(process.busy_until_ns).max(now_ns + 1);
            self.schedule_step(member, at_ns);
            return Ok(());
        }
        let mut out = Output::default();
        let inputs = process.inputs.len() as u64;
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
            // The machine is losing power: its disk answers no reads any more.
            return self.lose_power(member);
        }
        let took_ns = out.counts.keys_applied as u64 * self.plan.apply_ns_per_key;
        if took_ns > 0 {
            if let Some(process) = self.machines[member].process.as_mut() {
                process.busy_until_ns = now_ns + took_ns;
            }
            let out = Box::new(out);
            self.queue.schedule(now_ns + took_ns, SimEvent::StepEnds { member, run, out, idle });
            return Ok(());
        }
        self.end_step(member, out, idle)
    }

    /// A step that took time is over, unless its process is.
    pub(in crate::simulation) fn step_ends(
        &mut self,
        (member, run): (usize, u64),
        out: Box<Output>,
        idle: bool,
    ) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process(run) else { return Ok(()) };
        if process.paused_until_ns > self.now_ns {
            let at_ns = process.paused_until_ns;
            process.busy_until_ns = at_ns;
            self.queue.schedule(at_ns, SimEvent::StepEnds { member, run, out, idle });
            return Ok(());
        }
        self.end_step(member, *out, idle)
    }

    /// Carries out what a step has decided, and schedules the next one.
    fn end_step(&mut self, member: usize, out: Output, idle: bool) -> Result<(), Violation> {
        if let Some(process) = self.machines[member].process.as_mut() {
            process.busy_until_ns = 0;
        }
        self.carry_out(member, out)?;
        let events_per_check = match self.plan.names.are_many() {
            true => MANY_KEYS_EVENTS_PER_CHECK,
            false => EVENTS_PER_CHECK,
        };
        if self.trace.events().is_multiple_of(events_per_check) {
            self.check_invariants(member)?;
        }
        self.strike_armed();
        self.schedule_next_step(member, idle)
    }

    /// Checks the invariants of a member's own state that are too expensive for production, since they look at all of
    /// it: after a step now and then ([`EVENTS_PER_CHECK`]), and of every member at the end of the run.
    pub(in crate::simulation) fn check_invariants(&self, member: usize) -> Result<(), Violation> {
        let Some(process) = &self.machines[member].process else { return Ok(()) };
        process.opened.member.check_all();
        let reader = &process.opened.reader;
        let (purged, compacted, revision) = (reader.purged(), reader.compacted(), reader.current_revision());
        if purged > compacted || compacted > revision {
            let text =
                format!("member {member} purged up to {purged}, compacted {compacted}, is at {revision}");
            return Violation::err("purged <= compacted <= current revision", text);
        }
        Ok(())
    }

    /// Schedules the step that the member asks for. A member must not ask for steps in which it does nothing.
    fn schedule_next_step(&mut self, member: usize, idle: bool) -> Result<(), Violation> {
        let machine = &mut self.machines[member];
        let Some(process) = machine.process.as_mut() else { return Ok(()) };
        let due_ns = process.opened.member.next_due_ns();
        let at_ns = due_ns.map_or(u64::MAX, |due_ns| machine.clock.simulated_ns(due_ns));
        let at_ns = if self.defect == Some(Defect::MemberSpins) { self.now_ns } else { at_ns };
        let spins = idle && at_ns <= self.now_ns + 1;
        process.idle_steps = if spins { process.idle_steps + 1 } else { 0 };
        let status = &process.opened.status;
        let is_applying = due_ns == Some(0) && status.applied_index() < status.committed_index();
        if is_applying {
            self.coverage.event("steps between slices");
        }
        let max_steps = if is_applying { MAX_APPLYING_STEPS } else { MAX_IDLE_STEPS };
        if process.idle_steps > max_steps {
            let text = format!(
                "member {member} asks for a step at once, {max_steps} times in a row, and does nothing"
            );
            return Violation::err("members do not spin", text);
        }
        self.schedule_step(member, at_ns.max(self.now_ns + 20_000));
        Ok(())
    }

    fn carry_out(&mut self, member: usize, out: Output) -> Result<(), Violation> {
        for notice in out.notices {
            self.handle_notice(member, &notice)?;
        }
        for (to, class, chunks) in out.frames {
            self.send(member, to, class, chunks.concat().into())?;
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
        if let Some(membership) = out.membership {
            self.follow_members(member, &membership);
        }
        if out.stopped && self.knows_its_removal(member) {
            self.member_is_gone(member);
        } else if out.stopped {
            self.process_stopped(member)?;
        }
        Ok(())
    }
}

fn decide(process: &mut SimProcess, now: member::Now, out: &mut Output) -> Result<(), MemberFatal> {
    let member = &mut process.opened.member;
    for input in process.inputs.drain(..) {
        member.handle(now, input, out)?;
    }
    member.drive(now, out)
}
