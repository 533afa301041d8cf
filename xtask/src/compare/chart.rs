//! Plots as SVG: what a row's latencies look like, and throughputs side by side.

use plotters::prelude::*;

use super::figures::{COLUMNS, Column, RowName, Run};

const SIZE: (u32, u32) = (460, 260);

/// Space above the greatest value, for the legend.
const HEADROOM: f64 = 1.4;

const COLOURS: [RGBColor; 2] = [RGBColor(31, 119, 180), RGBColor(214, 39, 40)];

/// Percentiles against milliseconds, both systems; nothing when the row has none.
pub(super) fn latencies(run: &Run, row: &RowName) -> Result<Option<String>, String> {
    let lines = each_system(run, row, |column| column.title.ends_with(" ms"));
    let greatest = lines.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
    if lines.iter().all(|line| line.len() < 2) {
        return Ok(None);
    }
    draw(run, "latency, ms", &["p50", "p99", "p99.9"], greatest, &lines, false).map(Some)
}

/// Requests a second, both systems; nothing when the row has none.
pub(super) fn throughput(run: &Run, row: &RowName) -> Result<Option<String>, String> {
    let bars = each_system(run, row, |column| column.title == "per s");
    let greatest = bars.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
    if greatest == 0.0 {
        return Ok(None);
    }
    draw(run, "requests a second", &["a, b"], greatest, &bars, true).map(Some)
}

/// For each system, the medians of some columns with their numbers.
fn each_system(run: &Run, row: &RowName, wanted: impl Fn(&Column) -> bool) -> Vec<Vec<(usize, f64)>> {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| wanted(column)).collect();
    let values = |system| {
        let cell =
            |(number, column): (usize, &&Column)| Some((number, run.cell(row, system, column)?.median));
        columns.iter().enumerate().filter_map(cell).collect()
    };
    run.systems.iter().map(values).collect()
}

fn draw(
    run: &Run,
    title: &str,
    labels: &[&str],
    greatest: f64,
    values: &[Vec<(usize, f64)>],
    bars: bool,
) -> Result<String, String> {
    let mut svg = String::new();
    let failed = |error: &dyn std::fmt::Display| format!("cannot draw {title}: {error}");
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let right = labels.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 16))
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..right, 0.0..greatest * HEADROOM)
            .map_err(|error| failed(&error))?;
        let label = |x: &f64| labels.get((x - 0.5).round() as usize).map_or("", |label| *label).to_owned();
        let centred = |x: &f64| if (x.fract() - 0.5).abs() < 0.01 { label(x) } else { String::new() };
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().x_labels(2 * labels.len() + 1).x_label_formatter(&centred);
        mesh.draw().map_err(|error| failed(&error))?;
        for (number, (line, system)) in values.iter().zip(&run.systems).enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let drawn = if bars {
                let left = number as f64 / 2.0 + 0.1;
                let bar = |(_, value): &(usize, f64)| {
                    Rectangle::new([(left, 0.0), (left + 0.3, *value)], colour.filled())
                };
                chart.draw_series(line.iter().map(bar))
            } else {
                let points = line.iter().map(|(index, value)| (*index as f64 + 0.5, *value));
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))
            };
            let legend = move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled());
            drawn.map_err(|error| failed(&error))?.label(system.name).legend(legend);
        }
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::UpperLeft).border_style(BLACK.mix(0.3));
        legend.draw().map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(svg)
}
