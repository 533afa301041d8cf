//! The page: the table and a pair of plots for each row, in one file that needs no other.

use super::chart;
use super::figures::Run;
use super::table;

const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}\
    td,th{padding:2px 10px;text-align:right;white-space:nowrap}td:first-child,th:first-child{text-align:left}\
    tr:nth-child(3n){border-bottom:1px solid #ccc}.doubt{color:#b00}";

/// The whole page as HTML.
pub(super) fn render(run: &Run) -> Result<String, String> {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page += &format!("<title>Comparison</title><style>{STYLE}</style></head><body>\n<h1>Comparison</h1>\n");
    for system in &run.systems {
        page += &format!("<p>{}: {}</p>\n", system.name, escape(&system.version));
    }
    page += &format!("<p>{}</p>\n", escape(&run.machine.to_string()));
    page += &format!("<p>{} members, {} rounds, scale {}</p>\n", run.members, run.rounds, run.scale);
    for doubt in &run.doubts {
        page += &format!("<p class=\"doubt\">not valid: {}</p>\n", escape(doubt));
    }
    page += &format!("<table>\n<thead>{}</thead>\n<tbody>\n", line(&table::header(), "th"));
    for cells in table::lines(run) {
        page += &line(&cells, "td");
    }
    page += "</tbody></table>\n";
    for row in &run.rows {
        page += &format!("<h2>{}</h2>\n", escape(&row.title));
        for plot in [chart::throughput(run, row)?, chart::latencies(run, row)?].into_iter().flatten() {
            page += &plot;
        }
    }
    page += "</body></html>\n";
    Ok(page)
}

fn line(cells: &[String], tag: &str) -> String {
    let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
    format!("<tr>{cells}</tr>\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
