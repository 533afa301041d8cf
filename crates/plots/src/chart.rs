//! Plots of lines and bars as SVG.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

const SIZE: (u32, u32) = (560, 320);

/// Space above the greatest value, for the legend; on a log axis, a factor.
const HEADROOM: f64 = 1.35;
const LOG_HEADROOM: f64 = 8.0;

/// Series beyond which the legend needs more of it.
const FEW_SERIES: usize = 3;

/// The least value that a log axis shows, as a part of the greatest.
const LOG_DEPTH: f64 = 1e-6;

/// Values beyond these are not drawn: the library looks forever for the steps of an axis whose end is infinite.
const MAX_VALUE: f64 = 1e20;
const MIN_GREATEST: f64 = 1e-12;

/// The percentages that an axis of percentiles names, and where the last of all requests stands on it.
const NAMED: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];
const LAST: f64 = 6.0;

/// Colours that stay apart for most who do not see all of them.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(0, 130, 90),
    RGBColor(230, 140, 0),
    RGBColor(120, 60, 170),
    RGBColor(90, 90, 90),
];

/// What the horizontal axis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As the numbers are.
    Linear,
    /// Percentages, each nine as wide as the one before: 90, 99, 99.9.
    Percentile,
    /// Each series is one bar at its number.
    Bars,
}

/// Points with a name.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

impl Series {
    /// Points in the order of the horizontal axis.
    #[must_use]
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), points }
    }
}

/// A plot without its series.
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    across: String,
    scale: Scale,
    log: bool,
}

/// What both axes show.
struct Extent {
    right: f64,
    bottom: f64,
    top: f64,
}

impl Chart {
    /// A plot with a title, and what its horizontal axis shows.
    #[must_use]
    pub fn new(title: &str, across: &str, scale: Scale) -> Self {
        Self { title: title.to_owned(), across: across.to_owned(), scale, log: false }
    }

    /// The vertical axis grows by factors of ten.
    #[must_use]
    pub fn log_values(mut self) -> Self {
        self.log = true;
        self
    }

    /// Draws it; nothing when no series has a value above 0 that can be drawn.
    ///
    /// # Errors
    /// The library refuses it.
    pub fn draw(&self, series: &[Series]) -> Result<Option<String>, String> {
        let series: Vec<Series> = series.iter().map(|series| self.placed(series)).collect();
        let values = || series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
        let greatest = values().fold(0.0, f64::max);
        if greatest < MIN_GREATEST {
            return Ok(None);
        }
        let least = values().filter(|value| *value > 0.0).fold(greatest, f64::min).max(greatest * LOG_DEPTH);
        let right = series.iter().flat_map(|series| &series.points).map(|(at, _)| *at).fold(0.0, f64::max);
        let extent = Extent {
            right: match self.scale {
                Scale::Percentile => LAST,
                Scale::Bars => series.len() as f64,
                Scale::Linear if right > 0.0 => right,
                Scale::Linear => 1.0,
            },
            bottom: if self.log { (least * 0.8).log10() } else { 0.0 },
            top: match self.log {
                true if series.len() > FEW_SERIES => (greatest * LOG_HEADROOM.powi(2)).log10(),
                true => (greatest * LOG_HEADROOM).log10(),
                false => greatest * HEADROOM,
            },
        };
        let mut svg = String::new();
        self.plot(&series, &extent, &mut svg)
            .map_err(|error| format!("cannot draw {}: {error}", self.title))?;
        Ok(Some(svg))
    }

    /// The series as it stands on the axes.
    fn placed(&self, series: &Series) -> Series {
        let across = |at: f64| if self.scale == Scale::Percentile { nines(at) } else { at };
        let points = series.points.iter().map(|(at, value)| (across(*at), *value));
        // A log axis has no 0.
        let points = points.filter(|(_, value)| !self.log || *value > 0.0);
        let points = points.filter(|(at, value)| at.abs() <= MAX_VALUE && value.abs() <= MAX_VALUE);
        Series { name: series.name.clone(), points: points.collect() }
    }

