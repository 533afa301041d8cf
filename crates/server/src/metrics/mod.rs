//! What Prometheus reads: etcd's metric names, types, labels and buckets, so that its dashboards and alerts keep
//! working.
//!
//! There are two kinds of values. What happens often is *counted where it happens*, through handles whose labels were
//! resolved once ([`MethodMetrics`], [`OutcomeTimes`]): an atomic addition, no lookup. What is a state is *read at each
//! scrape*: [`Metrics::render`] takes [`Gauges`] from a [`GaugeSource`]. Metrics of parts that Stele does not have
//! (bbolt, the v2 store, the Go runtime) are absent; `docs/compat.md` lists them, and a test checks that list against
//! the contract.

mod events;
mod gauges;
mod grpc;
mod process;
mod register;

use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};

pub use events::{EventMetrics, OutcomeTimes};
pub use gauges::{GaugeSource, Gauges, PeerGauges};
pub use grpc::{GrpcMetrics, MethodMetrics};

use gauges::ScrapedGauges;
use process::ProcessMetrics;
use register::MetricRegister;

use crate::config::FeatureGates;

/// Content type of the rendered text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// All metrics of a process.
pub struct Metrics {
    /// Counters and histograms of what happens.
    pub events: EventMetrics,
    /// Counters of gRPC calls.
    pub grpc: GrpcMetrics,
    registry: Registry,
    gauges: ScrapedGauges,
    process: ProcessMetrics,
    /// Held while a scrape raises counters to the values of the source.
    scrape: Mutex<()>,
}

impl Metrics {
    /// Registers all metrics; `extensive` adds a histogram of the time each gRPC takes.
    ///
    /// # Errors
    /// A metric that the registry refuses, which would be a mistake in this module.
    pub fn new(gates: &FeatureGates, extensive: bool) -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let register = MetricRegister::new(&registry);
        constants(&register, gates)?;
        Ok(Metrics {
            events: EventMetrics::new(&register)?,
            grpc: GrpcMetrics::new(&register, extensive)?,
            gauges: ScrapedGauges::new(&register)?,
            process: ProcessMetrics::new(&register)?,
            registry,
            scrape: Mutex::new(()),
        })
    }

    /// All metrics as text, with the states of `source`.
    ///
    /// # Errors
    /// What cannot be written as text, which would be a mistake in this module.
    pub fn render(&self, source: &dyn GaugeSource) -> prometheus::Result<String> {
        let gauges = source.gauges();
        let _scrape = self.scrape.lock();
        self.gauges.set(&gauges);
        self.process.refresh();
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// What never changes while the process runs.
fn constants(register: &MetricRegister<'_>, gates: &FeatureGates) -> prometheus::Result<()> {
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
    for gate in gates.all() {
        features.with_label_values(&[gate.name, gate.stage.name()]).set(f64::from(u8::from(gate.enabled)));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
