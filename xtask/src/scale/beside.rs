//! Puts beside requests that touch much, one or many at once, on three members: how long the slowest put waits.

use super::bench::{Bench, RowFigures, told};
use super::promise::RowFigure;
use crate::measure::cluster::Cluster;
use crate::measure::generator::Load;
use crate::measure::metrics::LEADER_CHANGES;

const MEMBERS: usize = 3;

/// So few that the members have time for them, and what they take longer is due to the request alone.
const PUTS_A_SECOND: u64 = 2_000;

/// Puts that are made at least: of ten seconds.
const MIN_PUTS: u64 = 10 * PUTS_A_SECOND;

/// Bytes of each value.
const VALUE_BYTES: u64 = 256;

/// The same below the nested ranges, which answer 148 million of them: larger ones would fill the memory of most
/// machines before anything else is learned.
const NESTED_VALUE_BYTES: u64 = 8;

/// From the first grant until all leases expire: time enough to grant 100,000.
const EXPIRY_SECONDS: u64 = 30;

/// What runs beside the puts; `load put --while` has the same names. All but `Compares` are one request.
#[derive(Clone, Copy)]
pub(super) enum Request {
    Delete,
    Expire,
    Txn,
    Compares,
    List,
}

/// One row.
#[derive(Clone, Copy)]
pub(super) struct Beside {
    pub(super) request: Request,
    /// What it touches: keys, or leases.
    pub(super) count: u64,
    /// The promise about the slowest put, in seconds.
    pub(super) worst: Option<f64>,
}

impl Beside {
    pub(super) fn run(self, bench: &Bench) -> RowFigures {
        let count = bench.scaled(self.count);
        let mut cluster = bench.start(MEMBERS)?;
        let name = match self.request {
            Request::Delete | Request::List => {
                bench.drive_all(&mut cluster, Load::fill(count, VALUE_BYTES))?;
                if matches!(self.request, Request::List) { "list".to_owned() } else { "delete".to_owned() }
            }
            Request::Expire => format!("expire --ttl={EXPIRY_SECONDS}s"),
            Request::Txn => "txn".to_owned(),
            Request::Compares => "compares".to_owned(),
        };
        let rate = format!("--rate={PUTS_A_SECOND} --total={MIN_PUTS}");
        let bytes = match self.request {
            Request::Txn => NESTED_VALUE_BYTES,
            _ => VALUE_BYTES,
        };
        let sizes = format!("--key-space-size={count} --val-size={bytes}");
        let before = cluster.metric(LEADER_CHANGES)?;
        let load = Load::ours(&format!("put --conns=10 --clients=100 {rate} {sizes} --while={name}"));
        let figures = bench.drive(&mut cluster, load)?;
        if let Some(error) = &figures.first_error {
            eprintln!("{} puts failed, the first one: {error}", figures.errors);
        }
        let changes = leader_changes(&before, &cluster)?;
        let worst = told(figures.worst_ms, "latency")? / 1000.0;
        let slowest = "slowest put";
        Ok(vec![
            match self.worst {
                Some(bound) => RowFigure::at_most(slowest, worst, "s", bound),
                None => RowFigure::new(slowest, worst, "s"),
            },
            RowFigure::at_most("failed puts", figures.errors as f64, "", 0.0),
            RowFigure::at_most("leader changes", changes, "", 0.0),
            RowFigure::new("put p99", told(figures.p99_ms, "latency")?, "ms"),
            RowFigure::new("resident memory, peak of all members", told(figures.peak_mb, "peak")?, "MB"),
        ])
    }
}

/// Changes of leader since `before`, as the member saw them that saw most.
fn leader_changes(before: &[f64], cluster: &Cluster) -> Result<f64, String> {
    let after = cluster.metric(LEADER_CHANGES)?;
    Ok(before.iter().zip(after).map(|(before, after)| after - before).fold(0.0, f64::max))
}