    fn plot(
        &self,
        series: &[Series],
        extent: &Extent,
        svg: &mut String,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(if self.scale == Scale::Bars { 8 } else { 42 })
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..extent.right, extent.bottom..extent.top)?;
        self.mesh(&mut chart)?;
        for (number, series) in series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let up = |value: f64| if self.log { value.log10().max(extent.bottom) } else { value };
            let drawn = if self.scale == Scale::Bars {
                let left = number as f64;
                let bar = |(_, value): &(f64, f64)| {
                    Rectangle::new([(left + 0.2, extent.bottom), (left + 0.8, up(*value))], colour.filled())
                };
                chart.draw_series(series.points.iter().map(bar))?
            } else {
                let points = series.points.iter().map(|(at, value)| (*at, up(*value)));
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            };
            let legend = move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled());
            drawn.label(&series.name).legend(legend);
        }
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::UpperLeft).label_font(("sans-serif", 13));
        legend.background_style(WHITE.mix(0.85)).border_style(BLACK.mix(0.25)).draw()?;
        area.present()?;
        Ok(())
    }

    fn mesh(
        &self,
        chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let up = |value: &f64| label(if self.log { 10_f64.powf(*value) } else { *value });
        let percentile = |at: &f64| named_percentile(*at);
        let mut mesh = chart.configure_mesh();
        mesh.label_style(("sans-serif", 13)).light_line_style(WHITE).bold_line_style(BLACK.mix(0.12));
        mesh.y_labels(6).y_label_formatter(&up).x_desc(&self.across);
        match self.scale {
            Scale::Linear => mesh.x_labels(8),
            Scale::Percentile => mesh.x_labels(7).x_label_formatter(&percentile),
            Scale::Bars => mesh.disable_x_mesh().x_labels(0).x_desc(""),
        };
        mesh.draw()?;
        Ok(())
    }
}

/// Where a percentage stands: 90 at 1, 99 at 2, 99.9 at 3.
fn nines(percent: f64) -> f64 {
    let above = (1.0 - percent / 100.0).max(0.0);
    if above <= 0.0 { LAST } else { (-above.log10()).min(LAST) }
}

fn named_percentile(at: f64) -> String {
    let near = |percent: &&f64| (nines(**percent) - at).abs() < 0.01;
    match NAMED.iter().find(near) {
        Some(percent) => format!("{percent}"),
        None if (at - LAST).abs() < 0.01 => "all".to_owned(),
        None => String::new(),
    }
}

/// A number at an axis: few digits, no exponents.
fn label(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 10.0 || size == 0.0 => 0,
        size if size >= 1.0 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    let plain = format!("{value:.digits$}");
    if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.').to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_is_as_wide_as_the_one_before() {
        let positions =
            [0.0, 90.0, 99.0, 99.9, 100.0].map(|percent| (nines(percent) * 100.0).round() / 100.0);
        assert_eq!(positions, [0.0, 1.0, 2.0, 3.0, 6.0]);
        assert_eq!([0.0, 1.0, 3.0, 6.0].map(named_percentile), ["0", "90", "99.9", "all"]);
    }

    #[test]
    fn plots_name_their_series_and_nothing_is_drawn_of_nothing() {
        let chart = Chart::new("latency, ms", "per cent", Scale::Percentile).log_values();
        let svg = chart.draw(&[Series::new("here", vec![(50.0, 1.0), (99.0, 20.0), (100.0, 0.0)])]);
        let svg = svg.expect("drawn").expect("something");
        assert!(svg.starts_with("<svg") && svg.contains("here") && svg.contains("99.9"));
        assert_eq!(chart.draw(&[Series::new("here", vec![(50.0, 0.0)])]), Ok(None));
        for value in [1e308, f64::INFINITY, f64::NAN, 1e-300] {
            assert_eq!(chart.draw(&[Series::new("here", vec![(50.0, value)])]), Ok(None));
        }
        let bars = Chart::new("requests a second", "", Scale::Bars);
        assert!(bars.draw(&[Series::new("a", vec![(0.0, 5.0)])]).expect("drawn").is_some());
    }

    #[test]
    fn numbers_at_an_axis_are_short() {
        assert_eq!([0.0, 0.05, 2.5, 20_000.0].map(label), ["0", "0.05", "2.5", "20000"]);
    }
}
