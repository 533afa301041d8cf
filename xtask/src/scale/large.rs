//! More data than memory in a lone member that may open few files.
//!
//! After 40 GB were written at once, the disk of a virtual machine may stand still for half a second now and then, for
//! all processes. So the row waits until it is calm, and a probe beside each load tells what the disk alone took.

use std::path::Path;
use std::process::Command;

use super::bench::{Bench, Missing, RowFigures, told};
use super::promise::RowFigure;
use crate::command;
use crate::measure::cluster::Cluster;
use crate::measure::disk_probe::{self, DiskProbe, ProbeTimes};
use crate::measure::figures::Figures;
use crate::measure::generator::Load;

/// Bytes of each value.
const VALUE_BYTES: u64 = 10_240;

/// All keys: 40 GB.
const KEYS: u64 = 4_000_000;

/// The keys that are put and read again: a gigabyte.
const HOT_KEYS: u64 = 100_000;

/// What a shell's default limits let a member open.
const OPEN_FILES: u64 = 1024;

/// Free space that is needed, as a part of the bytes of all values: what else lies on the disk meanwhile.
const SPACE_NEEDED: f64 = 1.25;

/// The promises: start in seconds, and latencies as a part of those over the hot keys alone.
const START_SECONDS: f64 = 3.0;
const SLOWER: f64 = 1.5;

/// p99 in milliseconds, and what the disk alone took meanwhile.
struct Latencies {
    put: f64,
    get: f64,
    sync: ProbeTimes,
    read: ProbeTimes,
    /// Seconds until the disk was calm before.
    calm_after: f64,
}

pub(super) fn run(bench: &Bench) -> RowFigures {
    let (keys, hot) = (bench.scaled(KEYS), bench.scaled(HOT_KEYS));
    let needed = (keys * VALUE_BYTES) as f64 * SPACE_NEEDED;
    let free = free_bytes(&bench.folder)?;
    if (free as f64) < needed {
        let (needed, free) = (needed / 1e9, free as f64 / 1e9);
        return Err(Missing::Skipped(format!(
            "it needs {needed:.0} GB of disk, of which {free:.0} are free"
        )));
    }
    let mut cluster = Cluster::start(&bench.system, 1, &bench.site(Some(OPEN_FILES)))?;
    bench.drive_all(&mut cluster, Load::fill(hot, VALUE_BYTES))?;
    let small = latencies(bench, &mut cluster, hot)?;
    bench.drive_all(&mut cluster, Load::fill(keys, VALUE_BYTES))?;
    let large = latencies(bench, &mut cluster, hot)?;
    let (all_over, read) = beside_reads(bench, &mut cluster, gets(bench, keys))?;
    let resident = told(all_over.resident_mb, "memory")?;
    let start = told(bench.restart(&mut cluster)?.p50_ms, "time")? / 1000.0;
    Ok(vec![
        RowFigure::at_most("start", start, "s", START_SECONDS),
        RowFigure::at_most("put p99, part of that at 1 GB", large.put / small.put, "", SLOWER),
        RowFigure::at_most("get p99, part of that at 1 GB", large.get / small.get, "", SLOWER),
        RowFigure::new("put p99", large.put, "ms"),
        RowFigure::new("get p99", large.get, "ms"),
        RowFigure::new("get p50 all over", told(all_over.p50_ms, "latency")?, "ms"),
        RowFigure::new("get p99 all over", told(all_over.p99_ms, "latency")?, "ms"),
        RowFigure::new("resident memory", resident, "MB"),
        RowFigure::new("the disk was calm after", large.calm_after, "s"),
        RowFigure::new("syncs of the disk beside the puts, p99", large.sync.p99_ms, "ms"),
        RowFigure::new("the same at 1 GB", small.sync.p99_ms, "ms"),
        RowFigure::new("the slowest of them", large.sync.slowest_ms, "ms"),
        RowFigure::new("reads of the disk beside the gets, p99", large.read.p99_ms, "ms"),
        RowFigure::new("reads of the disk beside the gets all over, p99", read.p99_ms, "ms"),
    ])
}

/// Puts to and gets of the hot keys, so few that neither fills the machine.
fn latencies(bench: &Bench, cluster: &mut Cluster, hot: u64) -> Result<Latencies, Missing> {
    let total = bench.scaled(20_000);
    let sizes = format!("--key-space-size={hot} --val-size={VALUE_BYTES} --total={total}");
    let calm_after = disk_probe::wait_until_calm(cluster.folder())?.as_secs_f64();
    let probe = DiskProbe::of_writes(cluster.folder())?;
    let puts =
        bench.drive_all(cluster, Load::ours(&format!("put --conns=10 --clients=100 --rate=1000 {sizes}")))?;
    let sync = probe.end()?;
    let (gets, read) = beside_reads(bench, cluster, gets(bench, hot))?;
    let (put, get) = (told(puts.p99_ms, "latency")?, told(gets.p99_ms, "latency")?);
    Ok(Latencies { put, get, sync, read, calm_after })
}

/// Runs a load, and reads from the same disk meanwhile.
fn beside_reads(bench: &Bench, cluster: &mut Cluster, load: Load) -> Result<(Figures, ProbeTimes), Missing> {
    let data = cluster.data_folders();
    let data = data.first().ok_or_else(|| "the cluster has no member".to_owned())?;
    let probe = DiskProbe::of_reads(data)?;
    let figures = bench.drive_all(cluster, load)?;
    Ok((figures, probe.end()?))
}

/// Gets of random keys among the first `keys`.
fn gets(bench: &Bench, keys: u64) -> Load {
    let total = bench.scaled(60_000);
    Load::ours(&format!("get --conns=10 --clients=100 --rate=3000 --key-space-size={keys} --total={total}"))
}

/// Bytes that are free on the disk of `folder`.
fn free_bytes(folder: &Path) -> Result<u64, String> {
    parse_df(&command::output(Command::new("df").args(["--block-size=1", "--output=avail"]).arg(folder))?)
}

/// The number below the header that `df` prints.
fn parse_df(text: &str) -> Result<u64, String> {
    let line = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
    line.ok_or_else(|| format!("df printed no number: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn df_prints_a_header_and_a_number() {
        assert_eq!(parse_df("       Avail\n 75161927680\n"), Ok(75_161_927_680));
        assert!(parse_df("Avail\n-\n").is_err());
        assert!(parse_df("").is_err());
    }
}
