//! Families of etcd that have nothing to count here. They are served, with the values below, so that dashboards and
//! alerts that name them find series; none of these values can make an alert fire. `docs/compat.md` lists them with
//! reasons, and a test compares that list with this one.

use std::collections::HashMap;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary,
};
use prometheus::{Result, exponential_buckets};

use super::register::MetricRegister;
use super::sharded::Buckets;

/// What is served of a family.
#[derive(Clone, Copy)]
enum Kind {
    /// A counter at 0.
    Counter,
    /// A gauge at 0.
    Gauge,
    /// A gauge at 1, with a label that says that there is no such thing.
    Info(&'static str),
    /// A histogram without observations.
    Histogram(Buckets),
    /// A summary without observations, with the quantiles of Go's runtime.
    Summary,
}

/// The label of what does not exist.
const NONE: &str = "none";

/// Quantiles of Go's summary of pauses.
const QUANTILES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

const NO_BBOLT: &str = "Always empty: there is no bbolt";
const NO_PAUSE: &str = "Always empty: compaction pauses nothing";
const NO_LOOP: &str = "Always empty: watch streams have no such loop";
const NO_SNAP: &str = "Always empty: checkpoints have no such step";
const NO_V2: &str = "Always 0: there is no v2 store";
const NO_PROXY: &str = "Always 0: this is no proxy";
const NO_GO: &str = "Always 0: there is no Go runtime";

/// Times of operations that wait for a disk.
const TIMES: Kind = Kind::Histogram((0.001, 2.0, 14));

/// Name, kind and meaning of each.
#[rustfmt::skip]
const CONSTANTS: [(&str, Kind, &str); 48] = [
    ("etcd_debugging_disk_backend_commit_rebalance_duration_seconds", TIMES, NO_BBOLT),
    ("etcd_debugging_disk_backend_commit_spill_duration_seconds", TIMES, NO_BBOLT),
    ("etcd_debugging_disk_backend_commit_write_duration_seconds", TIMES, NO_BBOLT),
    ("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", Kind::Histogram((1.0, 2.0, 13)), NO_PAUSE),
    ("etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds", Kind::Histogram((0.5, 2.0, 14)), NO_PAUSE),
    ("etcd_debugging_server_watch_send_loop_control_stream_duration_seconds", TIMES, NO_LOOP),
    ("etcd_debugging_server_watch_send_loop_progress_duration_seconds", TIMES, NO_LOOP),
    ("etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds", TIMES, NO_LOOP),
    ("etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds", TIMES, NO_LOOP),
    ("etcd_debugging_snap_save_marshalling_duration_seconds", TIMES, NO_SNAP),
    ("etcd_debugging_store_expires_total", Kind::Counter, NO_V2),
    ("etcd_debugging_store_reads_total", Kind::Counter, NO_V2),
    ("etcd_debugging_store_watch_requests_total", Kind::Counter, NO_V2),
    ("etcd_debugging_store_watchers", Kind::Gauge, NO_V2),
    ("etcd_debugging_store_writes_total", Kind::Counter, NO_V2),
    ("etcd_disk_defrag_inflight", Kind::Gauge, "Always 0: Defragment stops nothing"),
    ("etcd_grpc_proxy_cache_hits_total", Kind::Gauge, NO_PROXY),
    ("etcd_grpc_proxy_cache_keys_total", Kind::Gauge, NO_PROXY),
    ("etcd_grpc_proxy_cache_misses_total", Kind::Gauge, NO_PROXY),
    ("etcd_grpc_proxy_events_coalescing_total", Kind::Counter, NO_PROXY),
    ("etcd_grpc_proxy_watchers_coalescing_total", Kind::Gauge, NO_PROXY),
    ("etcd_server_go_version", Kind::Info("server_go_version"), "Always 1: there is no Go runtime"),
    ("etcd_snap_db_fsync_duration_seconds", TIMES, NO_SNAP),
    ("etcd_snap_fsync_duration_seconds", TIMES, NO_SNAP),
    ("go_gc_duration_seconds", Kind::Summary, "Always empty: there is no Go runtime"),
    ("go_gc_gogc_percent", Kind::Gauge, NO_GO),
    ("go_info", Kind::Info("version"), "Always 1: there is no Go runtime"),
    ("go_memstats_alloc_bytes_total", Kind::Counter, NO_GO),
    ("go_memstats_buck_hash_sys_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_frees_total", Kind::Counter, NO_GO),
    ("go_memstats_gc_sys_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_heap_idle_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_heap_objects", Kind::Gauge, NO_GO),
    ("go_memstats_heap_released_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_heap_sys_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_last_gc_time_seconds", Kind::Gauge, NO_GO),
    ("go_memstats_mallocs_total", Kind::Counter, NO_GO),
    ("go_memstats_mcache_inuse_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_mcache_sys_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_mspan_inuse_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_mspan_sys_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_next_gc_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_other_sys_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_stack_inuse_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_stack_sys_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_sys_bytes", Kind::Gauge, NO_GO),
    ("go_gc_gomemlimit_bytes", Kind::Gauge, NO_GO),
    ("go_memstats_heap_inuse_bytes", Kind::Gauge, NO_GO),
];

/// Names of the families that never change.
pub fn constant_families() -> impl Iterator<Item = &'static str> {
    CONSTANTS.iter().map(|(name, ..)| *name)
}

