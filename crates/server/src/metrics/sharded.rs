//! Counters and histograms that many threads raise at once.
//!
//! RPC workers count several things for each request. If they added to the same atomics, each addition would fetch a
//! cache line from another core. So each number is kept once per *shard*, a thread adds to its own shard, and a scrape
//! sums the shards:
//!
//! ```text
//! shard 0   | started 7 | received 7 | sent 6 | ...      cache lines of their own
//! shard 1   | started 2 | received 2 | sent 2 | ...
//! scrape      started 9   received 9   sent 8
//! ```
//!
//! Threads get their shards in turn. With more threads than shards some share one, which costs time and no accuracy:
//! the numbers are atomics.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Counter, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Result, exponential_buckets};

/// Bucket bounds: the first, the factor between two, how many.
pub(super) type Buckets = (f64, f64, usize);

/// Shards beyond the RPC workers, for the threads beside them.
const OTHER_SHARDS: usize = 2;

/// Most shards, a power of two: on larger machines some workers share one, so that memory stays small.
const MAX_SHARDS: usize = 32;

/// Numbers of a cache line.
const LINE_CELLS: usize = 8;

/// Nanoseconds of a second.
const NS: f64 = 1e9;

/// A cache line of numbers.
#[derive(Default)]
#[repr(align(64))]
struct CacheLine([AtomicU64; LINE_CELLS]);

/// A row of numbers, each kept once per shard.
pub(super) struct ShardedCells {
    lines: Box<[CacheLine]>,
    lines_per_shard: usize,
    /// The number of shards, a power of two, less one.
    shard_mask: usize,
}

/// How many shards there are, a power of two. The system is asked once: it reads files to say how many cores there are.
fn shards() -> usize {
    static SHARDS: OnceLock<usize> = OnceLock::new();
    *SHARDS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (cores + OTHER_SHARDS).next_power_of_two().min(MAX_SHARDS)
    })
}

/// The shard of this thread, before it is reduced to their number.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is ending may still count.
    SHARD.try_with(|shard| *shard).unwrap_or(0)
}

impl ShardedCells {
    /// `count` zeros.
    pub(super) fn new(count: usize) -> ShardedCells {
        let shards = shards();
        let lines_per_shard = count.div_ceil(LINE_CELLS);
        let lines = (0..shards * lines_per_shard).map(|_| CacheLine::default()).collect();
        ShardedCells { lines, lines_per_shard, shard_mask: shards - 1 }
    }

    /// Adds to a number.
    pub(super) fn add(&self, index: usize, amount: u64) {
        let shard = own_shard() & self.shard_mask;
        let line = &self.lines[shard * self.lines_per_shard + index / LINE_CELLS];
        line.0[index % LINE_CELLS].fetch_add(amount, Ordering::Relaxed);
    }

    /// A number, summed over the shards.
    pub(super) fn sum(&self, index: usize) -> u64 {
        let of_shard =
            |lines: &[CacheLine]| lines[index / LINE_CELLS].0[index % LINE_CELLS].load(Ordering::Relaxed);
        self.lines.chunks(self.lines_per_shard).map(of_shard).sum()
    }
}

/// A counter. Clones share it.
#[derive(Clone)]
pub struct ShardedCounter {
    cells: Arc<ShardedCells>,
    index: usize,
}

impl ShardedCounter {
    /// A counter in `cells`.
    pub(super) fn at(cells: &Arc<ShardedCells>, index: usize) -> ShardedCounter {
        ShardedCounter { cells: cells.clone(), index }
    }

    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.cells.add(self.index, amount);
    }
}

/// A histogram of durations. Clones share it.
#[derive(Clone)]
pub struct ShardedHistogram {
    /// In nanoseconds, ascending.
    bounds: Arc<[u64]>,
    /// A count for each bound, one for what is above all, and the sum in nanoseconds.
    cells: Arc<ShardedCells>,
}

impl ShardedHistogram {
    fn new(bounds: Arc<[u64]>) -> ShardedHistogram {
        let cells = Arc::new(ShardedCells::new(bounds.len() + 2));
        ShardedHistogram { bounds, cells }
    }

    /// Adds one duration.
    pub fn observe(&self, time: Duration) {
        self.observe_equal(time, 1);
    }

    /// Adds `count` durations of the same length.
    pub fn observe_equal(&self, each: Duration, count: u64) {
        let ns = u64::try_from(each.as_nanos()).unwrap_or(u64::MAX);
        self.cells.add(self.bounds.partition_point(|bound| *bound < ns), count);
        self.cells.add(self.bounds.len() + 1, ns.saturating_mul(count));
    }

    fn read(&self) -> Histogram {
        let mut count = 0;
        let mut bucket = |(index, bound): (usize, &u64)| {
            count += self.cells.sum(index);
            let mut bucket = Bucket::default();
            bucket.set_cumulative_count(count);
            bucket.set_upper_bound(*bound as f64 / NS);
            bucket
        };
        let buckets = self.bounds.iter().enumerate().map(&mut bucket).collect();
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(count + self.cells.sum(self.bounds.len()));
        histogram.set_sample_sum(self.cells.sum(self.bounds.len() + 1) as f64 / NS);
        histogram
    }
}

/// What stands behind one set of label values.
#[derive(Clone)]
enum Series {
    Counter(ShardedCounter),
    Histogram(ShardedHistogram),
}

