//! Making a metric and registering it, in one step.

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
    Result, exponential_buckets,
};

/// Bucket bounds: the first, the factor between two, how many.
pub(super) type Buckets = (f64, f64, usize);

pub(super) struct MetricRegister<'a> {
    registry: &'a Registry,
}

impl<'a> MetricRegister<'a> {
    pub(super) fn new(registry: &'a Registry) -> MetricRegister<'a> {
        MetricRegister { registry }
    }

    fn add<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.add(IntCounter::new(name, help)?)
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn seconds_counter(&self, name: &str, help: &str) -> Result<prometheus::Counter> {
        self.add(prometheus::Counter::new(name, help)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<Gauge> {
        self.add(Gauge::new(name, help)?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec> {
        self.add(GaugeVec::new(Opts::new(name, help), labels)?)
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
        self.add(HistogramVec::new(options(name, help, buckets)?, labels)?)
    }

    /// With Prometheus' own default buckets.
    pub(super) fn default_histograms(&self, name: &str, help: &str, labels: &[&str]) -> Result<HistogramVec> {
        self.add(HistogramVec::new(HistogramOpts::new(name, help), labels)?)
    }
}

fn options(name: &str, help: &str, (start, factor, count): Buckets) -> Result<HistogramOpts> {
    Ok(HistogramOpts::new(name, help).buckets(exponential_buckets(start, factor, count)?))
}
