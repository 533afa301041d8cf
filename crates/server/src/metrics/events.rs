//! Counters and histograms of events.

use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, Result};

use super::register::MetricRegister;
use super::sharded::{Buckets, ShardedCounter, ShardedFamily, ShardedHistogram};

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
/// Buckets of freeing space in a file.
const DEFRAGMENT: Buckets = (0.1, 2.0, 13);
/// Buckets of installing a snapshot.
const INSTALL: Buckets = (0.1, 2.0, 10);
/// Buckets of a compaction, in milliseconds.
const COMPACTION_MS: Buckets = (100.0, 2.0, 14);
/// Buckets of TTLs, from one second to half a year.
const TTL: Buckets = (1.0, 2.0, 24);

/// Client versions that are counted apart: a client chooses its version, and each costs memory for good.
const MAX_CLIENT_VERSIONS: usize = 64;

/// Longest version that is counted by itself: real ones have ten bytes.
const MAX_CLIENT_VERSION_BYTES: usize = 64;

/// Client version under which all beyond the limit are counted.
const OTHER_VERSIONS: &str = "unknown";

/// Kinds of requests whose time inside the server is shown, as etcd names them. It shows them once there was one; here
/// they are shown from the start.
const REQUEST_KINDS: [&str; 26] = [
    "Range",
    "ReadonlyTxn",
    "Put",
    "DeleteRange",
    "Txn",
    "Compaction",
    "LeaseGrant",
    "LeaseRevoke",
    "Alarm",
    "Authenticate",
    "AuthEnable",
    "AuthDisable",
    "AuthStatus",
    "AuthUserAdd",
    "AuthUserGet",
    "AuthUserList",
    "AuthUserDelete",
    "AuthUserChangePassword",
    "AuthUserGrantRole",
    "AuthUserRevokeRole",
    "AuthRoleAdd",
    "AuthRoleGet",
    "AuthRoleList",
    "AuthRoleDelete",
    "AuthRoleGrantPermission",
    "AuthRoleRevokePermission",
];

/// Durations, by whether the operation succeeded. Resolve once, observe often.
#[derive(Clone)]
pub struct OutcomeTimes {
    succeeded: ShardedHistogram,
    failed: ShardedHistogram,
}

impl OutcomeTimes {
    fn new(histograms: &ShardedFamily, labels: &[&str]) -> OutcomeTimes {
        let with = |success| histograms.histogram(&[labels, &[success]].concat());
        OutcomeTimes { succeeded: with("true"), failed: with("false") }
    }

    /// Adds one duration.
    pub fn observe(&self, success: bool, time: Duration) {
        self.observe_equal(success, time, 1);
    }

    /// Adds `count` durations of the same length.
    pub fn observe_equal(&self, success: bool, each: Duration, count: u64) {
        if success {
            self.succeeded.observe_equal(each, count);
        } else {
            self.failed.observe_equal(each, count);
        }
    }
}

/// A client version that was seen, and its counters.
struct ClientVersion {
    version: String,
    unary: ShardedCounter,
    stream: ShardedCounter,
}

/// Versions that were seen, in order. A call only looks, which takes no lock; a new version takes one, as long as there
/// is room for it.
struct ClientVersions {
    family: ShardedFamily,
    known: [OnceLock<ClientVersion>; MAX_CLIENT_VERSIONS],
    others: ClientVersion,
    adding: Mutex<()>,
}

impl ClientVersion {
    fn new(family: &ShardedFamily, version: &str) -> ClientVersion {
        let with = |kind| family.counter(&[kind, version]);
        ClientVersion { version: version.to_owned(), unary: with("unary"), stream: with("stream") }
    }
}

impl ClientVersions {
    fn new(family: ShardedFamily) -> ClientVersions {
        let others = ClientVersion::new(&family, OTHER_VERSIONS);
        let known = [const { OnceLock::new() }; MAX_CLIENT_VERSIONS];
        ClientVersions { family, known, others, adding: Mutex::new(()) }
    }

    fn find(&self, version: &str) -> Option<&ClientVersion> {
        self.known.iter().map_while(OnceLock::get).find(|known| known.version == version)
    }

    fn count(&self, stream: bool, version: &str) {
        let of = self.of(version);
        if stream { of.stream.inc() } else { of.unary.inc() }
    }

