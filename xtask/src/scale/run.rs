//! One run: the rows in turn, the table and the raw figures.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::bench::{Bench, Missing};
use super::promise::RowFigure;
use super::rows::ScaleRow;
use crate::command::Outcome;
use crate::measure::figures::MAX_FOREIGN;
use crate::measure::machine::Machine;
use crate::measure::report;

/// Everything that the reports show.
#[derive(Serialize)]
pub(super) struct ScaleRun {
    machine: Machine,
    version: String,
    factor: f64,
    rows: Vec<RowResult>,
    /// Why the run is not valid; empty when it is.
    doubts: Vec<String>,
}

#[derive(Default, Serialize)]
struct RowResult {
    row: &'static str,
    title: &'static str,
    seconds: f64,
    figures: Vec<RowFigure>,
    skipped: Option<String>,
    failed: Option<String>,
    /// The greatest part of the machine that others used during a load, 0 to 1.
    foreign: f64,
}

/// Runs the rows in turn. The raw figures are written after each: a long run that is interrupted loses one row.
pub(super) fn all(bench: &Bench, rows: &[&ScaleRow], json: Option<&Path>) -> Result<ScaleRun, String> {
    let version = bench.system.version.clone();
    let mut run =
        ScaleRun { machine: Machine::read(), version, factor: bench.factor, rows: vec![], doubts: vec![] };
    for row in rows {
        eprintln!("{}: {}", row.name, row.title);
        let result = one(bench, row);
        eprintln!("{}", report::table(header(), lines(&result), LEFT_COLUMNS));
        run.rows.push(result);
        run.doubts = doubts(bench.factor, &run.rows);
        if let Some(path) = json {
            report::write_json(path, &run)?;
        }
    }
    Ok(run)
}

fn one(bench: &Bench, row: &ScaleRow) -> RowResult {
    bench.foreign.set(0.0);
    let begin = Instant::now();
    let outcome = row.run(bench);
    let seconds = begin.elapsed().as_secs_f64();
    let mut result = RowResult { row: row.name, title: row.title, seconds, ..RowResult::default() };
    result.foreign = bench.foreign.get();
    match outcome {
        Ok(figures) => result.figures = figures,
        Err(Missing::Skipped(reason)) => result.skipped = Some(reason),
        Err(Missing::Failed(error)) => result.failed = Some(error),
    }
    result
}

/// Prints the table and says whether the run is valid. A promise that is not kept does not make it invalid.
pub(super) fn show(run: &ScaleRun) -> Outcome {
    let all = run.rows.iter().flat_map(lines).collect();
    println!("{}\n{}", run.version, report::table(header(), all, LEFT_COLUMNS));
    println!("{}", run.machine);
    for RowResult { row, skipped, .. } in &run.rows {
        skipped.iter().for_each(|reason| println!("{row} was skipped: {reason}"));
    }
    let promises = || run.rows.iter().flat_map(|row| &row.figures).filter_map(|figure| figure.is_kept);
    println!("{} of {} promises kept", promises().filter(|kept| *kept).count(), promises().count());
    report::verdict(&run.doubts)
}

/// Row and what is measured.
const LEFT_COLUMNS: usize = 2;

fn header() -> Vec<String> {
    ["row", "what", "measured", "promised", "ok"].map(str::to_owned).to_vec()
}

/// A line for each figure, or one that says that there is none; why is too long for a table.
fn lines(result: &RowResult) -> Vec<Vec<String>> {
    let none = |what: &str| [result.row, what, "", "", ""].map(str::to_owned).to_vec();
    if result.skipped.is_some() {
        return vec![none("skipped")];
    }
    if result.failed.is_some() {
        return vec![none("failed")];
    }
    let name = |number: usize| if number == 0 { result.row.to_owned() } else { String::new() };
    let line = |(number, figure): (usize, &RowFigure)| [vec![name(number)], figure.cells()].concat();
    result.figures.iter().enumerate().map(line).collect()
}

/// Why a run is not to be trusted.
fn doubts(factor: f64, rows: &[RowResult]) -> Vec<String> {
    let mut doubts = Vec::new();
    if factor < 1.0 {
        doubts.push(format!("made at factor {factor}"));
    }
    for RowResult { row, failed, foreign, .. } in rows {
        doubts.extend(failed.iter().map(|error| format!("{row} failed: {error}")));
        if *foreign > MAX_FOREIGN {
            doubts.push(format!("{row}: others used {:.0} % of the machine", foreign * 100.0));
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(figures: Vec<RowFigure>) -> RowResult {
        RowResult { row: "a", figures, ..RowResult::default() }
    }

    #[test]
    fn a_row_is_named_once_and_says_that_it_has_no_figures() {
        let two = result(vec![RowFigure::at_most("x", 2.0, "s", 1.0), RowFigure::new("y", 3.0, "")]);
        assert_eq!(lines(&two), [["a", "x", "2 s", "<= 1 s", "NO"], ["", "y", "3", "", ""]]);
        let skipped = RowResult { skipped: Some("no root".to_owned()), ..result(vec![]) };
        assert_eq!(lines(&skipped), [["a", "skipped", "", "", ""]]);
        let failed = RowResult { failed: Some("it ended\nits log".to_owned()), ..result(vec![]) };
        assert_eq!(lines(&failed), [["a", "failed", "", "", ""]]);
    }

    #[test]
    fn a_quick_look_a_failure_and_others_make_a_run_invalid() {
        assert!(doubts(1.0, &[result(vec![RowFigure::at_most("x", 2.0, "s", 1.0)])]).is_empty());
        let failed = RowResult { failed: Some("gone".to_owned()), ..result(vec![]) };
        let disturbed = RowResult { foreign: 0.2, ..result(vec![]) };
        let skipped = RowResult { skipped: Some("no root".to_owned()), ..result(vec![]) };
        let all = doubts(0.1, &[failed, disturbed, skipped]);
        assert_eq!(all, ["made at factor 0.1", "a failed: gone", "a: others used 20 % of the machine"]);
    }
}
