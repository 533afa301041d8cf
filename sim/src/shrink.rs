//! Cuts the schedule of a failing run down: as long as it still fails in the same check, faults are left out.

use crate::campaign::run_one;
use crate::cluster::Settings;
use crate::report::RunReport;

/// Runs that a shrink may take.
const MAX_RUNS: usize = 400;

/// A smaller schedule that fails in the same check: the faults that are left, and the run.
pub(crate) fn shrink(seed: u64, settings: &Settings) -> Option<(Vec<usize>, RunReport)> {
    let first = run_one(seed, settings);
    let check = first.violation.as_ref()?.check;
    let mut kept: Vec<usize> = settings.keep.clone().unwrap_or_else(|| (0..first.faults).collect());
    let mut best = first;
    let mut runs = 0;
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 && runs < MAX_RUNS {
        let mut at = 0;
        while at < kept.len() && runs < MAX_RUNS {
            let without: Vec<usize> = kept
                .iter()
                .enumerate()
                .filter(|(i, _)| *i < at || *i >= at + piece)
                .map(|(_, f)| *f)
                .collect();
            let tried = run_one(seed, &Settings { keep: Some(without.clone()), ..settings.clone() });
            runs += 1;
            if tried.violation.as_ref().is_some_and(|violation| violation.check == check) {
                kept = without;
                best = tried;
            } else {
                at += piece;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    Some((kept, best))
}
