//! Random overwrites at full speed: how much space they leave behind.
//!
//! Example: 1,000 keys with values of 1,000 bytes are 1 MB of newest values. A data directory of 2.1 MB has the ratio
//! 2.1, whatever its other 1.1 MB are: old values, files allocated ahead, checkpoints.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::bench::{Bench, RowFigures, told};
use super::promise::{Promise, RowFigure};
use crate::measure::cluster::Cluster;
use crate::measure::figures::Figures;
use crate::measure::generator::Load;
use crate::measure::processes;

/// Between two compactions to the newest revision.
const COMPACT_SECONDS: u64 = 4;

/// Between two looks at the directory.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The ratio may be anything for so long, or for the first quarter of a shorter run.
const WARM_UP: Duration = Duration::from_secs(60);

/// How long after the end the directory is looked at again.
const REST: Duration = Duration::from_secs(60);

/// In a quick look.
const MIN_REST: Duration = Duration::from_secs(5);

/// One row.
#[derive(Clone, Copy)]
pub(super) struct Overwrites {
    pub(super) keys: u64,
    pub(super) value_bytes: u64,
    pub(super) puts: u64,
    /// The promise about the ratio at any moment after the warm-up.
    pub(super) running: f64,
    /// The promise about the ratio a minute after the end.
    pub(super) rested: f64,
    /// The promise about the throughput, as a part of that without compactions.
    pub(super) throughput: Option<f64>,
}

/// The directory at a time since the beginning of the load.
#[derive(Clone, Copy)]
struct SpaceSample {
    at: Duration,
    bytes: u64,
}

impl Overwrites {
    pub(super) fn run(self, bench: &Bench) -> RowFigures {
        let without = {
            let mut cluster = self.load(bench)?;
            bench.drive_all(&mut cluster, self.puts(bench, ""))?
        };
        let mut cluster = self.load(bench)?;
        let (figures, samples) = self.compacting(bench, &mut cluster)?;
        thread::sleep(bench.scaled_time(REST, MIN_REST));
        let newest = bench.scaled(self.keys) * self.value_bytes;
        let rested = ratio(cluster.disk(), newest);
        let running = greatest_ratio(&samples, newest).ok_or_else(|| "the load was too short".to_owned())?;
        let end = samples.last().map_or(0, |sample| sample.bytes);
        let (before, after) =
            (told(without.per_second, "throughput")?, told(figures.per_second, "throughput")?);
        let part = after / before;
        let throughput = "throughput, part of that without compactions";
        Ok(vec![
            RowFigure::at_most("space to newest values, greatest", running, "", self.running),
            RowFigure::at_most("the same a minute after the end", rested, "", self.rested),
            RowFigure::new("the same at the end", ratio(end, newest), ""),
            match self.throughput {
                Some(least) => RowFigure::promised(throughput, part, "", Promise::AtLeast(least)),
                None => RowFigure::new(throughput, part, ""),
            },
            RowFigure::new("throughput without compactions", before, "/s"),
            RowFigure::new("throughput", after, "/s"),
            RowFigure::new("put p99", told(figures.p99_ms, "latency")?, "ms"),
        ])
    }

    /// A lone member that holds all keys.
    fn load(self, bench: &Bench) -> Result<Cluster, String> {
        let mut cluster = bench.start(1)?;
        bench.drive_all(&mut cluster, Load::fill(bench.scaled(self.keys), self.value_bytes))?;
        Ok(cluster)
    }

    fn puts(self, bench: &Bench, flags: &str) -> Load {
        let (keys, puts, bytes) = (bench.scaled(self.keys), bench.scaled(self.puts), self.value_bytes);
        let sizes = format!("--key-space-size={keys} --total={puts} --val-size={bytes}");
        Load::ours(&format!("put --conns=100 --clients=1000 {sizes}{flags}"))
    }

    /// Puts and compacts, and looks at the directory meanwhile.
    fn compacting(self, bench: &Bench, cluster: &mut Cluster) -> Result<(Figures, Vec<SpaceSample>), String> {
        let folders = cluster.data_folders();
        let has_ended = AtomicBool::new(false);
        let begin = Instant::now();
        thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                let mut samples = Vec::new();
                while !has_ended.load(Ordering::Relaxed) {
                    let bytes = folders.iter().map(|folder| processes::disk(folder)).sum();
                    samples.push(SpaceSample { at: begin.elapsed(), bytes });
                    thread::park_timeout(SAMPLE_INTERVAL);
                }
                samples
            });
            let load = self.puts(bench, &format!(" --compact-every={COMPACT_SECONDS}s"));
            let figures = bench.drive_all(cluster, load);
            has_ended.store(true, Ordering::Relaxed);
            sampler.thread().unpark();
            let samples = sampler.join().map_err(|_| "the sampling thread panicked".to_owned())?;
            Ok((figures?, samples))
        })
    }
}

fn ratio(bytes: u64, newest: u64) -> f64 {
    bytes as f64 / newest as f64
}

/// The greatest ratio after the warm-up; `None` when nothing was sampled by then.
fn greatest_ratio(samples: &[SpaceSample], newest: u64) -> Option<f64> {
    let warm_up = WARM_UP.min(samples.last()?.at / 4);
    let after = samples.iter().filter(|sample| sample.at >= warm_up);
    after.map(|sample| ratio(sample.bytes, newest)).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(all: &[(u64, u64)]) -> Vec<SpaceSample> {
        all.iter().map(|(at, bytes)| SpaceSample { at: Duration::from_secs(*at), bytes: *bytes }).collect()
    }

    #[test]
    fn the_first_minute_of_a_long_run_does_not_count() {
        let all = samples(&[(0, 900), (59, 800), (60, 210), (120, 180), (300, 200)]);
        assert_eq!(greatest_ratio(&all, 100), Some(2.1));
    }

    #[test]
    fn the_first_quarter_of_a_short_run_does_not_count() {
        let all = samples(&[(0, 900), (4, 800), (5, 300), (20, 250)]);
        assert_eq!(greatest_ratio(&all, 100), Some(3.0));
        assert_eq!(greatest_ratio(&samples(&[(0, 50)]), 100), Some(0.5));
        assert_eq!(greatest_ratio(&[], 100), None);
    }
}
