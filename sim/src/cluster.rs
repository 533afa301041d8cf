//! A whole cluster in one thread: the loop over events, and what each of them sets off.
//!
//! | file | does |
//! |---|---|
//! | `turn` | a member's turn: inputs in, outputs carried out |
//! | `lifecycle` | processes start, stop, are killed; power is lost; directories are wiped |
//! | `links` | links are dialled, break, deliver |
//! | `snapshots` | snapshot streams |
//! | `judge` | the end: faults stop, all must be well again |
//! | `whole` | last of all, every member has every value |
//! | `clients/` | requests and watches |
//! | `faults/strike` | the planned faults |

mod judge;
mod lifecycle;
mod links;
mod snapshots;
mod turn;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use crate::checks::Checks;
use crate::clients::{Client, Watcher};
use crate::clock::MachineClock;
use crate::coverage::Coverage;
use crate::defects::Defect;
use crate::disk::SimDisk;
use crate::network::Network;
use crate::plan::Plan;
use crate::process::{Machine, id_of};
use crate::queue::{Event, Queue};
use crate::report::{RunReport, Trace, Violation};
use crate::rng::{Rng, Stream};
use snapshots::Transfer;

/// What a run is told besides its seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// A deliberate defect.
    pub(crate) defect: Option<Defect>,
    /// The planned faults that strike; `None` for all.
    pub(crate) keep: Option<Vec<usize>>,
    /// Print the trace as it comes.
    pub(crate) verbose: bool,
}

/// A run.
pub(crate) struct Cluster {
    pub(crate) plan: Plan,
    pub(crate) defect: Option<Defect>,
    pub(crate) now_ns: u64,
    pub(crate) queue: Queue,
    pub(crate) machines: Vec<Machine>,
    pub(crate) network: Network,
    pub(crate) clients: Vec<Client>,
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) checks: Checks,
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
    pub(crate) disk_rng: Rng,
    pub(crate) client_rng: Rng,
    pub(crate) list_rng: Rng,
    pub(crate) member_rng: Rng,
    /// Leases that were granted.
    pub(crate) leases: Vec<i64>,
    pub(crate) next_op: u64,
    /// When faults stopped.
    pub(crate) calm_ns: Option<u64>,
    /// Clients ask no more; what the judge asks must succeed.
    pub(crate) judging: bool,
    /// Members whose last word is awaited.
    pub(crate) owed_answers: Vec<u64>,
    /// Members that have not shown everything at the end, and until when they have time.
    pub(crate) unread: BTreeSet<usize>,
    pub(crate) whole_by_ns: u64,
    pub(crate) ended: bool,
    /// Planned faults that wait for their operation.
    pub(crate) armed: Vec<usize>,
    /// Members that a planned fault has cut off.
    pub(crate) isolated: BTreeMap<usize, usize>,
    /// Snapshots on their way.
    pub(crate) transfers: BTreeMap<u64, Transfer>,
    pub(crate) next_transfer: u64,
}

impl Cluster {
    /// A cluster as its plan says, nothing started.
    pub(crate) fn new(plan: Plan, settings: &Settings) -> Cluster {
        let seed = plan.seed;
        let mut member_rng = Rng::new(seed, Stream::Members);
        let machines =
            (0..plan.members).map(|m| machine(m, &plan, settings.defect, &mut member_rng)).collect();
        let network = Network::new(plan.members, plan.link, Rng::new(seed, Stream::Network));
        let mut trace = Trace::new();
        trace.verbose = settings.verbose;
        let mut cluster = Cluster {
            defect: settings.defect,
            now_ns: 0,
            queue: Queue::default(),
            machines,
            network,
            clients: vec![Client::default(); plan.clients],
            watchers: (0..plan.watchers).map(|_| Watcher::default()).collect(),
            checks: Checks::new(plan.members),
            coverage: Coverage::default(),
            trace,
            disk_rng: Rng::new(seed, Stream::Disk),
            client_rng: Rng::new(seed, Stream::Clients),
            list_rng: Rng::new(seed.rotate_left(32), Stream::Lists),
            member_rng,
            leases: Vec::new(),
            next_op: 0,
            calm_ns: None,
            judging: false,
            owed_answers: Vec::new(),
            unread: BTreeSet::new(),
            whole_by_ns: 0,
            ended: false,
            armed: Vec::new(),
            isolated: BTreeMap::new(),
            transfers: BTreeMap::new(),
            next_transfer: 0,
            plan,
        };
        cluster.plan_events(settings.keep.as_deref());
        cluster
    }

