//! Shrinks the fault schedule of a failing run: leaves out faults as long as the same check fails.
//!
//! ```text
//! 8 faults   a b c d e f g h   fails
//! without    a b c d           passes: keep them
//! without            e f g h   fails:  a b c d
//! without    a b               fails:      c d
//! without        c             passes, without d: fails        -> fault c alone
//! ```

use super::run::run_seed;
use crate::report::trace::RunReport;
use crate::simulation::state::RunSettings;

/// Most runs of one shrink.
const MAX_RUNS: usize = 400;

/// A smaller schedule that fails in the same check: the indices of its faults, and the report.
pub(super) fn shrink(seed: u64, settings: &RunSettings) -> Option<(Vec<usize>, RunReport)> {
    let first = run_seed(seed, settings);
    let check = first.violation.as_ref()?.check;
    let mut kept: Vec<usize> = settings.faults.clone().unwrap_or_else(|| (0..first.faults).collect());
    let mut best = first;
    let mut runs = 0;
    let mut chunk = kept.len().div_ceil(2);
    while chunk > 0 && runs < MAX_RUNS {
        let mut at = 0;
        while at < kept.len() && runs < MAX_RUNS {
            let without: Vec<usize> = kept
                .iter()
                .enumerate()
                .filter(|(i, _)| *i < at || *i >= at + chunk)
                .map(|(_, f)| *f)
                .collect();
            let tried = run_seed(seed, &RunSettings { faults: Some(without.clone()), ..settings.clone() });
            runs += 1;
            if tried.violation.as_ref().is_some_and(|violation| violation.check == check) {
                kept = without;
                best = tried;
            } else {
                at += chunk;
            }
        }
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
    Some((kept, best))
}
