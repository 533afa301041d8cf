//! The table that a terminal shows.

use super::figures::{COLUMNS, Cell, Run};
use crate::measure::report::{self, number};

/// Two lines for each row, one for each system, and one with the ratios of the first to the second.
pub(super) fn render(run: &Run) -> String {
    let table = report::table(header(), lines(run), 2);
    let names = run.labels();
    let rounds = format!(
        "{} members, {} rounds, load by {}, medians ± half the spread",
        run.members, run.rounds, run.generator
    );
    format!("{}\n{rounds}; CPU and bytes are of all members, a request\n{table}", names.join("\n"))
}

/// The titles of the columns.
fn header() -> Vec<String> {
    let columns = COLUMNS.iter().map(|column| column.title);
    ["row", "system"].into_iter().chain(columns).map(str::to_owned).collect()
}

/// The lines below the header.
pub(super) fn lines(run: &Run) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    let labels = run.labels();
    for row in &run.rows {
        let cells = |index: usize| -> Vec<Option<Cell>> {
            COLUMNS.iter().map(|column| run.cell(row, &run.systems[index], column)).collect()
        };
        let (first, second) = (cells(0), cells(1));
        let title = |name: &str, system: &str| vec![name.to_owned(), system.to_owned()];
        let mut line = title(&row.title, &labels[0]);
        line.extend(first.iter().map(|cell| text(*cell)));
        lines.push(line);
        let mut line = title("", &labels[1]);
        line.extend(second.iter().map(|cell| text(*cell)));
        lines.push(line);
        let mut line = title("", "ratio");
        line.extend(first.iter().zip(&second).map(|(first, second)| ratio(*first, *second)));
        lines.push(line);
    }
    lines
}

fn text(cell: Option<Cell>) -> String {
    let Some(Cell { median, spread }) = cell else { return String::new() };
    format!("{} ±{:.0}%", number(median), spread * 100.0)
}

fn ratio(first: Option<Cell>, second: Option<Cell>) -> String {
    let parts = first.zip(second).filter(|(_, second)| second.median != 0.0);
    parts.map_or_else(String::new, |(first, second)| number(first.median / second.median))
}
