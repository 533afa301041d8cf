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
}

pub(super) const COLUMNS: &[Column] = &[
    Column { title: "per s", of: |figures| figures.per_second },
    Column { title: "p50 ms", of: |figures| figures.p50_ms },
    Column { title: "p99 ms", of: |figures| figures.p99_ms },
    Column { title: "p99.9 ms", of: |figures| figures.p999_ms },
    Column { title: "CPU us", of: |figures| figures.cpu_us },
    Column { title: "client us", of: |figures| figures.client_cpu_us },
    Column { title: "resident MB", of: |figures| figures.resident_mb },
    Column { title: "peak MB", of: |figures| figures.peak_mb },
    Column { title: "written B", of: |figures| figures.written_bytes },
    Column { title: "disk MB", of: |figures| figures.disk_mb },
    Column { title: "errors", of: |figures| (figures.errors > 0).then_some(figures.errors as f64) },
];

impl Run {
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
