//! Counters and histograms of events.

use parking_lot::RwLock;
use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, Result};

use super::register::{Buckets, MetricRegister};

/// Buckets of operations that should take a fraction of a millisecond.
const FROM_100_US: Buckets = (0.0001, 2.0, 20);
/// Buckets of operations that wait for a disk or a quorum.
const FROM_1_MS: Buckets = (0.001, 2.0, 14);
/// Buckets of operations that walk all data.
const FROM_10_MS: Buckets = (0.01, 2.0, 15);
/// Buckets of a round trip between members.
const ROUND_TRIP: Buckets = (0.0001, 2.0, 16);
/// Buckets of a transfer of all data.
const TRANSFER: Buckets = (0.01, 2.0, 17);
/// Buckets of TTLs, from one second to half a year.
const TTL: Buckets = (1.0, 2.0, 24);

/// Client versions that are counted apart: a client chooses its version, and each costs memory for good.
const MAX_CLIENT_VERSIONS: usize = 64;

/// Longest version that is counted by itself: real ones have ten bytes.
const MAX_CLIENT_VERSION_BYTES: usize = 64;

/// Client version under which all beyond the limit are counted.
const OTHER_VERSIONS: &str = "unknown";

/// Durations, by whether the operation succeeded. Resolve once, observe often.
#[derive(Clone)]
pub struct OutcomeTimes {
    succeeded: Histogram,
    failed: Histogram,
}

impl OutcomeTimes {
    fn new(histograms: &HistogramVec, labels: &[&str]) -> OutcomeTimes {
        let with = |success| histograms.with_label_values(&[labels, &[success]].concat());
        OutcomeTimes { succeeded: with("true"), failed: with("false") }
    }

    /// Adds one duration.
    pub fn observe(&self, success: bool, seconds: f64) {
        if success { self.succeeded.observe(seconds) } else { self.failed.observe(seconds) }
    }
}

struct ClientVersion {
    version: String,
    unary: IntCounter,
    stream: IntCounter,
}

/// Events of a server. Any thread may count.
pub struct EventMetrics {
    /// Ranges.
    pub ranges: IntCounter,
    /// Leases granted.
    pub leases_granted: IntCounter,
    /// Leases revoked.
    pub leases_revoked: IntCounter,
    /// Keep-alives acknowledged, by the leader.
    pub leases_renewed: IntCounter,
    /// Leases expired, by the leader.
    pub leases_expired: IntCounter,
    /// TTLs granted, in seconds.
    pub lease_ttls: Histogram,
    /// Keys removed by compaction.
    pub compacted_keys: IntCounter,
    /// Seconds a sync of the log took.
    pub wal_fsync: Histogram,
    /// Seconds a write to the log took.
    pub wal_write: Histogram,
    /// Seconds of sending all data to a client.
    pub snapshot_transfer: Histogram,
    /// Seconds of hashing at a revision.
    pub hash_rev: Histogram,
    /// Seconds of hashing everything.
    pub hash: Histogram,
    /// Applies that took longer than the warning threshold.
    pub slow_applies: IntCounter,
    /// ReadIndex rounds that took too long.
    pub slow_read_indexes: IntCounter,
    /// ReadIndex rounds that failed.
    pub read_indexes_failed: IntCounter,
    /// Heartbeats the leader could not send in time.
    pub heartbeat_send_failures: IntCounter,
    /// Learners that became voters.
    pub learner_promotions: IntCounter,
    /// Health checks passed.
    pub health_success: IntCounter,
    /// Health checks failed.
    pub health_failures: IntCounter,
    /// Bytes received from clients by gRPC.
    pub client_received_bytes: IntCounter,
    /// Bytes sent to clients by gRPC.
    pub client_sent_bytes: IntCounter,
    /// Connections closed because too many are open, of clients and of others.
    pub refused_connections: IntCounterVec,
    applies: HistogramVec,
    requests: HistogramVec,
    range_durations: HistogramVec,
    round_trips: HistogramVec,
    health_checks: IntCounterVec,
    health_results: GaugeVec,
    client_requests: IntCounterVec,
    client_versions: RwLock<Vec<ClientVersion>>,
}

