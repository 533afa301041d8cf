//! The page: an overview of all ratios, then figures and plots of each row, in one file that needs no other.

use plots::Page;

use super::chart;
use super::figures::{COLUMNS, Column, RowName, Run};
use crate::measure::report::number;

/// The columns of the overview.
const OVERVIEW: [&str; 5] = ["per s", "p50 ms", "p99 ms", "CPU us", "peak MB"];

/// The whole page as HTML.
pub(super) fn render(run: &Run) -> Result<String, String> {
    let labels = run.labels();
    let mut page = Page::new(&format!("{} and {}", labels[0], labels[1]));
    page.paragraph(&run.machine.to_string());
    page.paragraph(&format!(
        "{} members, {} rounds, scale {}, load by {}; medians, ± half the spread; CPU and bytes are of all members, a \
         request",
        run.members, run.rounds, run.scale, run.generator
    ));
    run.doubts.iter().for_each(|doubt| page.doubt(&format!("not valid: {doubt}")));
    page.heading(&format!("{} as a multiple of {}", labels[0], labels[1]));
    overview(&mut page, run);
    for row in &run.rows {
        page.heading(&row.title);
        figures(&mut page, run, row, &labels);
        page.plots(&chart::all(run, row)?);
    }
    Ok(page.finish())
}

fn overview(page: &mut Page, run: &Run) {
    let columns: Vec<&Column> =
        OVERVIEW.iter().filter_map(|title| COLUMNS.iter().find(|column| column.title == *title)).collect();
    let titles = columns.iter().map(|column| column.title.to_owned());
    page.table_header(&[String::from("row")].into_iter().chain(titles).collect::<Vec<_>>());
    for row in &run.rows {
        page.cell(&row.title);
        for column in &columns {
            let median = |index: usize| Some(run.cell(row, &run.systems[index], column)?.median);
            page.ratio(median(0).zip(median(1)), column.more_is_better);
        }
        page.end_row();
    }
    page.end_table();
}

fn figures(page: &mut Page, run: &Run, row: &RowName, labels: &[String]) {
    let header = ["figure", &labels[0], &labels[1], "ratio"].map(str::to_owned);
    page.table_header(&header);
    for column in COLUMNS {
        let cells = [0, 1].map(|index: usize| run.cell(row, &run.systems[index], column));
        if cells.iter().all(Option::is_none) {
            continue;
        }
        page.cell(column.title);
        for cell in cells {
            match cell {
                Some(cell) => page.cell_with(&number(cell.median), &format!("±{:.0}%", cell.spread * 100.0)),
                None => page.cell(""),
            }
        }
        let medians = cells.map(|cell| cell.map(|cell| cell.median));
        page.ratio(medians[0].zip(medians[1]), column.more_is_better);
        page.end_row();
    }
    page.end_table();
}
