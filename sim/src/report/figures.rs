//! The figures of a campaign: what was run, for how long, how often each fault struck and during which operations.
//!
//! They are stored as JSON, so that a campaign can be run in parts whose figures are added up.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::coverage::{Coverage, IMPOSSIBLE};
use super::trace::RunReport;
use crate::plan::fault;
use crate::plan::operation::MemberOperation;

/// From this many seeds on, every pair of fault and operation must have occurred.
const COMPLETE_SEEDS: u64 = 10_000;

/// In a shorter campaign, only the pairs of faults that struck in so many runs. Runs count, not strikes: a fault
/// strikes often in one run, and a rare operation is frequent in one run of 18, which has it in focus. The rarest pairs
/// occur once in some sixty runs.
const STRUCK_RUNS: u64 = 500;

const NS: f64 = 1e9;
const DAY_S: f64 = 86_400.0;

/// The figures of many runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CampaignFigures {
    /// Commits that were tested.
    pub commits: Vec<String>,
    /// Seeds without a failure: first and last of each range.
    pub ranges: Vec<(u64, u64)>,
    /// Number of these seeds.
    pub seeds: u64,
    /// Number of long runs among them.
    pub long_runs: u64,
    /// Simulated time.
    pub simulated_ns: u64,
    /// Simulated time of the long runs.
    pub long_ns: u64,
    /// Answers that were checked.
    pub checked: u64,
    /// Events.
    pub events: u64,
    /// Seconds of real time, times threads.
    pub work_s: f64,
    /// Seconds of real time.
    pub wall_s: f64,
    /// How often each fault struck.
    faults: BTreeMap<String, u64>,
    /// In how many runs each fault struck; of a part that was written before this was counted, none.
    #[serde(default)]
    struck_runs: BTreeMap<String, u64>,
    /// By fault and operation: how often the fault struck a member on which the operation was under way.
    met: BTreeMap<String, BTreeMap<String, u64>>,
    /// How often everything else happened.
    happened: BTreeMap<String, u64>,
}

impl CampaignFigures {
    /// No runs yet, of this commit.
    pub fn new(commit: String) -> CampaignFigures {
        CampaignFigures { commits: vec![commit], ..CampaignFigures::default() }
    }

    /// The same figures, with the real time that they took on this many threads.
    #[must_use]
    pub fn timed(self, wall_s: f64, jobs: usize) -> CampaignFigures {
        CampaignFigures { wall_s, work_s: wall_s * jobs as f64, ..self }
    }

    /// Adds a run without a failure.
    pub(crate) fn add_run(&mut self, report: &RunReport) {
        self.seeds += 1;
        self.simulated_ns += report.simulated_ns;
        if report.long {
            self.long_runs += 1;
            self.long_ns += report.simulated_ns;
        }
        self.checked += report.checked;
        self.events += report.events;
        self.add_coverage(&report.coverage);
        self.ranges.push((report.seed, report.seed));
        self.join_ranges();
    }

    fn add_coverage(&mut self, coverage: &Coverage) {
        let count = |counts: &mut BTreeMap<String, u64>, name: &str, more: u64| {
            *counts.entry(name.to_owned()).or_default() += more;
        };
        for (name, more) in coverage.faults() {
            count(&mut self.faults, name, more);
            count(&mut self.struck_runs, name, 1);
        }
        coverage.events().for_each(|(name, more)| count(&mut self.happened, name, more));
        for ((fault, operation), more) in coverage.met() {
            count(self.met.entry(fault.to_owned()).or_default(), operation.name(), more);
        }
    }

