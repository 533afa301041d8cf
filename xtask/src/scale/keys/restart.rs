//! How soon three members that were killed together answer again: after a million keys were loaded, and when the chain
//! of checkpoints is as long as it gets, just before a base takes its place.

use std::fs;
use std::path::Path;

use crate::measure::cluster::Cluster;
use crate::measure::generator::Load;
use crate::scale::bench::{Bench, RowFigures, told};
use crate::scale::promise::RowFigure;

const KEYS: u64 = 1_000_000;
const VALUE_BYTES: u64 = 256;

/// Restarts of each state; the median counts.
const RESTARTS: usize = 7;

/// The promise: seconds until all answer linearizable reads.
const SECONDS: f64 = 0.25;

/// A base is due when the deltas have twice its bytes: it is near when they have so many times as many.
const NEARLY_DUE: f64 = 1.7;

/// Puts between two looks at the deltas: as many as a checkpoint takes.
const PUTS: u64 = 100_000;

/// After so many looks the deltas should have grown enough; they grow by a tenth of the base each time.
const MAX_LOOKS: usize = 60;

pub(in crate::scale) fn run(bench: &Bench) -> RowFigures {
    let keys = bench.scaled(KEYS);
    let mut cluster = bench.start(3)?;
    bench.drive_all(&mut cluster, Load::fill(keys, VALUE_BYTES))?;
    let loaded = median(bench, &mut cluster)?;
    let mut part = deltas_to_base(&cluster)?;
    for _ in 0..MAX_LOOKS {
        if part >= NEARLY_DUE {
            break;
        }
        let puts = bench.scaled(PUTS);
        let line = format!("put --key-space-size={keys} --total={puts} --val-size={VALUE_BYTES}");
        bench.drive_all(&mut cluster, Load::ours(&format!("{line} --conns=100 --clients=1000")))?;
        part = deltas_to_base(&cluster)?;
    }
    if part < NEARLY_DUE {
        return Err(format!("the deltas came to {part:.2} of the base, not to {NEARLY_DUE}").into());
    }
    let before_base = median(bench, &mut cluster)?;
    Ok(vec![
        RowFigure::at_most("restart of three members, median of seven", loaded, "s", SECONDS),
        RowFigure::at_most("the same before a base is due", before_base, "s", SECONDS),
        RowFigure::new("deltas, part of the base, then", part, ""),
    ])
}

/// Seconds that a restart takes.
fn median(bench: &Bench, cluster: &mut Cluster) -> Result<f64, String> {
    let mut all = Vec::new();
    for _ in 0..RESTARTS {
        all.push(told(bench.restart(cluster)?.p50_ms, "time")? / 1000.0);
    }
    all.sort_by(f64::total_cmp);
    Ok(all[RESTARTS / 2])
}

/// Bytes of the first member's deltas, as a part of those of its base.
fn deltas_to_base(cluster: &Cluster) -> Result<f64, String> {
    let folders = cluster.data_folders();
    let folder = folders.first().ok_or("a cluster has members")?.join("member/checkpoint");
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let (mut base, mut deltas) = (0, 0);
    for item in fs::read_dir(&folder).map_err(failed)? {
        let path = item.map_err(failed)?.path();
        // A merge may have removed it.
        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        match extension(&path) {
            Some("base") => base += bytes,
            Some("delta") => deltas += bytes,
            _ => {}
        }
    }
    Ok(if base > 0 { deltas as f64 / base as f64 } else { 0.0 })
}

fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(|extension| extension.to_str())
}
