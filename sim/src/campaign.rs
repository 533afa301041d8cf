//! Many runs: a range of seeds, or as many as fit into some time; and one run with one of the deliberate
//! defects after
//! another.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cluster::{Cluster, Settings};
use crate::coverage::{Coverage, Operation};
use crate::defects::Defect;
use crate::faults;
use crate::plan::Plan;
use crate::report::{RunReport, Trace, Violation};
use crate::shrink as cut;

/// Seeds between two lines of progress.
const PROGRESS_SEEDS: u64 = 25;

/// The numbers of many runs.
#[derive(Default)]
pub struct Campaign {
    /// Runs that ended well.
    pub seeds: u64,
    /// Nanoseconds simulated.
    pub simulated_ns: u64,
    /// Answers checked.
    pub checked: u64,
    /// Events.
    pub events: u64,
    coverage: Coverage,
}

/// Runs a seed. A panic of the product is what broke.
pub(crate) fn run_one(seed: u64, settings: &Settings) -> RunReport {
    let plan = Plan::draw(seed);
    let run = catch_unwind(AssertUnwindSafe(|| Cluster::new(plan, settings).run()));
    run.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        let mut report = RunReport::new(seed, &Trace::new(), 0);
        report.faults = Plan::draw(seed).faults.len();
        report.violation = Some(Violation {
            check: "no panic",
            text: text.unwrap_or_else(|| "of no known sort".to_owned()),
        });
        report
    })
}

/// Runs one seed, with some of its faults or all, and says how it went: the trace hash, or the failure.
///
/// # Errors
/// What broke, as text.
pub fn replay(
    seed: u64,
    defect: Option<Defect>,
    keep: Option<Vec<usize>>,
    verbose: bool,
) -> Result<String, String> {
    let report = run_one(seed, &Settings { defect, keep, verbose });
    match report.failure_text(&commit()) {
        Some(text) => Err(text),
        None => Ok(format!(
            "seed {seed}: trace hash {:016x}, {} events, {:.1} s simulated, {} answers checked\nfaults: {}",
            report.trace_hash,
            report.events,
            report.simulated_ns as f64 / 1e9,
            report.checked,
            report.coverage.faults_line()
        )),
    }
}

/// Cuts a failing seed down.
///
/// # Errors
/// When the seed does not fail.
pub fn shrink(seed: u64, defect: Option<Defect>) -> Result<String, String> {
    let settings = Settings { defect, ..Settings::default() };
    let (kept, report) = cut::shrink(seed, &settings).ok_or_else(|| format!("seed {seed} does not fail"))?;
    let list = kept.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let text = report.failure_text(&commit()).unwrap_or_default();
    Ok(format!("{text}{} faults are left; repeat it with: --seed {seed} --faults {list:?}\n", kept.len()))
}

/// Runs seeds from `first` on while `more` says so (it gets the number of runs so far).
///
/// # Errors
/// The first failure, as text.
pub fn run_seeds(
    first: u64,
    mut more: impl FnMut(u64) -> bool,
    progress: impl Fn(&str),
) -> Result<Campaign, String> {
    let mut campaign = Campaign::default();
    while more(campaign.seeds) {
        let report = run_one(first + campaign.seeds, &Settings::default());
        campaign.add(&report);
        if let Some(text) = report.failure_text(&commit()) {
            return Err(format!("{text}\n{}", campaign.summary()));
        }
        if campaign.seeds.is_multiple_of(PROGRESS_SEEDS) {
            progress(&campaign.line());
        }
    }
    Ok(campaign)
}

/// For each defect, runs seeds from 1 on until it is noticed: the defect, the number of seeds it took
/// (`None`: it was not
/// noticed) and the check that noticed.
pub fn run_defects(
    defects: &[Defect],
    seeds_max: u64,
) -> impl Iterator<Item = (Defect, Option<(u64, &'static str)>)> {
    defects.iter().map(move |defect| {
        let settings = Settings { defect: Some(*defect), ..Settings::default() };
        let mut noticed = (1..=seeds_max).map(|seed| (seed, run_one(seed, &settings).violation));
        let found = noticed.find_map(|(seed, violation)| Some((seed, violation?.check)));
        (*defect, found)
    })
}

impl Campaign {
    fn add(&mut self, report: &RunReport) {
        self.seeds += 1;
        self.simulated_ns += report.simulated_ns;
        self.checked += report.checked;
        self.events += report.events;
        self.coverage.add(&report.coverage);
    }

    fn line(&self) -> String {
        format!(
            "{} seeds, {:.0} s simulated, {} answers checked; {}",
            self.seeds,
            self.simulated_ns as f64 / 1e9,
            self.checked,
            self.coverage.faults_line()
        )
    }

    /// Everything, with the table of faults and operations.
    pub fn summary(&self) -> String {
        format!("{}\n{} events\n\n{}", self.line(), self.events, self.coverage.table())
    }

    /// What was never tested by these runs: faults that met no such operation, and things that never
    /// happened.
    pub fn untested(&self) -> Vec<String> {
        self.coverage.missing(&faults::NAMES, &EXPECTED, &IMPOSSIBLE)
    }
}

/// Pairs that cannot be: only a leader can be told to hand over its leadership.
const IMPOSSIBLE: [(&str, Operation); 1] = [("leader transfer", Operation::Election)];

/// What must happen in every campaign of any length.
const EXPECTED: [&str; 23] = [
    "leaderships",
    "checkpoints",
    "forwards",
    "frames seen twice",
    "compactions",
    "graceful stops",
    "fatal errors",
    "quota reached",
    "alarms disarmed",
    "requests given up",
    "requests lost with a process",
    "damage noticed",
    "damage noticed at start",
    "watches that catch up",
    "watches that are synced",
    "watches ended by compaction",
    "local reads checked",
    "snapshots begun",
    "snapshots installed",
    "snapshots not taken",
    "snapshot streams broken",
    "damage healed",
    "files reclaimed",
];

/// The commit that is checked out, as far as git can tell.
fn commit() -> String {
    let output = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text = output.ok().filter(|output| output.status.success());
    let text = text.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "(unknown)".to_owned(), |text| text.trim().to_owned())
}