/// Serves them.
pub(super) fn register(register: &MetricRegister<'_>) -> Result<()> {
    for (name, kind, help) in CONSTANTS {
        register.add(ConstantFamily::new(name, kind, help)?)?;
    }
    Ok(())
}

#[derive(Clone)]
struct ConstantFamily {
    desc: Desc,
    family: MetricFamily,
}

impl ConstantFamily {
    fn new(name: &str, kind: Kind, help: &str) -> Result<ConstantFamily> {
        let labels = match kind {
            Kind::Info(label) => vec![label.to_owned()],
            _ => Vec::new(),
        };
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        let (field_type, metric) = series(kind)?;
        family.set_field_type(field_type);
        family.set_metric(vec![metric]);
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?;
        Ok(ConstantFamily { desc, family })
    }
}

impl Collector for ConstantFamily {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        vec![self.family.clone()]
    }
}

/// The type of a family, and its only series.
fn series(kind: Kind) -> Result<(MetricType, Metric)> {
    let mut metric = Metric::default();
    let field_type = match kind {
        Kind::Counter => {
            metric.set_counter(Counter::default());
            MetricType::COUNTER
        }
        Kind::Gauge => {
            metric.set_gauge(Gauge::default());
            MetricType::GAUGE
        }
        Kind::Info(label) => {
            let mut pair = LabelPair::default();
            pair.set_name(label.to_owned());
            pair.set_value(NONE.to_owned());
            let mut gauge = Gauge::default();
            gauge.set_value(1.0);
            metric.set_label(vec![pair]);
            metric.set_gauge(gauge);
            MetricType::GAUGE
        }
        Kind::Histogram((start, factor, count)) => {
            let bucket = |bound| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(bound);
                bucket
            };
            let bounds = exponential_buckets(start, factor, count)?;
            let mut histogram = Histogram::default();
            histogram.set_bucket(bounds.into_iter().map(bucket).collect());
            metric.set_histogram(histogram);
            MetricType::HISTOGRAM
        }
        Kind::Summary => {
            let quantile = |of| {
                let mut quantile = Quantile::default();
                quantile.set_quantile(of);
                quantile
            };
            let mut summary = Summary::default();
            summary.set_quantile(QUANTILES.map(quantile).into());
            metric.set_summary(summary);
            MetricType::SUMMARY
        }
    };
    Ok((field_type, metric))
}
