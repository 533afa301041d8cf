//! What a sample holds, and medians and spreads over the rounds.

use serde::Serialize;

use crate::measure::figures::Figures;
use crate::measure::machine::Machine;

/// One comparison: everything that the reports show.
#[derive(Serialize)]
pub(super) struct Run {
    pub(super) machine: Machine,
    pub(super) members: usize,
    pub(super) rounds: usize,
    pub(super) scale: f64,
    /// Which load generator was used where there is a choice.
    pub(super) generator: &'static str,
    /// `a` and `b`.
    pub(super) systems: Vec<SystemName>,
    pub(super) rows: Vec<RowName>,
    pub(super) samples: Vec<Sample>,
    /// Why the run is not valid; empty when it is.
    pub(super) doubts: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct SystemName {
    pub(super) name: &'static str,
    pub(super) version: String,
}

#[derive(Serialize)]
pub(super) struct RowName {
    pub(super) name: String,
    pub(super) title: String,
}

/// A row run once by a system.
#[derive(Serialize)]
pub(super) struct Sample {
    pub(super) row: String,
    pub(super) system: &'static str,
    /// Counted from 1.
    pub(super) round: usize,
    pub(super) figures: Figures,
}

/// A column of the reports.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) of: fn(&Figures) -> Option<f64>,
    /// Whether a larger figure is a better one.
    pub(super) more_is_better: bool,
}

/// A column whose smaller figures are better.
const fn less(title: &'static str, of: fn(&Figures) -> Option<f64>) -> Column {
    Column { title, of, more_is_better: false }
}

pub(super) const COLUMNS: &[Column] = &[
    Column { title: "per s", of: |figures| figures.per_second, more_is_better: true },
    less("p50 ms", |figures| figures.p50_ms),
    less("p99 ms", |figures| figures.p99_ms),
    less("p99.9 ms", |figures| figures.p999_ms),
    less("CPU us", |figures| figures.cpu_us),
    less("client us", |figures| figures.client_cpu_us),
    less("resident MB", |figures| figures.resident_mb),
    less("peak MB", |figures| figures.peak_mb),
    less("written B", |figures| figures.written_bytes),
    less("disk MB", |figures| figures.disk_mb),
    less("errors", |figures| (figures.errors > 0).then_some(figures.errors as f64)),
];

impl Run {
    /// What the reports call the systems: what they say they are, such as `etcd 3.7.3`.
    pub(super) fn labels(&self) -> Vec<String> {
        let plain: Vec<String> =
            self.systems.iter().map(|system| system.version.replace(" Version:", "")).collect();
        let are_equal = plain.windows(2).any(|two| two[0] == two[1]);
        let label = |(system, plain): (&SystemName, &String)| {
            if are_equal { format!("{plain} ({})", system.name) } else { plain.clone() }
        };
        self.systems.iter().zip(&plain).map(label).collect()
    }

    /// The median of each percentile over the rounds, of those that every round tells.
    pub(super) fn percentiles(&self, row: &RowName, system: &SystemName) -> Vec<(f64, f64)> {
        let ours = |sample: &&Sample| sample.row == row.name && sample.system == system.name;
        let rounds: Vec<&Figures> = self.samples.iter().filter(ours).map(|sample| &sample.figures).collect();
        let Some(first) = rounds.first() else { return Vec::new() };
        let told = |figures: &Figures, wanted: f64| {
            figures.percentiles.iter().find(|(percent, _)| *percent == wanted).map(|(_, ms)| *ms)
        };
        let median = |(percent, _): &(f64, f64)| {
            let values: Option<Vec<f64>> = rounds.iter().map(|figures| told(figures, *percent)).collect();
            Some((*percent, Cell::of(values?)?.median))
        };
        first.percentiles.iter().filter_map(median).collect()
    }

    /// Median and spread of a column over the rounds of a row.
    pub(super) fn cell(&self, row: &RowName, system: &SystemName, column: &Column) -> Option<Cell> {
        let ours = |sample: &&Sample| sample.row == row.name && sample.system == system.name;
        Cell::of(self.samples.iter().filter(ours).filter_map(|sample| (column.of)(&sample.figures)).collect())
    }
}

/// The rounds of a figure, in one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) median: f64,
    /// Half the distance from least to greatest, as a part of the median.
    pub(super) spread: f64,
}

impl Cell {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let odd = values.len() % 2 == 1;
        let median = if odd { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        let spread = if median == 0.0 { 0.0 } else { (greatest - least) / 2.0 / median };
        Some(Self { median, spread })
    }
}
