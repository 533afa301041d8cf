//! Many runs: a range of seeds, or as many as fit into some time; and one run with one of the deliberate defects after
//! another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cluster::{Cluster, Settings};
use crate::defects::Defect;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::report::{RunReport, Violation};
use crate::shrink as cut;
use crate::workers;

/// Seeds between two lines of progress.
const PROGRESS_SEEDS: u64 = 25;

/// Runs a seed.
pub(crate) fn run_one(seed: u64, settings: &Settings) -> RunReport {
    guarded(Cluster::new(Plan::draw(seed), settings), Cluster::run)
}

/// Runs a cluster. A panic of the product is what broke, and what led to it is in the trace.
fn guarded(mut cluster: Cluster, run: impl FnOnce(&mut Cluster) -> Result<(), Violation>) -> RunReport {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut cluster)));
    let violation = match outcome {
        Ok(outcome) => outcome.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            let text = text.unwrap_or_else(|| "of no known sort".to_owned());
            Some(Violation { check: "no panic", text })
        }
    };
    cluster.report(violation)
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
            faults_line(&report)
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

fn faults_line(report: &RunReport) -> String {
    let mut figures = Figures::default();
    figures.add_run(report);
    figures.faults_line()
}

/// Runs seeds from `first` on, on `jobs` threads, while `more` says so: it gets the number of runs begun so far.
/// `progress` hears of the figures now and then, and last of all when they are complete.
///
/// # Errors
/// The failure with the lowest seed, as text. Runs under way are brought to their end first.
pub fn run_seeds(
    first: u64,
    jobs: usize,
    mut more: impl FnMut(u64) -> bool + Send,
    mut progress: impl FnMut(&Figures),
) -> Result<Figures, String> {
    let mut figures = Figures::new(commit());
    let mut failed: Option<RunReport> = None;
    let (stop, mut begun) = (AtomicBool::new(false), 0);
    let next = || {
        let goes_on = !stop.load(Ordering::Relaxed) && more(begun);
        begun += u64::from(goes_on);
        goes_on.then(|| first + begun - 1)
    };
    let done = |report: RunReport| {
        if report.violation.is_none() {
            figures.add_run(&report);
            if figures.seeds.is_multiple_of(PROGRESS_SEEDS) {
                progress(&figures);
            }
            return;
        }
        stop.store(true, Ordering::Relaxed);
        if failed.as_ref().is_none_or(|known| report.seed < known.seed) {
            failed = Some(report);
        }
    };
    workers::run(jobs, next, |seed| run_one(seed, &Settings::default()), done);
    progress(&figures);
    match failed.and_then(|report| report.failure_text(&commit())) {
        Some(text) => Err(format!("{text}\n{}", figures.summary())),
        None => Ok(figures),
    }
}

/// A defect, and if it was noticed, within how many seeds and by which check.
pub type Noticed = (Defect, Option<(u64, &'static str)>);

/// For each defect, runs seeds from 1 on until it is noticed, at most `max_seeds`.
pub fn run_defects(defects: &[Defect], jobs: usize, max_seeds: u64) -> Vec<Noticed> {
    let mut rest = defects.iter().copied();
    let mut found = Vec::new();
    let notice = |defect| {
        let settings = Settings { defect: Some(defect), ..Settings::default() };
        let mut noticed = (1..=max_seeds).map(|seed| (seed, run_one(seed, &settings).violation));
        (defect, noticed.find_map(|(seed, violation)| Some((seed, violation?.check))))
    };
    workers::run(jobs, move || rest.next(), notice, |noticed: Noticed| found.push(noticed));
    found.sort_by_key(|(defect, _)| Defect::ALL.iter().position(|known| known == defect));
    found
}

/// The commit that is checked out, as far as git can tell.
fn commit() -> String {
    let output = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let text = output.ok().filter(|output| output.status.success());
    let text = text.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "(unknown)".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    //! What a failure tells.
    use super::*;

    #[test]
    fn a_panic_shows_what_led_to_it() {
        let cluster = Cluster::new(Plan::draw(1), &Settings::default());
        let report = guarded(cluster, |cluster| {
            cluster.start(0)?;
            panic!("on purpose")
        });
        let text = report.failure_text("here").expect("it failed");
        assert!(text.contains("no panic: on purpose") && text.contains("m0 starts at index"), "{text}");
        assert!(text.contains("BROKEN no panic") && report.faults > 0, "{text}");
    }
}