impl EventMetrics {
    #[rustfmt::skip]
    pub(super) fn new(r: &MetricRegister<'_>) -> Result<EventMetrics> {
        Ok(EventMetrics {
            ranges: r.counter("etcd_mvcc_range_total", "Ranges seen by this member")?,
            leases_granted: r.counter("etcd_debugging_lease_granted_total", "Leases granted")?,
            leases_revoked: r.counter("etcd_debugging_lease_revoked_total", "Leases revoked")?,
            leases_renewed: r.counter("etcd_debugging_lease_renewed_total", "Keep-alives acknowledged as leader")?,
            leases_expired: r.counter("etcd_debugging_server_lease_expired_total", "Leases expired")?,
            lease_ttls: r.histogram("etcd_debugging_lease_ttl_total", "TTLs of granted leases, in seconds", TTL)?,
            compacted_keys: r.counter("etcd_debugging_mvcc_db_compaction_keys_total", "Versions removed by compaction")?,
            wal_fsync: r.histogram("etcd_disk_wal_fsync_duration_seconds", "Time of syncs of the log", FROM_1_MS)?,
            wal_write: r.histogram("etcd_disk_wal_write_duration_seconds", "Time of writes to the log", FROM_1_MS)?,
            snapshot_transfer: r.histogram("etcd_disk_backend_snapshot_duration_seconds", "Time of sending a backup to a client", TRANSFER)?,
            hash_rev: r.histogram("etcd_mvcc_hash_rev_duration_seconds", "Time of hashing at a revision", FROM_10_MS)?,
            hash: r.histogram("etcd_mvcc_hash_duration_seconds", "Time of hashing all data", FROM_10_MS)?,
            slow_applies: r.counter("etcd_server_slow_apply_total", "Applies that took longer than the warning threshold")?,
            slow_read_indexes: r.counter("etcd_server_slow_read_indexes_total", "ReadIndex rounds that took too long")?,
            read_indexes_failed: r.counter("etcd_server_read_indexes_failed_total", "ReadIndex rounds that failed")?,
            heartbeat_send_failures: r.counter("etcd_server_heartbeat_send_failures_total", "Heartbeats the leader could not send in time")?,
            learner_promotions: r.counter("etcd_server_learner_promote_successes", "Learners promoted while this member led")?,
            health_success: r.counter("etcd_server_health_success", "Health checks passed")?,
            health_failures: r.counter("etcd_server_health_failures", "Health checks failed")?,
            client_received_bytes: r.counter("etcd_network_client_grpc_received_bytes_total", "Bytes received from gRPC clients")?,
            client_sent_bytes: r.counter("etcd_network_client_grpc_sent_bytes_total", "Bytes sent to gRPC clients")?,
            refused_connections: r.counters("stele_refused_connections_total", "Connections closed at once because too many are open", &["kind"])?,
            applies: r.histograms("etcd_server_apply_duration_seconds", "Time of applying a command", &["version", "op", "success"], FROM_100_US)?,
            requests: r.histograms("etcd_server_request_duration_seconds", "Time of requests inside the server", &["type", "success"], FROM_1_MS)?,
            range_durations: r.histograms("etcd_server_range_duration_seconds", "Time of ranges inside the server", &["success"], FROM_100_US)?,
            round_trips: r.histograms("etcd_network_peer_round_trip_time_seconds", "Round trips between members", &["To"], ROUND_TRIP)?,
            health_checks: r.counters("etcd_server_healthchecks_total", "Checks of /livez and /readyz", &["type", "name", "status"])?,
            health_results: r.gauges("etcd_server_healthcheck", "Whether a check of /livez or /readyz passed when last asked for", &["type", "name"])?,
            client_requests: r.counters("etcd_server_client_requests_total", "Requests by version of the client", &["type", "client_api_version"])?,
            client_versions: RwLock::new(Vec::new()),
        })
    }

    /// How long applies of commands of this kind take; `op` as etcd names it: `Put`, `Txn`, `LeaseGrant`.
    pub fn applies(&self, op: &str) -> OutcomeTimes {
        OutcomeTimes::new(&self.applies, &["v3", op])
    }

    /// How long requests of this kind take; `kind` as etcd names it: `Range`, `Put`, `ReadonlyTxn`.
    pub fn requests(&self, kind: &str) -> OutcomeTimes {
        OutcomeTimes::new(&self.requests, &[kind])
    }

    /// How long ranges take.
    pub fn range_durations(&self) -> OutcomeTimes {
        OutcomeTimes::new(&self.range_durations, &[])
    }

    /// Round trips to the peer of this id.
    pub fn round_trips(&self, peer: u64) -> Histogram {
        self.round_trips.with_label_values(&[format!("{peer:x}")])
    }

    /// Counts a check of `/livez` or `/readyz`.
    pub fn health_check(&self, kind: &str, name: &str, passed: bool) {
        let status = if passed { "success" } else { "error" };
        self.health_checks.with_label_values(&[kind, name, status]).inc();
        self.health_results.with_label_values(&[kind, name]).set(f64::from(u8::from(passed)));
    }

    /// Counts a request of a client that claims this version.
    pub fn client_request(&self, stream: bool, version: &str) {
        let count = |known: &ClientVersion| if stream { known.stream.inc() } else { known.unary.inc() };
        if let Some(known) = self.client_versions.read().iter().find(|known| known.version == version) {
            return count(known);
        }
        let mut versions = self.client_versions.write();
        let is_other = versions.len() >= MAX_CLIENT_VERSIONS || version.len() > MAX_CLIENT_VERSION_BYTES;
        let version = if is_other { OTHER_VERSIONS } else { version };
        if let Some(known) = versions.iter().find(|known| known.version == version) {
            return count(known);
        }
        let with = |kind| self.client_requests.with_label_values(&[kind, version]);
        let new = ClientVersion { version: version.to_owned(), unary: with("unary"), stream: with("stream") };
        count(&new);
        versions.push(new);
    }
}
