//! One run: the loop over simulated time, and the handler of each event.
//!
//! | folder | handles |
//! |---|---|
//! | [`state`] | the state of a run; imports no handler |
//! | `members/` | steps of members, their jobs, links, snapshots; processes that start and end |
//! | `clients/` | requests, ranges, watches |
//! | `faults/` | faults that strike, wait for an operation, end |
//! | `operator` | requests of the operator who changes the membership, members that join and are removed |
//! | `ending/` | faults stop, members converge, every value is read |
//!
//! An event touches several parts of the world: a frame that arrives changes a link, gives a member an input and is
//! checked. So a handler is a method on [`Simulation`], and calls other handlers through it; the parts themselves
//! ([`crate::world`], [`crate::checks`], [`crate::plan`]) do not know the run.

mod clients;
mod ending;
mod faults;
mod members;
mod operator;
pub(crate) mod state;

use crate::report::trace::{RunReport, Violation};
use crate::world::queue::SimEvent;
use state::Simulation;

const SECOND: u64 = 1_000_000_000;

impl Simulation {
    /// Runs to the end, or to the first violation. Of the planned faults only those in `faults` strike, if it is given.
    pub(crate) fn run(&mut self, faults: Option<&[usize]>) -> Result<(), Violation> {
        self.schedule_first_events(faults);
        while !self.ending.is_over {
            let Some((at_ns, event)) = self.queue.pop() else { break };
            self.now_ns = self.now_ns.max(at_ns);
            self.handle(event)?;
        }
        Ok(())
    }

    fn schedule_first_events(&mut self, faults: Option<&[usize]>) {
        for member in 0..self.plan.members {
            let late = self.plan.late_start.filter(|(late, _)| *late == member);
            self.queue.schedule(late.map_or(member as u64, |(_, at_ns)| at_ns), SimEvent::Start { member });
        }
        for client in 0..self.plan.clients {
            let at_ns = self.workload.rng.below(self.plan.max_think_ns + 100_000_000);
            self.queue.schedule(at_ns, SimEvent::ClientRequests { client });
        }
        for watcher in 0..self.plan.watchers {
            self.queue.schedule(self.workload.rng.below(2_000_000_000), SimEvent::WatcherReads { watcher });
        }
        for keeper in 0..self.workload.keepers.len() {
            self.queue.schedule(SECOND, SimEvent::KeeperVisits { keeper });
        }
        for planned in 0..self.plan.faults.len() {
            if faults.is_none_or(|faults| faults.contains(&planned)) {
                self.queue.schedule(self.plan.faults[planned].at_ns, SimEvent::FaultDue { planned });
            }
        }
        if self.plan.joiners > 0 {
            self.queue.schedule(SECOND, SimEvent::OperatorActs);
        }
        let stop_ns = self.plan.fault_phase_ns;
        self.queue.schedule(stop_ns, SimEvent::FaultsStop);
        self.queue.schedule(stop_ns + self.plan.recovery_phase_ns, SimEvent::FinalWrites);
    }

    fn handle(&mut self, event: SimEvent) -> Result<(), Violation> {
        match event {
            SimEvent::MemberStep { member, run } => self.step(member, run)?,
            SimEvent::StepEnds { member, run, out, idle } => self.step_ends((member, run), out, idle)?,
            SimEvent::WriteLog { member, run } => self.write_log(member, run),
            SimEvent::LogWritten { member, run, done } => self.log_written(member, run, done),
            SimEvent::RunJob { member, run, job } => self.run_job(member, run, job),
            SimEvent::JobDone { member, run, done } => self.job_done(member, run, done),
            SimEvent::Deliver { from, to, epoch, class, bytes } => {
                self.deliver((from, to), epoch, class, bytes)?;
            }
            SimEvent::Dial { from, to, epoch } => self.dial(from, to, epoch),
            SimEvent::LinkLost { from, to, epoch } => self.link_lost(from, to, epoch),
            SimEvent::DialStream { from, to, class, epoch } => self.dial_stream((from, to), class, epoch),
            SimEvent::StreamLost { from, to, class, epoch } => self.stream_lost((from, to), class, epoch),
            SimEvent::SnapshotStep { stream } => self.step_snapshot(stream),
            SimEvent::ClientRequests { client } => self.client_requests(client)?,
            SimEvent::ClientTimeout { client, number } => self.client_times_out(client, number),
            SimEvent::ReadGoesOn { member, run, number } => self.read_goes_on(member, run, number)?,
            SimEvent::CallGoesOn { member, run, number } => self.call_goes_on(member, run, number)?,
            SimEvent::WatcherReads { watcher } => self.watcher_reads(watcher)?,
            SimEvent::KeeperVisits { keeper } => self.keeper_visits(keeper)?,
            SimEvent::RenewalChecked { member, run, keeper, stream, renewal } => {
                self.renewal_is_checked((member, run), keeper, stream, renewal);
            }
            SimEvent::FaultDue { planned } => self.fault_due(planned)?,
            SimEvent::ArmedFaultDue { planned } => self.armed_fault_due(planned)?,
            SimEvent::FaultEnds { planned } => self.fault_ends(planned),
            SimEvent::OperatorActs => self.operator_acts()?,
            SimEvent::MoveEnds { member } => self.move_ends(member)?,
            SimEvent::Start { member } => self.start(member)?,
            SimEvent::PowerLoss { member, run } => {
                if self.machines[member].run == run && self.machines[member].is_up() {
                    self.lose_power(member)?;
                }
            }
            SimEvent::FaultsStop => self.stop_faults()?,
            SimEvent::FinalWrites => self.send_final_writes()?,
            SimEvent::CheckConvergence => self.check_convergence()?,
            SimEvent::FinalRead { member } => self.final_read(member)?,
        }
        Ok(())
    }