    fn plan_events(&mut self, keep: Option<&[usize]>) {
        for member in 0..self.plan.members {
            self.queue.plan(member as u64, Event::Start { member });
        }
        for client in 0..self.plan.clients {
            let at_ns = self.client_rng.below(self.plan.max_think_ns + 100_000_000);
            self.queue.plan(at_ns, Event::Client { client });
        }
        for watcher in 0..self.plan.watchers {
            self.queue.plan(self.client_rng.below(2_000_000_000), Event::PollWatch { watcher });
        }
        for planned in 0..self.plan.faults.len() {
            if keep.is_none_or(|keep| keep.contains(&planned)) {
                self.queue.plan(self.plan.faults[planned].at_ns, Event::Fault { planned });
            }
        }
        let calm_ns = self.plan.chaos_ns;
        self.queue.plan(calm_ns, Event::Calm);
        self.queue.plan(calm_ns + self.plan.calm_ns, Event::Judge);
    }

    /// Runs to the end, or to the first thing that breaks.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        while !self.ended {
            let Some((at_ns, event)) = self.queue.pop() else { break };
            self.now_ns = self.now_ns.max(at_ns);
            self.handle(event)?;
        }
        Ok(())
    }

    /// How the run went, which is over.
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

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Turn { member, run } => self.turn(member, run)?,
            Event::RunWrites { member, run } => self.run_writes(member, run),
            Event::Written { member, run, done } => self.written(member, run, done),
            Event::RunJob { member, run, job } => self.run_job(member, run, job),
            Event::JobDone { member, run, done } => self.job_done(member, run, done),
            Event::Deliver { from, to, epoch, class, bytes } => {
                self.deliver((from, to), epoch, class, bytes)?;
            }
            Event::Dial { from, to, epoch } => self.dial(from, to, epoch),
            Event::Broken { from, to, epoch } => self.broken(from, to, epoch),
            Event::Snapshot { transfer } => self.step_snapshot(transfer),
            Event::Client { client } => self.client_acts(client)?,
            Event::GiveUp { client, op } => self.client_gives_up(client, op),
            Event::PollWatch { watcher } => self.poll_watch(watcher)?,
            Event::Fault { planned } => self.fault_due(planned)?,
            Event::ArmedFault { planned } => self.armed_fault(planned)?,
            Event::FaultEnds { planned } => self.fault_ends(planned),
            Event::Start { member } => self.start(member)?,
            Event::PowerLoss { member, run } => {
                if self.machines[member].run == run && self.machines[member].is_up() {
                    self.power_loss(member)?;
                }
            }
            Event::Calm => self.calm()?,
            Event::Judge => self.judge()?,
            Event::End => self.end()?,
            Event::ReadAll { member } => self.read_all(member)?,
        }
        Ok(())
    }
}

fn machine(member: usize, plan: &Plan, defect: Option<Defect>, rng: &mut Rng) -> Machine {
    let incarnation = rng.next() | 1;
    let has_it = match defect {
        Some(Defect::SyncSkipped) => member == (plan.seed % plan.members as u64) as usize,
        _ => true,
    };
    let rate_ppm = match defect {
        Some(Defect::LeaseClockSlow) => -600_000,
        _ => plan.rates_ppm[member],
    };
    Machine {
        id: id_of(member),
        disk: SimDisk::new(defect.filter(|_| has_it), salt(incarnation)),
        clock: MachineClock::new(rate_ppm, rng.below(1 << 40)),
        process: None,
        run: 0,
        incarnation,
        damaged: false,
        tail_flip: None,
        wiped: false,
        gone: None,
        stalled_until_ns: 0,
        checkpoint: 0,
        jump_at_ns: u64::MAX,
    }
}

/// What the records of a directory are salted with.
pub(crate) fn salt(incarnation: u64) -> u32 {
    crc32c::crc32c(&incarnation.to_le_bytes())
}
