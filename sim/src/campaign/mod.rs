//! Runs seeds: one, a range on all cores, or each deliberate defect until it is noticed.

mod run;
mod shrink;
mod workers;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::defects::Defect;
use crate::report::figures::CampaignFigures;
use crate::report::trace::RunReport;
use crate::simulation::state::RunSettings;
use run::run_seed;

/// Seeds between two lines of progress.
const PROGRESS_SEEDS: u64 = 25;

/// Runs one seed, with some of its faults or all. Returns its trace hash and figures as text.
///
/// # Errors
/// The failure, as text.
pub fn replay(
    seed: u64,
    defect: Option<Defect>,
    faults: Option<Vec<usize>>,
    verbose: bool,
) -> Result<String, String> {
    let report = run_seed(seed, &RunSettings { defect, faults, verbose });
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

/// Shrinks the fault schedule of a failing seed.
///
/// # Errors
/// When the seed does not fail.
pub fn shrink_seed(seed: u64, defect: Option<Defect>) -> Result<String, String> {
    let settings = RunSettings { defect, ..RunSettings::default() };
    let (kept, report) =
        shrink::shrink(seed, &settings).ok_or_else(|| format!("seed {seed} does not fail"))?;
    let list = kept.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let text = report.failure_text(&commit()).unwrap_or_default();
    Ok(format!("{text}{} faults are left; repeat it with: --seed {seed} --faults {list:?}\n", kept.len()))
}

fn faults_line(report: &RunReport) -> String {
    let mut figures = CampaignFigures::default();
    figures.add_run(report);
    figures.faults_line()
}

/// Runs `seeds` on `jobs` threads, as long as `more` returns true for the number of runs begun so far.
/// `progress` is called with the figures every 25 seeds, and at the end.
///
/// # Errors
/// The failure with the lowest seed, as text, once the runs under way have ended.
pub fn run_seeds(
    mut seeds: impl Iterator<Item = u64> + Send,
    jobs: usize,
    mut more: impl FnMut(u64) -> bool + Send,
    mut progress: impl FnMut(&CampaignFigures),
) -> Result<CampaignFigures, String> {
    let mut figures = CampaignFigures::new(commit());
    let mut failed: Option<RunReport> = None;
    let (stop, mut begun) = (AtomicBool::new(false), 0);
    let next = || {
        let goes_on = !stop.load(Ordering::Relaxed) && more(begun);
        begun += u64::from(goes_on);
        if goes_on { seeds.next() } else { None }
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
    workers::run(jobs, next, |seed| run_seed(seed, &RunSettings::default()), done);
    progress(&figures);
    match failed.and_then(|report| report.failure_text(&commit())) {
        Some(text) => Err(format!("{text}\n{}", figures.summary())),
        None => Ok(figures),
    }
}

/// A defect; if it was noticed, after how many seeds and by which check. For a defect of permissions only seeds count
/// that have users.
pub type NoticedDefect = (Defect, Option<(u64, &'static str)>);

/// For each defect, runs its seeds from the first on until it is noticed, at most `max_seeds`.
pub fn run_defects(defects: &[Defect], jobs: usize, max_seeds: u64) -> Vec<NoticedDefect> {
    let mut rest = defects.iter().copied();
    let mut found = Vec::new();
    let notice = |defect: Defect| {
        let settings = RunSettings { defect: Some(defect), ..RunSettings::default() };
        let seeds = (1..=max_seeds).zip(defect.seeds());
        let mut noticed = seeds.map(|(count, seed)| (count, run_seed(seed, &settings).violation));
        (defect, noticed.find_map(|(count, violation)| Some((count, violation?.check))))
    };
    workers::run(jobs, move || rest.next(), notice, |noticed: NoticedDefect| found.push(noticed));
    found.sort_by_key(|(defect, _)| Defect::ALL.iter().position(|known| known == defect));
    found
}

/// The commit that is checked out, as git describes it.
fn commit() -> String {
    let output = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let text = output.ok().filter(|output| output.status.success());
    let text = text.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "(unknown)".to_owned(), |text| text.trim().to_owned())
}
