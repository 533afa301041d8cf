//! What Prometheus reads: etcd's metric names, types, labels and buckets, so that its dashboards and alerts keep
//! working.
//!
//! There are three kinds of values. What happens often is *counted where it happens*, through handles whose labels were
//! resolved once ([`MethodMetrics`], [`OutcomeTimes`]): an atomic addition, no lookup; what each request counts is kept
//! once per shard, so that RPC workers do not share cache lines (`sharded`). What is a state is *read at each scrape*:
//! [`Metrics::render`] takes [`Gauges`] from a [`GaugeSource`]. What Stele does not have (bbolt, the v2 store, the Go
//! runtime) is *constant* (`constants`).
//!
//! Each family of the contract is announced from the first scrape on, also one that has no series yet. Tests hold the
//! families against the contract (`crates/server/tests/compat.rs`) and against what they count (`tests/go/metrics`).

mod constants;
mod events;
mod gauges;
mod grpc;
mod own;
mod pending_write;
mod process;
mod register;
mod sharded;

use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGauge, Registry, TextEncoder};

pub use constants::constant_families;
pub use events::{EventMetrics, OutcomeTimes};
pub use gauges::{GaugeSource, Gauges, PeerGauges};
pub use grpc::{GrpcMetrics, MethodMetrics};
pub use own::{BackupMetrics, OwnMetrics, RefusedRequests};
pub use pending_write::PendingWrite;
pub use sharded::{ShardedCounter, ShardedHistogram};

use gauges::ScrapedGauges;
use process::ProcessMetrics;
use register::{AnnouncedFamily, MetricRegister};

use crate::config::FeatureGates;
use crate::logging;

/// Content type of the rendered text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// All metrics of a process.
pub struct Metrics {
    /// Counters and histograms of what happens.
    pub events: EventMetrics,
    /// Counters of gRPC calls.
    pub grpc: GrpcMetrics,
    /// What etcd does not have.
    pub own: OwnMetrics,
    registry: Registry,
    gauges: ScrapedGauges,
    process: ProcessMetrics,
    scrapes: ScrapeMetrics,
    announced: Vec<AnnouncedFamily>,
    /// Held while a scrape raises counters to the values of the source.
    scrape: Mutex<()>,
}

/// What is counted of scrapes, under the names of Go's handler.
struct ScrapeMetrics {
    running: IntGauge,
    done: IntCounterVec,
}

impl ScrapeMetrics {
    /// Labels of scrapes that were answered, and of those that were not.
    const CODES: [&str; 3] = ["200", "500", "503"];

    fn new(r: &MetricRegister<'_>) -> prometheus::Result<ScrapeMetrics> {
        let name = "promhttp_metric_handler_requests_in_flight";
        let running = r.add(IntGauge::new(name, "Scrapes being answered")?)?;
        let name = "promhttp_metric_handler_requests_total";
        let done = r.counters(name, "Scrapes answered, by HTTP status", &["code"])?;
        Self::CODES.iter().for_each(|code| drop(done.with_label_values(&[code])));
        Ok(ScrapeMetrics { running, done })
    }
}

impl Metrics {
    /// Registers all metrics; `extensive` adds a histogram of the time each gRPC takes.
    ///
    /// # Errors
    /// A metric that the registry refuses, which would be a mistake in this module.
    pub fn new(gates: &FeatureGates, extensive: bool) -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let register = MetricRegister::new(&registry);
        fixed(&register, gates)?;
        constants::register(&register)?;
        register.add(logging::dropped_lines().clone())?;
        Ok(Metrics {
            events: EventMetrics::new(&register)?,
            grpc: GrpcMetrics::new(&register, extensive)?,
            own: OwnMetrics::new(&register)?,
            gauges: ScrapedGauges::new(&register)?,
            process: ProcessMetrics::new(&register)?,
            scrapes: ScrapeMetrics::new(&register)?,
            announced: register.into_announced(),
            registry,
            scrape: Mutex::new(()),
        })
    }

    /// All metrics as text, with the states of `source`.
    ///
    /// # Errors
    /// What cannot be written as text, which would be a mistake in this module.
    pub fn render(&self, source: &dyn GaugeSource) -> prometheus::Result<String> {
        self.scrapes.running.inc();
        let rendered = self.render_counted(source);
        self.scrapes.running.dec();
        self.scrapes.done.with_label_values(&[if rendered.is_ok() { "200" } else { "500" }]).inc();
        rendered
    }

    fn render_counted(&self, source: &dyn GaugeSource) -> prometheus::Result<String> {
        let gauges = source.gauges();
        let _scrape = self.scrape.lock();
        self.gauges.set(&gauges, &self.own);
        self.process.refresh();
        let families = self.registry.gather();
        let mut text = TextEncoder::new().encode_to_string(&families)?;
        let has_series = |name: &str| families.binary_search_by(|family| family.name().cmp(name)).is_ok();
        let empty = self.announced.iter().filter(|family| !has_series(&family.name));
        empty.for_each(|family| text.push_str(&family.head));
        Ok(text)
    }
}

/// What never changes while the process runs.
fn fixed(register: &MetricRegister<'_>, gates: &FeatureGates) -> prometheus::Result<()> {
    let help = "Release of etcd whose API is served, as label 'server_version'; always 1";
    register
        .gauges("etcd_server_version", help, &["server_version"])?
        .with_label_values(&[api::version::ETCD_VERSION])
        .set(1.0);
    let help = "Release of Stele, as label 'version'; always 1";
    register
        .gauges("stele_version", help, &["version"])?
        .with_label_values(&[env!("CARGO_PKG_VERSION")])
        .set(1.0);
    let help = "Whether a feature gate is open";
    let features = register.gauges("etcd_server_feature_enabled", help, &["name", "stage"])?;
    let stages = gates.stages();
    let gates = gates.all().iter().map(|gate| (gate.name, gate.stage, gate.enabled));
    for (name, stage, is_open) in stages.chain(gates) {
        features.with_label_values(&[name, stage.name()]).set(f64::from(u8::from(is_open)));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
