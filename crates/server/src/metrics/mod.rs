//! What Prometheus reads: etcd's metric names, types, labels and buckets, so that its dashboards and alerts go on
//! working.
//!
//! Two kinds of values meet here. What happens often is *counted where it happens*, through handles whose labels were
//! resolved once ([`GrpcMethod`], [`Outcomes`]): an atomic addition, no lookup. What is a state is *asked for when
//! somebody looks*: [`Metrics::render`] takes [`Gauges`] from a [`Source`]. Metrics of parts Stele does not have
//! (bbolt, the v2 store, the Go runtime) are absent; `docs/compat.md` lists them, and a test holds that list to the
//! contract.

mod events;
mod gauges;
mod grpc;
mod process;
mod register;

use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};

pub use events::{Events, Outcomes};
pub use gauges::{Gauges, Peer, Source};
pub use grpc::{Grpc, GrpcMethod};

use gauges::ScrapedGauges;
use process::Process;
use register::Register;

use crate::config::FeatureGates;

/// Content type of the rendered text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// All metrics of a process.
pub struct Metrics {
    /// Counters and histograms of what happens.
    pub events: Events,
    /// Counters of gRPC calls.
    pub grpc: Grpc,
    registry: Registry,
    gauges: ScrapedGauges,
    process: Process,
    /// Held while a scrape brings counters up to what the source says.
    scrape: Mutex<()>,
}

impl Metrics {
    /// Registers all metrics; `extensive` adds a histogram of the time each gRPC takes.
    ///
    /// # Errors
    /// A metric that the registry refuses, which would be a mistake in this module.
    pub fn new(gates: &FeatureGates, extensive: bool) -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let register = Register::new(&registry);
        constants(&register, gates)?;
        Ok(Metrics {
            events: Events::new(&register)?,
            grpc: Grpc::new(&register, extensive)?,
            gauges: ScrapedGauges::new(&register)?,
            process: Process::new(&register)?,
            registry,
            scrape: Mutex::new(()),
        })
    }

    /// All metrics as text, with the states `source` tells.
    ///
    /// # Errors
    /// What cannot be written as text, which would be a mistake in this module.
    pub fn render(&self, source: &dyn Source) -> prometheus::Result<String> {
        let gauges = source.gauges();
        let _scrape = self.scrape.lock();
        self.gauges.set(&gauges);
        self.process.refresh();
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// What never changes while the process runs.
fn constants(register: &Register<'_>, gates: &FeatureGates) -> prometheus::Result<()> {
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