    /// The report of a run that is over.
    pub(crate) fn report(mut self, violation: Option<Violation>) -> RunReport {
        if let Some(violation) = &violation {
            self.trace.line(self.now_ns, format!("BROKEN {}: {}", violation.check, violation.text));
        }
        RunReport {
            checked: self.checks.checked,
            coverage: std::mem::take(&mut self.coverage),
            faults: self.plan.faults.len(),
            long: self.plan.is_long(),
            violation,
            ..RunReport::new(self.plan.seed, &self.trace, self.now_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    //! What a fault must not cause.

    use store::Limits;

    use crate::plan::draw_plan;
    use crate::plan::fault::{PlannedFault, SimFault};
    use crate::rng::{Rng, RngStream};
    use crate::simulation::state::{RunSettings, Simulation};

    const MS: u64 = 1_000_000;

    /// Runs of three and five members; few without optimization, which is thirty times slower.
    const RUNS: u64 = if cfg!(debug_assertions) { 2 } else { 10 };

    /// A cluster has elected its first leader by then.
    const FLAPPING_FROM_NS: u64 = 6_000 * MS;

    /// Time in which links flap.
    const FLAPPING_NS: u64 = 15_000 * MS;

    /// One link breaks in each interval of this length; it is dialled again within 260 ms.
    const INTERVAL_NS: u64 = 120 * MS;

    /// A broken connection is not the end of a process: its machine accepts the next one. So no election follows.
    #[test]
    fn links_that_flap_cause_no_election() {
        for seed in 1..=RUNS {
            let mut plan = draw_plan(seed);
            (plan.members, plan.joiners) = if seed % 2 == 0 { (5, 0) } else { (3, 0) };
            (plan.victims, plan.focus, plan.bursts) = (Vec::new(), None, Vec::new());
            plan.rates_ppm = vec![0; plan.members];
            plan.store_limits = vec![Limits { slice_keys: 100, ..Limits::default() }; plan.members];
            plan.fault_phase_ns = FLAPPING_FROM_NS + FLAPPING_NS;
            plan.recovery_phase_ns = 2_000 * MS;
            let (mut rng, members) = (Rng::new(seed, RngStream::Faults), plan.members as u64);
            let flaps = (0..FLAPPING_NS / INTERVAL_NS).map(|number| {
                let (from, by) = (rng.below(members), rng.between(1, members - 1));
                let (from, to) = (from as usize, ((from + by) % members) as usize);
                let at_ns = FLAPPING_FROM_NS + number * INTERVAL_NS;
                PlannedFault { at_ns, fault: SimFault::BreakLink { from, to }, during: None }
            });
            plan.faults = flaps.collect();
            let mut simulation = Simulation::new(plan, &RunSettings::default());
            if let Err(violation) = simulation.run(None) {
                panic!("seed {seed}: {}: {}", violation.check, violation.text);
            }
            let terms: Vec<u64> = simulation
                .machines
                .iter()
                .filter_map(|machine| machine.process.as_ref())
                .map(|process| process.opened.status.term())
                .collect();
            assert_eq!(terms.len() as u64, members, "seed {seed}: all run");
            let led = simulation.checks.leaders.terms();
            assert_eq!(led.len(), 1, "seed {seed}: terms {led:?} had leaders");
            assert!(terms.iter().all(|term| *term == led[0]), "seed {seed}: terms {terms:?}, led {led:?}");
        }
    }
}