    /// Adds the figures of another part of the campaign.
    ///
    /// # Errors
    /// When a seed is in both parts.
    pub fn add(&mut self, other: &CampaignFigures) -> Result<(), String> {
        let overlaps = |a: &(u64, u64), b: &(u64, u64)| a.0 <= b.1 && b.0 <= a.1;
        for range in &other.ranges {
            if let Some(twice) = self.ranges.iter().find(|known| overlaps(known, range)) {
                return Err(format!("the parts overlap: seeds {range:?} and {twice:?}"));
            }
        }
        for commit in &other.commits {
            if !self.commits.contains(commit) {
                self.commits.push(commit.clone());
            }
        }
        self.ranges.extend(&other.ranges);
        self.join_ranges();
        self.seeds += other.seeds;
        self.long_runs += other.long_runs;
        self.simulated_ns += other.simulated_ns;
        self.long_ns += other.long_ns;
        self.checked += other.checked;
        self.events += other.events;
        self.work_s += other.work_s;
        self.wall_s += other.wall_s;
        add_counts(&mut self.faults, &other.faults);
        add_counts(&mut self.struck_runs, &other.struck_runs);
        add_counts(&mut self.happened, &other.happened);
        for (fault, met) in &other.met {
            add_counts(self.met.entry(fault.clone()).or_default(), met);
        }
        Ok(())
    }

    fn join_ranges(&mut self) {
        self.ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for range in self.ranges.drain(..) {
            match joined.last_mut() {
                Some(last) if last.1 + 1 == range.0 => last.1 = range.1,
                _ => joined.push(range),
            }
        }
        self.ranges = joined;
    }

    /// Seeds, time, answers and faults on one line.
    pub fn line(&self) -> String {
        format!(
            "{} seeds, {:.0} s simulated ({:.2} days), {} answers checked; {}",
            self.seeds,
            self.simulated_ns as f64 / NS,
            self.simulated_ns as f64 / NS / DAY_S,
            self.checked,
            self.faults_line()
        )
    }

    /// Faults by kind on one line.
    pub(crate) fn faults_line(&self) -> String {
        let all = self.faults.iter().map(|(fault, count)| format!("{fault} {count}"));
        all.collect::<Vec<_>>().join(", ")
    }

    /// Everything, with the table of faults and operations.
    pub fn summary(&self) -> String {
        let ranges: Vec<String> =
            self.ranges.iter().map(|(first, last)| format!("{first} to {last}")).collect();
        format!(
            "{}\nseeds {}; commit {}\n{} long runs of {:.0} s together; {} events, {:.0} a core-second; {:.0} s \
             simulated a core-second\n{:.0} core-seconds, {:.0} s of real time\n\n{}",
            self.line(),
            ranges.join(", "),
            self.commits.join(", "),
            self.long_runs,
            self.long_ns as f64 / NS,
            self.events,
            self.events as f64 / self.work_s,
            self.simulated_ns as f64 / NS / self.work_s,
            self.work_s,
            self.wall_s,
            self.table()
        )
    }

    fn met(&self, fault: &str, operation: MemberOperation) -> u64 {
        self.met.get(fault).and_then(|met| met.get(operation.name())).copied().unwrap_or(0)
    }

    fn table(&self) -> String {
        let mut text = format!("{:<18}{:>9}", "fault", "struck");
        MemberOperation::ALL.iter().for_each(|operation| {
            let _ = write!(text, "{:>11}", operation.name());
        });
        for (fault, count) in &self.faults {
            let _ = write!(text, "\n{fault:<18}{count:>9}");
            for operation in MemberOperation::ALL {
                let _ = write!(text, "{:>11}", self.met(fault, operation));
            }
        }
        text.push('\n');
        for (event, count) in &self.happened {
            let _ = write!(text, "\n{event:<34}{count:>9}");
        }
        text
    }

