//! Many keys in a lone member: what they take in memory, and how long a restart takes.
//!
//! `restart` does the same with three members that are killed together.

pub(super) mod restart;

use super::bench::{Bench, RowFigures, told};
use super::promise::RowFigure;
use crate::measure::figures::MEGABYTE;
use crate::measure::generator::Load;
use crate::measure::processes;

/// How the keys are named.
#[derive(Clone, Copy)]
pub(super) enum Names {
    /// Eight bytes, as etcd's load generator makes them.
    Short,
    /// 70 bytes with few beginnings.
    Kubernetes,
}

/// One row.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) names: Names,
    pub(super) keys: u64,
    pub(super) value_bytes: u64,
    /// The promise about resident memory, in bytes a key.
    pub(super) key_bytes: f64,
    /// The promises about a restart after `kill -9`.
    pub(super) restart: Option<Restart>,
}

#[derive(Clone, Copy)]
pub(super) struct Restart {
    /// Until the first linearizable read is answered.
    pub(super) seconds: f64,
    /// Resident memory after it, as a part of that before it.
    pub(super) resident: f64,
    /// The same of the peak meanwhile.
    pub(super) peak: f64,
}

impl Keys {
    pub(super) fn run(self, bench: &Bench) -> RowFigures {
        let keys = bench.scaled(self.keys);
        let mut cluster = bench.start(1)?;
        let empty = processes::usage(&cluster.pids())?.resident as f64 / MEGABYTE;
        let load = match self.names {
            Names::Short => Load::fill(keys, self.value_bytes),
            Names::Kubernetes => {
                let sizes = format!("--key-space-size={keys} --total={keys} --val-size={}", self.value_bytes);
                Load::ours(&format!("put --kubernetes --sequential --conns=100 --clients=1000 {sizes}"))
            }
        };
        let loaded = bench.drive_all(&mut cluster, load)?;
        let resident = told(loaded.resident_mb, "memory")?;
        let key_bytes = bytes_a_key(resident, empty, keys);
        let restarted = bench.restart(&mut cluster)?;
        let after = told(restarted.resident_mb, "memory")?;
        let above_empty = "resident memory a key, above that of an empty member";
        let mut figures = vec![
            RowFigure::at_most(above_empty, key_bytes, "B", self.key_bytes),
            RowFigure::new("the same after a restart", bytes_a_key(after, empty, keys), "B"),
            RowFigure::new("resident memory", resident, "MB"),
            RowFigure::new("resident memory of the empty member", empty, "MB"),
            RowFigure::new("loaded", told(loaded.per_second, "throughput")?, "/s"),
            RowFigure::new("CPU of a put", told(loaded.cpu_us, "CPU time")?, "us"),
        ];
        if let Some(promise) = self.restart {
            let peak = told(restarted.peak_mb, "peak")? / resident;
            let seconds = told(restarted.p50_ms, "time")? / 1000.0;
            figures.extend([
                RowFigure::at_most("restart", seconds, "s", promise.seconds),
                RowFigure::at_most(
                    "resident after it, part of before",
                    after / resident,
                    "",
                    promise.resident,
                ),
                RowFigure::at_most("peak meanwhile, part of before", peak, "", promise.peak),
            ]);
        }
        Ok(figures)
    }
}

/// What a key takes in memory, of two figures in megabytes.
fn bytes_a_key(resident: f64, empty: f64, keys: u64) -> f64 {
    (resident - empty) * MEGABYTE / keys as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_empty_member_takes_is_no_keys() {
        assert_eq!(bytes_a_key(944.0, 24.0, 10_000_000), 92.0);
    }
}
