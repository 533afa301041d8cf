//! What every row needs: members to start, loads to drive, and the part of the machine that others used meanwhile.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use super::promise::RowFigure;
use crate::measure::access::Access;
use crate::measure::around;
use crate::measure::cluster::{Cluster, Site, System};
use crate::measure::figures::Figures;
use crate::measure::generator::Load;

/// The longest load, 40 GB, takes a quarter of this on a slow disk.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

/// The surroundings of all rows.
pub(super) struct Bench {
    pub(super) system: System,
    /// Where the load generators are.
    pub(super) tools: PathBuf,
    /// Where clusters make their folders.
    pub(super) folder: PathBuf,
    /// Multiplies keys, requests and leases; above 0, at most 1.
    pub(super) factor: f64,
    /// The greatest part of the machine that others used during one load of the row.
    pub(super) foreign: Cell<f64>,
}

/// Why a row has no figures.
#[derive(Debug, PartialEq)]
pub(super) enum Missing {
    /// This machine cannot run it.
    Skipped(String),
    Failed(String),
}

impl From<String> for Missing {
    fn from(error: String) -> Self {
        Self::Failed(error)
    }
}

/// What a row comes to.
pub(super) type RowFigures = Result<Vec<RowFigure>, Missing>;

impl Bench {
    /// `count` at this factor, but at least one.
    pub(super) fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.factor).round() as u64).max(1)
    }

    /// `time` at this factor, but at least `least`.
    pub(super) fn scaled_time(&self, time: Duration, least: Duration) -> Duration {
        time.mul_f64(self.factor).max(least)
    }

    /// Where members run that may open so many files; `None` is no limit of our own.
    pub(super) fn site(&self, open_files: Option<u64>) -> Site {
        let (folder, tools) = (self.folder.clone(), self.tools.clone());
        Site { folder, open_files, core: None, flags: Vec::new(), access: Access::default(), tools }
    }

    /// A fresh cluster of so many members.
    pub(super) fn start(&self, count: usize) -> Result<Cluster, String> {
        Cluster::start(&self.system, count, &self.site(None))
    }

    /// Runs a load, of which requests may fail. A member that ended meanwhile is named in the error.
    pub(super) fn drive(&self, cluster: &mut Cluster, load: Load) -> Result<Figures, String> {
        let load = Load { time_limit: TIME_LIMIT, ..load };
        let outcome = around::drive(cluster, &load, &self.tools);
        if let Some(end) = cluster.ended() {
            let error = outcome.err().unwrap_or_default();
            return Err(format!("{error}\n{end}").trim().to_owned());
        }
        let figures = outcome?;
        self.foreign.set(self.foreign.get().max(figures.foreign));
        Ok(figures)
    }

    /// Runs a load, of which no request may fail.
    pub(super) fn drive_all(&self, cluster: &mut Cluster, load: Load) -> Result<Figures, String> {
        let figures = self.drive(cluster, load)?;
        match figures.first_error {
            Some(error) => Err(format!("{} requests failed, the first one: {error}", figures.errors)),
            None => Ok(figures),
        }
    }

    /// Restarts all members after `kill -9`.
    pub(super) fn restart(&self, cluster: &mut Cluster) -> Result<Figures, String> {
        let figures = around::restart(cluster, Cluster::restart)?;
        self.foreign.set(self.foreign.get().max(figures.foreign));
        Ok(figures)
    }
}

/// A figure that the load must have told.
pub(super) fn told(figure: Option<f64>, what: &str) -> Result<f64, String> {
    figure.ok_or_else(|| format!("the load generator told no {what}"))
}