/// A series and its labels.
type LabelledSeries = (Vec<LabelPair>, Series);

/// All series of one name. Clones share them.
#[derive(Clone)]
pub(super) struct ShardedFamily {
    desc: Desc,
    labels: Vec<String>,
    bounds: Option<Arc<[u64]>>,
    series: Arc<RwLock<Vec<LabelledSeries>>>,
}

impl ShardedFamily {
    fn new(name: &str, help: &str, labels: &[&str], bounds: Option<Arc<[u64]>>) -> Result<ShardedFamily> {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels.clone(), HashMap::new())?;
        Ok(ShardedFamily { desc, labels, bounds, series: Arc::default() })
    }

    /// Counters.
    pub(super) fn counters(name: &str, help: &str, labels: &[&str]) -> Result<ShardedFamily> {
        ShardedFamily::new(name, help, labels, None)
    }

    /// Histograms of durations in seconds.
    pub(super) fn histograms(
        name: &str,
        help: &str,
        labels: &[&str],
        (start, factor, count): Buckets,
    ) -> Result<ShardedFamily> {
        ShardedFamily::histograms_with(name, help, labels, &exponential_buckets(start, factor, count)?)
    }

    /// Histograms with these bounds, in seconds.
    pub(super) fn histograms_with(
        name: &str,
        help: &str,
        labels: &[&str],
        bounds: &[f64],
    ) -> Result<ShardedFamily> {
        let bounds = bounds.iter().map(|bound| (bound * NS).round() as u64).collect();
        ShardedFamily::new(name, help, labels, Some(bounds))
    }

    /// Shows a counter under these label values, in the order of the labels.
    ///
    /// # Panics
    /// When a series with these values is shown already.
    pub(super) fn show(&self, values: &[&str], counter: ShardedCounter) -> ShardedCounter {
        let pairs = self.pairs(values);
        let mut series = self.series.write();
        assert!(!series.iter().any(|(known, _)| *known == pairs), "{values:?} are shown already");
        series.push((pairs, Series::Counter(counter.clone())));
        counter
    }

    /// A new counter with these label values. Panics as [`show`](Self::show).
    pub(super) fn counter(&self, values: &[&str]) -> ShardedCounter {
        self.show(values, ShardedCounter::at(&Arc::new(ShardedCells::new(1)), 0))
    }

    /// The histogram with these label values.
    pub(super) fn histogram(&self, values: &[&str]) -> ShardedHistogram {
        let pairs = self.pairs(values);
        let mut series = self.series.write();
        let known = series.iter().find(|(known, _)| *known == pairs);
        if let Some((_, Series::Histogram(known))) = known {
            return known.clone();
        }
        let histogram = ShardedHistogram::new(self.bounds.clone().unwrap_or_default());
        series.push((pairs, Series::Histogram(histogram.clone())));
        histogram
    }

    /// In the order of the labels' names, as all metrics of the library.
    fn pairs(&self, values: &[&str]) -> Vec<LabelPair> {
        let pair = |(name, value): (&String, &&str)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.clone());
            pair.set_value((*value).to_owned());
            pair
        };
        let mut pairs: Vec<LabelPair> = self.labels.iter().zip(values).map(pair).collect();
        pairs.sort();
        pairs
    }
}

impl Collector for ShardedFamily {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let read = |(labels, series): &LabelledSeries| {
            let mut metric = Metric::from_label(labels.clone());
            match series {
                Series::Counter(series) => {
                    let mut counter = Counter::default();
                    counter.set_value(series.cells.sum(series.index) as f64);
                    metric.set_counter(counter);
                }
                Series::Histogram(series) => metric.set_histogram(series.read()),
            }
            metric
        };
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(match self.bounds {
            Some(_) => MetricType::HISTOGRAM,
            None => MetricType::COUNTER,
        });
        family.set_metric(self.series.read().iter().map(read).collect());
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    //! Sums over shards, and buckets.
    use super::*;

    #[test]
    fn what_several_threads_count_is_summed() {
        let cells = Arc::new(ShardedCells::new(LINE_CELLS + 1));
        let last = ShardedCounter::at(&cells, LINE_CELLS);
        let threads: Vec<_> = (0..40)
            .map(|_| {
                let last = last.clone();
                std::thread::spawn(move || (0..100).for_each(|_| last.inc()))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a counting thread"));
        last.add(5);
        assert_eq!((cells.sum(LINE_CELLS), cells.sum(0)), (4_005, 0));
    }

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let family = ShardedFamily::histograms("h", "help", &["l"], (0.001, 2.0, 2)).expect("a family");
        let histogram = family.histogram(&["x"]);
        histogram.observe(Duration::from_millis(1));
        histogram.observe_equal(Duration::from_micros(1_500), 3);
        family.histogram(&["x"]).observe(Duration::from_secs(1));
        let read = histogram.read();
        let counts: Vec<u64> = read.get_bucket().iter().map(Bucket::cumulative_count).collect();
        assert_eq!((counts, read.get_sample_count()), (vec![1, 4], 5));
        assert!((read.get_sample_sum() - 1.0055).abs() < 1e-9);
        assert_eq!(family.collect()[0].get_metric().len(), 1, "one series for equal label values");
    }
}