    /// The counters of a version; those of `unknown` for one that is beyond the limits, which takes no lock.
    fn of(&self, version: &str) -> &ClientVersion {
        if version == OTHER_VERSIONS || version.len() > MAX_CLIENT_VERSION_BYTES {
            return &self.others;
        }
        if let Some(known) = self.find(version) {
            return known;
        }
        let is_full = self.known.last().is_some_and(|last| last.get().is_some());
        if is_full { &self.others } else { self.add(version) }
    }

    fn add(&self, version: &str) -> &ClientVersion {
        let _adding = self.adding.lock();
        // Another thread may have been faster.
        if let Some(known) = self.find(version) {
            return known;
        }
        let free = self.known.iter().find(|known| known.get().is_none());
        free.map_or(&self.others, |free| free.get_or_init(|| ClientVersion::new(&self.family, version)))
    }
}

/// Events of a server. Any thread may count.
pub struct EventMetrics {
    /// Leases granted.
    pub leases_granted: IntCounter,
    /// Leases revoked or expired.
    pub leases_revoked: IntCounter,
    /// TTLs granted, in seconds.
    pub lease_ttls: Histogram,
    /// Milliseconds from the first to the last purged version of a compaction.
    pub compaction_ms: Histogram,
    /// Seconds a sync of the log took.
    pub wal_fsync: Histogram,
    /// Seconds a write to the log took.
    pub wal_write: Histogram,
    /// Bytes written to the log.
    pub wal_written_bytes: Gauge,
    /// Seconds a flush took: its writes and its syncs.
    pub commit: Histogram,
    /// Seconds until a call of Defragment was answered.
    pub defragment: Histogram,
    /// Seconds of writing a checkpoint.
    pub checkpoint: Histogram,
    /// Seconds of installing a snapshot from the leader.
    pub snapshot_install: Histogram,
    /// Seconds of sending all data to a client.
    pub snapshot_transfer: Histogram,
    /// Seconds of hashing at a revision.
    pub hash_rev: Histogram,
    /// Seconds of hashing everything.
    pub hash: Histogram,
    /// Applies that took longer than the warning threshold.
    pub slow_applies: IntCounter,
    /// Heartbeats the leader could not send in time.
    pub heartbeat_send_failures: IntCounter,
    /// Learners that became voters.
    pub learner_promotions: IntCounter,
    /// Learners that did not, by the error.
    pub learner_promote_failures: IntCounterVec,
    /// Health checks passed.
    pub health_success: IntCounter,
    /// Health checks failed.
    pub health_failures: IntCounter,
    /// Bytes received from clients by gRPC.
    pub client_received_bytes: ShardedCounter,
    /// Bytes sent to clients by gRPC.
    pub client_sent_bytes: ShardedCounter,
    /// Connections closed because too many are open, of clients and of others.
    pub refused_connections: IntCounterVec,
    /// Damaged entries and values that were found, by whatever read them.
    pub damage_found: IntCounter,
    /// Damaged entries and values that were written again with a peer's copy.
    pub damage_repaired: IntCounter,
    applies: ShardedFamily,
    requests: ShardedFamily,
    range_durations: ShardedFamily,
    round_trips: HistogramVec,
    health_checks: IntCounterVec,
    health_results: GaugeVec,
    client_versions: ClientVersions,
}

