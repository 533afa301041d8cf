//! Making a metric and registering it, in one step.
//!
//! The register remembers the name, meaning and type of each family, because a family without series is not gathered by
//! the library: it is still announced, with its type, so that the names of all families are known from the first scrape
//! on.

use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts,
    Registry, Result, exponential_buckets,
};

use super::sharded::{Buckets, ShardedCounter, ShardedFamily};

/// A family with labels, whose series may come later.
pub(super) struct AnnouncedFamily {
    pub(super) name: String,
    /// Its `HELP` and `TYPE` lines.
    pub(super) head: String,
}

pub(super) struct MetricRegister<'a> {
    registry: &'a Registry,
    announced: Mutex<Vec<AnnouncedFamily>>,
}

impl<'a> MetricRegister<'a> {
    pub(super) fn new(registry: &'a Registry) -> MetricRegister<'a> {
        MetricRegister { registry, announced: Mutex::default() }
    }

    /// The families with labels.
    pub(super) fn into_announced(self) -> Vec<AnnouncedFamily> {
        self.announced.into_inner()
    }

    pub(super) fn add<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn announce<C: Collector + Clone + 'static>(&self, kind: &str, metric: C) -> Result<C> {
        for desc in metric.desc() {
            let (name, help) = (desc.fq_name.clone(), &desc.help);
            let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            self.announced.lock().push(AnnouncedFamily { name, head });
        }
        self.add(metric)
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.add(IntCounter::new(name, help)?)
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.announce("counter", IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn seconds_counter(&self, name: &str, help: &str) -> Result<prometheus::Counter> {
        self.add(prometheus::Counter::new(name, help)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<Gauge> {
        self.add(Gauge::new(name, help)?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec> {
        self.announce("gauge", GaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn int_gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.announce("gauge", IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: Buckets) -> Result<Histogram> {
        self.add(Histogram::with_opts(options(name, help, buckets)?)?)
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: Buckets,
    ) -> Result<HistogramVec> {
        self.announce("histogram", HistogramVec::new(options(name, help, buckets)?, labels)?)
    }

    /// A counter that RPC workers raise for each request.
    pub(super) fn sharded_counter(&self, name: &str, help: &str) -> Result<ShardedCounter> {
        Ok(self.add(ShardedFamily::counters(name, help, &[])?)?.counter(&[]))
    }

    /// Counters that RPC workers raise for each request.
    pub(super) fn sharded_counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<ShardedFamily> {
        self.announce("counter", ShardedFamily::counters(name, help, labels)?)
    }

    /// Histograms of times that RPC workers observe for each request.
    pub(super) fn request_times(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: Buckets,
    ) -> Result<ShardedFamily> {
        self.announce("histogram", ShardedFamily::histograms(name, help, labels, buckets)?)
    }

    /// With Prometheus' own default buckets.
    pub(super) fn default_histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<ShardedFamily> {
        let bounds = prometheus::DEFAULT_BUCKETS;
        self.announce("histogram", ShardedFamily::histograms_with(name, help, labels, bounds)?)
    }
}

fn options(name: &str, help: &str, (start, factor, count): Buckets) -> Result<HistogramOpts> {
    Ok(HistogramOpts::new(name, help).buckets(exponential_buckets(start, factor, count)?))
}