    /// What these runs did not test: pairs of fault and operation, and events, that never occurred; and pairs that did
    /// although they are listed as impossible.
    pub fn untested(&self) -> Vec<String> {
        let pairs =
            fault::NAMES.iter().flat_map(|fault| MemberOperation::ALL.map(|operation| (*fault, operation)));
        let pairs: Vec<_> = pairs.collect();
        let impossible =
            |pair: &(&str, MemberOperation)| IMPOSSIBLE.iter().any(|(f, o, _)| (*f, *o) == *pair);
        let runs = |fault: &str| self.struck_runs.get(fault).copied().unwrap_or(0);
        let counts = |fault: &str| {
            let never_struck = !self.faults.contains_key(fault);
            self.seeds >= COMPLETE_SEEDS || never_struck || runs(fault) >= STRUCK_RUNS
        };
        let unmet = pairs.iter().filter(|pair| !impossible(pair) && counts(pair.0));
        let unmet = unmet.filter(|pair| self.met(pair.0, pair.1) == 0);
        let wrong = pairs.iter().filter(|pair| impossible(pair) && self.met(pair.0, pair.1) > 0);
        let events = EXPECTED.iter().filter(|event| !self.happened.contains_key(**event));
        unmet
            .map(|(fault, operation)| format!("{fault} never met {}", operation.name()))
            .chain(
                wrong.map(|(fault, operation)| format!("{fault} met {}, which cannot be", operation.name())),
            )
            .chain(events.map(|event| format!("{event} never happened")))
            .collect()
    }
}

fn add_counts(counts: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    more.iter().for_each(|(name, count)| *counts.entry(name.clone()).or_default() += count);
}

/// Events that must occur in every campaign, however short.
const EXPECTED: [&str; 42] = [
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
    "serializable reads checked",
    "streams checked",
    "snapshots begun",
    "snapshots installed",
    "snapshots not taken",
    "snapshot streams broken",
    "damage repaired",
    "scrub rounds",
    "scrub rounds that found damage",
    "compactions hashed",
    "files emptied",
    "streams connected apart",
    "streams lost alone",
    "steps between slices",
    "merges of checkpoints",
    "disks nearly full",
    "disks with room again",
    "memory limits noticed",
    "first pages of lists",
    "later pages of lists",
    "hashes checked",
    "requests refused by full queues",
    "members that join",
    "members moved",
    "old URLs given up",
    "directories lost and replaced",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: u64, last: u64) -> CampaignFigures {
        let seeds = last + 1 - first;
        let faults = BTreeMap::from([("kill".to_owned(), seeds)]);
        CampaignFigures {
            ranges: vec![(first, last)],
            seeds,
            struck_runs: faults.clone(),
            faults,
            ..CampaignFigures::new("c0ffee".to_owned())
        }
    }

    #[test]
    fn parts_add_up_to_one_campaign() {
        let mut all = part(1, 10);
        all.add(&part(21, 30)).expect("they are apart");
        all.add(&part(11, 20)).expect("it lies between them");
        assert_eq!((all.seeds, all.faults["kill"], all.struck_runs["kill"]), (30, 30, 30));
        assert_eq!((all.ranges.as_slice(), all.commits.len()), (&[(1, 30)][..], 1));
    }

    #[test]
    fn a_seed_does_not_count_twice() {
        let error = part(1, 10).add(&part(10, 12)).expect_err("seed 10 is in both");
        assert!(error.contains("overlap"), "{error}");
    }

    #[test]
    fn short_campaigns_may_miss_what_is_rare_and_long_ones_may_not() {
        let misses = |figures: &CampaignFigures| {
            figures.untested().iter().any(|text| text.starts_with("kill never met"))
        };
        let rare = part(1, STRUCK_RUNS - 1);
        assert!(!misses(&rare));
        assert!(misses(&part(1, STRUCK_RUNS)));
        // However often it struck in few runs.
        let often = BTreeMap::from([("kill".to_owned(), 100 * STRUCK_RUNS)]);
        assert!(!misses(&CampaignFigures { faults: often, ..rare.clone() }));
        assert!(misses(&CampaignFigures { seeds: COMPLETE_SEEDS, ..rare }));
    }

    #[test]
    fn runs_count_once_however_often_a_fault_struck() {
        let mut coverage = Coverage::default();
        (0..3).for_each(|_| coverage.fault("kill", &[]));
        let mut figures = CampaignFigures::default();
        (0..2).for_each(|_| figures.add_coverage(&coverage));
        assert_eq!((figures.faults["kill"], figures.struck_runs["kill"]), (6, 2));
    }
}
