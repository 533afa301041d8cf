//! The plots of a row: throughput, latencies, CPU and memory, both systems side by side.

use plots::{Chart, Scale, Series};

use super::figures::{COLUMNS, RowName, Run};

/// The figures that are drawn as bars, in their order, with the titles of their plots.
const BARS: [(&str, &str); 3] = [
    ("per s", "requests a second"),
    ("CPU us", "CPU of all members a request, us"),
    ("peak MB", "memory of all members at most, MB"),
];

/// The percentages of the columns that hold latencies.
const LATENCIES: [(&str, f64); 3] = [("p50 ms", 50.0), ("p99 ms", 99.0), ("p99.9 ms", 99.9)];

/// The plots of a row; those without figures are left out.
pub(super) fn all(run: &Run, row: &RowName) -> Result<Vec<String>, String> {
    let mut plots = Vec::new();
    plots.extend(bars(run, row, BARS[0])?);
    plots.extend(latencies(run, row)?);
    for bar in &BARS[1..] {
        plots.extend(bars(run, row, *bar)?);
    }
    Ok(plots)
}

fn bars(run: &Run, row: &RowName, (column, title): (&str, &str)) -> Result<Option<String>, String> {
    let value = |system| {
        let column = COLUMNS.iter().find(|known| known.title == column)?;
        Some((0.0, run.cell(row, system, column)?.median))
    };
    let labels = run.labels();
    let systems = run.systems.iter().zip(&labels);
    let series: Vec<Series> =
        systems.map(|(system, label)| Series::new(label, value(system).into_iter().collect())).collect();
    Chart::new(title, "", Scale::Bars).draw(&series)
}

/// Latency by percentile; of generators that tell few of them, what the columns hold.
fn latencies(run: &Run, row: &RowName) -> Result<Option<String>, String> {
    let labels = run.labels();
    let points = |system| {
        let told = run.percentiles(row, system);
        if !told.is_empty() {
            return told;
        }
        let of_column = |(title, percent): &(&str, f64)| {
            let column = COLUMNS.iter().find(|known| known.title == *title)?;
            Some((*percent, run.cell(row, system, column)?.median))
        };
        LATENCIES.iter().filter_map(of_column).collect()
    };
    let systems = run.systems.iter().zip(&labels);
    let series: Vec<Series> = systems.map(|(system, label)| Series::new(label, points(system))).collect();
    let chart = Chart::new("latency by percentile, ms", "per cent of the requests", Scale::Percentile);
    chart.log_values().draw(&series)
}