impl EventMetrics {
    #[rustfmt::skip]
    pub(super) fn new(r: &MetricRegister<'_>) -> Result<EventMetrics> {
        let labels = ["type", "client_api_version"];
        let client_requests = r.sharded_counters("etcd_server_client_requests_total", "Requests by version of the client", &labels)?;
        let events = EventMetrics {
            leases_granted: r.counter("etcd_debugging_lease_granted_total", "Leases granted")?,
            leases_revoked: r.counter("etcd_debugging_lease_revoked_total", "Leases revoked")?,
            lease_ttls: r.histogram("etcd_debugging_lease_ttl_total", "TTLs of granted leases, in seconds", TTL)?,
            compaction_ms: r.histogram("etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", "Time of purging", COMPACTION_MS)?,
            wal_fsync: r.histogram("etcd_disk_wal_fsync_duration_seconds", "Time of syncs of the log", FROM_1_MS)?,
            wal_write: r.histogram("etcd_disk_wal_write_duration_seconds", "Time of writes to the log", FROM_1_MS)?,
            wal_written_bytes: r.gauge("etcd_disk_wal_write_bytes_total", "Bytes written to the log")?,
            commit: r.histogram("etcd_disk_backend_commit_duration_seconds", "Time of flushes of the log: writes and syncs", FROM_1_MS)?,
            defragment: r.histogram("etcd_disk_backend_defrag_duration_seconds", "Time until Defragment was answered", DEFRAGMENT)?,
            checkpoint: r.histogram("etcd_debugging_snap_save_total_duration_seconds", "Time of writing checkpoints", FROM_1_MS)?,
            snapshot_install: r.histogram("etcd_snap_db_save_total_duration_seconds", "Time of installing snapshots from the leader", INSTALL)?,
            snapshot_transfer: r.histogram("etcd_disk_backend_snapshot_duration_seconds", "Time of sending a backup to a client", TRANSFER)?,
            hash_rev: r.histogram("etcd_mvcc_hash_rev_duration_seconds", "Time of hashing at a revision", FROM_10_MS)?,
            hash: r.histogram("etcd_mvcc_hash_duration_seconds", "Time of hashing all data", FROM_10_MS)?,
            slow_applies: r.counter("etcd_server_slow_apply_total", "Applies that took longer than the warning threshold")?,
            heartbeat_send_failures: r.counter("etcd_server_heartbeat_send_failures_total", "Heartbeats the leader could not send in time")?,
            learner_promotions: r.counter("etcd_server_learner_promote_successes", "Learners promoted while this member led")?,
            health_success: r.counter("etcd_server_health_success", "Health checks passed")?,
            health_failures: r.counter("etcd_server_health_failures", "Health checks failed")?,
            client_received_bytes: r.sharded_counter("etcd_network_client_grpc_received_bytes_total", "Bytes received from gRPC clients")?,
            client_sent_bytes: r.sharded_counter("etcd_network_client_grpc_sent_bytes_total", "Bytes sent to gRPC clients")?,
            learner_promote_failures: r.counters("etcd_server_learner_promote_failures", "Learners not promoted while this member led", &["Reason"])?,
            refused_connections: r.counters("stele_refused_connections_total", "Connections closed at once because too many are open", &["kind"])?,
            damage_found: r.counter("stele_damage_found_total", "Damaged entries and values that were found")?,
            damage_repaired: r.counter("stele_damage_repaired_total", "Damaged entries and values that were repaired with a peer's copy")?,
            applies: r.request_times("etcd_server_apply_duration_seconds", "Time of applying a command", &["version", "op", "success"], FROM_100_US)?,
            requests: r.request_times("etcd_server_request_duration_seconds", "Time of requests inside the server", &["type", "success"], FROM_1_MS)?,
            range_durations: r.request_times("etcd_server_range_duration_seconds", "Time of ranges inside the server", &["success"], FROM_100_US)?,
            round_trips: r.histograms("etcd_network_peer_round_trip_time_seconds", "Round trips between members", &["To"], ROUND_TRIP)?,
            health_checks: r.counters("etcd_server_healthchecks_total", "Checks of /livez and /readyz", &["type", "name", "status"])?,
            health_results: r.gauges("etcd_server_healthcheck", "Whether a check of /livez or /readyz passed when last asked for", &["type", "name"])?,
            client_versions: ClientVersions::new(client_requests),
        };
        REQUEST_KINDS.iter().for_each(|kind| drop(events.requests(kind)));
        drop(events.range_durations());
        Ok(events)
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

    /// This peer is none any more: its series ends.
    pub fn forget_peer(&self, peer: u64) {
        // There is none if no round trip was measured.
        let _ = self.round_trips.remove_label_values(&[format!("{peer:x}")]);
    }

    /// Counts a check of `/livez` or `/readyz`.
    pub fn health_check(&self, kind: &str, name: &str, passed: bool) {
        let status = if passed { "success" } else { "error" };
        self.health_checks.with_label_values(&[kind, name, status]).inc();
        self.health_results.with_label_values(&[kind, name]).set(f64::from(u8::from(passed)));
    }

    /// Counts a request of a client that claims this version.
    pub fn client_request(&self, stream: bool, version: &str) {
        self.client_versions.count(stream, version);
    }
}
