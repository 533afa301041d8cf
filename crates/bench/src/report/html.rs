//! The page: tables and plots of one result, or of two side by side.

use plots::{Chart, Page, Scale, Series};

use super::extra::number;
use super::file::utc;
use super::{Moment, Phase, RunReport};

/// Draws results; each has the name that the page shows, empty for a single one.
///
/// # Errors
/// A plot cannot be drawn.
pub(crate) fn render(results: &[(String, RunReport)]) -> Result<String, String> {
    let mut page = Page::new("Load report");
    for (name, result) in results {
        let server =
            if result.server.is_empty() { String::new() } else { format!(", server {}", result.server) };
        let who = if name.is_empty() { String::new() } else { format!("{name}: ") };
        page.paragraph(&format!("{who}{} ({}{server})", result.command, utc(result.unix_seconds)));
    }
    let count = results.iter().map(|(_, result)| result.phases.len()).max().unwrap_or(0);
    for number in 0..count {
        let phases: Vec<(&str, &Phase)> = results
            .iter()
            .filter_map(|(name, result)| Some((name.as_str(), result.phases.get(number)?)))
            .collect();
        phase(&mut page, &phases)?;
    }
    Ok(page.finish())
}

fn phase(page: &mut Page, phases: &[(&str, &Phase)]) -> Result<(), String> {
    let Some((_, first)) = phases.first() else { return Ok(()) };
    page.heading(&first.name);
    figures(page, phases);
    let mut plots = Vec::new();
    let mut draw = |chart: Chart, series: Vec<Series>| -> Result<(), String> {
        plots.extend(chart.draw(&series)?);
        Ok(())
    };
    let over_time = |value: fn(&Moment) -> f64, suffix: &str| -> Vec<Series> {
        let points = |phase: &Phase| {
            phase.moments.iter().map(|moment| (moment.second as f64, value(moment))).collect()
        };
        phases.iter().map(|(name, phase)| Series::new(&label(name, suffix), points(phase))).collect()
    };
    // The last second of a run is not whole.
    let whole = |phase: &Phase| phase.moments.len().saturating_sub(usize::from(phase.moments.len() > 1));
    let rates = |(name, phase): &(&str, &Phase)| {
        let points = phase.moments.iter().take(whole(phase));
        Series::new(
            &label(name, "requests"),
            points.map(|moment| (moment.second as f64, moment.requests as f64)).collect(),
        )
    };
    draw(Chart::new("requests a second", "seconds", Scale::Linear), phases.iter().map(rates).collect())?;
    let mut latencies = over_time(|moment| moment.p50_ms, "p50");
    latencies.extend(over_time(|moment| moment.p99_ms, "p99"));
    latencies.extend(over_time(|moment| moment.p999_ms, "p99.9"));
    draw(Chart::new("latency over time, ms", "seconds", Scale::Linear).log_values(), latencies)?;
    let by_percentile = |(name, phase): &(&str, &Phase)| {
        let points = phase.percentiles.iter().map(|[percent, ms]| (*percent, *ms)).collect();
        Series::new(&label(name, "latency"), points)
    };
    let chart = Chart::new("latency by percentile, ms", "per cent of the requests", Scale::Percentile);
    draw(chart.log_values(), phases.iter().map(by_percentile).collect())?;
    let used = |value: fn(&(f64, f64, f64)) -> f64| -> Vec<Series> {
        let points = |phase: &Phase| {
            let moments = phase.servers.iter().flat_map(|servers| &servers.moments);
            moments.map(|moment| (moment.0, value(moment))).collect()
        };
        phases.iter().map(|(name, phase)| Series::new(&label(name, "servers"), points(phase))).collect()
    };
    draw(Chart::new("CPUs in use by the servers", "seconds", Scale::Linear), used(|moment| moment.1))?;
    draw(
        Chart::new("resident memory of the servers, MB", "seconds", Scale::Linear),
        used(|moment| moment.2),
    )?;
    page.plots(&plots);
    Ok(())
}

fn label(name: &str, what: &str) -> String {
    if name.is_empty() { what.to_owned() } else { format!("{name}, {what}") }
}

/// One line for each figure; with two results, their ratio too.
fn figures(page: &mut Page, phases: &[(&str, &Phase)]) {
    type Figure = (&'static str, fn(&Phase) -> Option<f64>, bool);
    let all: [Figure; 12] = [
        ("requests a second", |phase| Some(phase.per_second), true),
        ("requests", |phase| Some(phase.requests as f64), true),
        ("errors", |phase| Some(phase.failed() as f64), false),
        ("p50, ms", |phase| Some(phase.percentile(50.0)), false),
        ("p90, ms", |phase| Some(phase.percentile(90.0)), false),
        ("p99, ms", |phase| Some(phase.percentile(99.0)), false),
        ("p99.9, ms", |phase| Some(phase.percentile(99.9)), false),
        ("slowest, ms", |phase| Some(phase.slowest_ms), false),
        ("CPU of the servers a request, us", |phase| Some(phase.servers.as_ref()?.cpu_us), false),
        ("memory of the servers, MB", |phase| Some(phase.servers.as_ref()?.resident_mb), false),
        ("memory of the servers at most, MB", |phase| Some(phase.servers.as_ref()?.peak_mb), false),
        ("CPU of the generator a request, us", |phase| phase.client_cpu_us, false),
    ];
    let compared = phases.len() == 2;
    let mut header = vec!["figure".to_owned()];
    header.extend(phases.iter().map(|(name, _)| if name.is_empty() { "value" } else { name }.to_owned()));
    if compared {
        header.push("ratio".to_owned());
    }
    page.table_header(&header);
    for (title, of, more_is_better) in all {
        let values: Vec<Option<f64>> = phases.iter().map(|(_, phase)| of(phase)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        page.cell(title);
        for value in &values {
            page.cell(&value.map_or_else(String::new, number));
        }
        if compared {
            page.ratio(values[0].zip(values[1]), more_is_better);
        }
        page.end_row();
    }
    page.end_table();
}
