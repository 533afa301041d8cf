//! States, read at each scrape.

use prometheus::{Gauge, GaugeVec, IntCounter, IntCounterVec, Result};

use super::own::OwnMetrics;
use super::register::MetricRegister;

/// Tells the state of this member.
pub trait GaugeSource: Send + Sync {
    /// The state now. Called for each scrape; should not block.
    fn gauges(&self) -> Gauges;
}

/// The state of a member.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the table below says of each what it is")]
pub struct Gauges {
    pub member_id: u64,
    pub cluster_version: Option<String>,
    pub has_leader: bool,
    pub is_leader: bool,
    pub is_learner: bool,
    pub leader_changes: u64,
    pub proposals_failed: u64,
    pub puts: u64,
    pub deletes: u64,
    pub txns: u64,
    pub ranges: u64,
    pub compacted_versions: u64,
    pub leases_renewed: u64,
    pub leases_expired: u64,
    pub failed_rounds: u64,
    pub late_reads: u64,
    pub watch_events: u64,
    pub proposals_committed: u64,
    pub proposals_applied: u64,
    pub proposals_pending: u64,
    /// Seconds that the write to the log under way has taken.
    pub write_pending_s: f64,
    pub snapshots_installing: u64,
    pub scrubbed_bytes: u64,
    pub scrub_rounds: u64,
    pub db_size_bytes: u64,
    pub db_size_in_use_bytes: u64,
    pub open_reads: u64,
    pub quota_bytes: u64,
    pub memory_limit_bytes: u64,
    /// Accounted bytes of memory, by component.
    pub memory: Vec<(&'static str, u64)>,
    pub put_size_bytes: u64,
    pub keys: u64,
    pub watchers: u64,
    pub slow_watchers: u64,
    pub watch_streams: u64,
    pub pending_events: u64,
    pub current_revision: i64,
    pub compact_revision: i64,
    /// When the last compaction was purged, in seconds since 1970; 0 before the first.
    pub compacted_at_s: u64,
    pub relocation_debt_bytes: u64,
    pub repairs_pending: u64,
    /// What waits, by queue.
    pub queues: Vec<(&'static str, u64)>,
    /// Seconds that a new request would wait, by queue.
    pub waits: Vec<(&'static str, f64)>,
    pub auth_revision: u64,
    /// Active alarms, by name: `NOSPACE`, `CORRUPT`.
    pub alarms: Vec<(u64, &'static str)>,
    /// The other members.
    pub peers: Vec<PeerGauges>,
}

/// The state of the connection to another member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerGauges {
    /// Its id.
    pub id: u64,
    /// Whether there is a connection.
    pub connected: bool,
    /// Bytes sent to it so far.
    pub sent_bytes: u64,
    /// Bytes received from it so far.
    pub received_bytes: u64,
    /// Frames that were dropped instead of sent.
    pub send_failures: u64,
    /// Connections from it that ended by an error.
    pub receive_failures: u64,
    /// Times that it was disconnected.
    pub disconnects: u64,
    /// Bytes that its sockets have not taken yet, by stream.
    pub queued_bytes: [(&'static str, u64); 2],
}

type GaugeValue = fn(&Gauges) -> f64;

const fn flag(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}

/// Name, meaning and value of each gauge without labels.
#[rustfmt::skip]
const GAUGES: [(&str, &str, GaugeValue); 29] = [
    ("etcd_server_has_leader", "Whether this member knows a leader", |g| flag(g.has_leader)),
    ("etcd_server_is_leader", "Whether this member leads", |g| flag(g.is_leader)),
    ("etcd_server_is_learner", "Whether this member is a learner", |g| flag(g.is_learner)),
    ("etcd_server_proposals_committed_total", "Index of the last entry committed", |g| g.proposals_committed as f64),
    ("etcd_server_proposals_applied_total", "Index of the last entry applied", |g| g.proposals_applied as f64),
    ("etcd_server_proposals_pending", "Commands of clients waiting for their answers", |g| g.proposals_pending as f64),
    ("etcd_server_snapshot_apply_in_progress_total", "Snapshots from the leader being installed", |g| g.snapshots_installing as f64),
    ("etcd_server_quota_backend_bytes", "The quota, or what the file system has room for", |g| g.quota_bytes as f64),
    ("stele_write_pending_seconds", "Seconds that the write to the log under way has taken", |g| g.write_pending_s),
    ("stele_scrubbed_bytes", "Bytes of entries and values read again since the start, to find damage", |g| g.scrubbed_bytes as f64),
    ("stele_scrub_rounds", "Times that all entries and values were read again since the start", |g| g.scrub_rounds as f64),
    ("stele_memory_limit_bytes", "Accounted bytes above which writes are refused; 0 for none", |g| g.memory_limit_bytes as f64),
    ("etcd_mvcc_db_total_size_in_bytes", "Bytes written in the files of the data directory", |g| g.db_size_bytes as f64),
    ("etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes of them that versions need", |g| g.db_size_in_use_bytes as f64),
    ("etcd_mvcc_db_open_read_transactions", "Reads that hold files in place", |g| g.open_reads as f64),
    ("etcd_debugging_mvcc_total_put_size_in_bytes", "Bytes of keys and values put", |g| g.put_size_bytes as f64),
    ("etcd_debugging_mvcc_keys_total", "Live keys", |g| g.keys as f64),
    ("etcd_debugging_mvcc_watcher_total", "Watchers", |g| g.watchers as f64),
    ("etcd_debugging_mvcc_slow_watcher_total", "Watchers that are catching up", |g| g.slow_watchers as f64),
    ("etcd_debugging_mvcc_watch_stream_total", "Watch streams", |g| g.watch_streams as f64),
    ("etcd_debugging_mvcc_pending_events_total", "Events waiting to be sent to watchers", |g| g.pending_events as f64),
    ("etcd_debugging_mvcc_current_revision", "Newest revision", |g| g.current_revision as f64),
    ("etcd_debugging_mvcc_compact_revision", "Revision up to which history is gone", |g| g.compact_revision as f64),
    ("etcd_debugging_mvcc_db_compaction_last", "When the last one was purged, in seconds since 1970", |g| g.compacted_at_s as f64),
    ("stele_relocation_debt_bytes", "Bytes in files that nothing refers to any more", |g| g.relocation_debt_bytes as f64),
    ("stele_repairs_pending", "Damaged entries and values that are being repaired", |g| g.repairs_pending as f64),
    ("go_memstats_alloc_bytes", "Accounted bytes of memory: data and buffers", |g| accounted(g) as f64),
    ("go_memstats_heap_alloc_bytes", "Accounted bytes of memory: data and buffers", |g| accounted(g) as f64),
    ("etcd_debugging_auth_revision", "Revision of users and roles", |g| g.auth_revision as f64),
];

fn accounted(gauges: &Gauges) -> u64 {
    gauges.memory.iter().map(|(_, bytes)| bytes).sum()
}

type CounterValue = fn(&Gauges) -> u64;

/// Name, meaning and value of each counter that the member keeps itself.
#[rustfmt::skip]
const COUNTERS: [(&str, &str, CounterValue); 12] = [
    ("etcd_server_leader_changes_seen_total", "Changes of leader seen", |g| g.leader_changes),
    ("etcd_server_proposals_failed_total", "Commands of clients that got no agreement in time", |g| g.proposals_failed),
    ("etcd_mvcc_range_total", "Ranges served and applied", |g| g.ranges),
    ("etcd_debugging_mvcc_db_compaction_keys_total", "Versions removed by compaction", |g| g.compacted_versions),
    ("etcd_debugging_lease_renewed_total", "Keep-alives acknowledged as leader", |g| g.leases_renewed),
    ("etcd_debugging_server_lease_expired_total", "Leases expired as leader", |g| g.leases_expired),
    ("etcd_server_slow_read_indexes_total", "Linearizable reads that timed out", |g| g.late_reads),
    ("etcd_server_read_indexes_failed_total", "ReadIndex rounds that a change of leadership ended", |g| g.failed_rounds),
    ("etcd_mvcc_put_total", "Puts applied", |g| g.puts),
    ("etcd_mvcc_delete_total", "Deletions applied", |g| g.deletes),
    ("etcd_mvcc_txn_total", "Transactions applied", |g| g.txns),
    ("etcd_debugging_mvcc_events_total", "Events sent to watchers", |g| g.watch_events),
];

pub(super) struct ScrapedGauges {
    plain: Vec<(Gauge, GaugeValue)>,
    counters: Vec<(IntCounter, CounterValue)>,
    id: GaugeVec,
    cluster_version: GaugeVec,
    alarms: GaugeVec,
    memory: GaugeVec,
    known_peers: GaugeVec,
    active_peers: GaugeVec,
    peer_sent: IntCounterVec,
    peer_received: IntCounterVec,
    peer_sent_failures: IntCounterVec,
    peer_received_failures: IntCounterVec,
    peer_disconnects: IntCounterVec,
}

impl ScrapedGauges {
    pub(super) fn new(r: &MetricRegister<'_>) -> Result<ScrapedGauges> {
        let plain = GAUGES.into_iter().map(|(name, help, read)| Ok((r.gauge(name, help)?, read)));
        let counters = COUNTERS.into_iter().map(|(name, help, count)| Ok((r.counter(name, help)?, count)));
        Ok(ScrapedGauges {
            plain: plain.collect::<Result<_>>()?,
            counters: counters.collect::<Result<_>>()?,
            id: r.gauges(
                "etcd_server_id",
                "Id of this member, as label 'server_id'; always 1",
                &["server_id"],
            )?,
            cluster_version: r.gauges(
                "etcd_cluster_version",
                "Version of the cluster, as label 'cluster_version'; always 1",
                &["cluster_version"],
            )?,
            alarms: r.gauges(
                "etcd_debugging_server_alarms",
                "Active alarms; always 1",
                &["server_id", "alarm_type"],
            )?,
            memory: r.gauges(
                "stele_memory_accounted_bytes",
                "Bytes of memory that data and buffers are accounted for",
                &["component"],
            )?,
            known_peers: r.gauges("etcd_network_known_peers", "Members; always 1", &["Local", "Remote"])?,
            active_peers: r.gauges(
                "etcd_network_active_peers",
                "Whether a peer is connected",
                &["Local", "Remote"],
            )?,
            peer_sent: r.counters("etcd_network_peer_sent_bytes_total", "Bytes sent to a peer", &["To"])?,
            peer_received: r.counters(
                "etcd_network_peer_received_bytes_total",
                "Bytes received of a peer",
                &["From"],
            )?,
            peer_sent_failures: r.counters(
                "etcd_network_peer_sent_failures_total",
                "Messages to a peer that were dropped",
                &["To"],
            )?,
            peer_received_failures: r.counters(
                "etcd_network_peer_received_failures_total",
                "Connections from a peer that ended by an error",
                &["From"],
            )?,
            peer_disconnects: r.counters(
                "etcd_network_disconnected_peers_total",
                "Times that a peer was disconnected",
                &["Local", "Remote"],
            )?,
        })
    }

    /// Sets all metrics to the states of the source.
    pub(super) fn set(&self, gauges: &Gauges, own: &OwnMetrics) {
        self.plain.iter().for_each(|(gauge, read)| gauge.set(read(gauges)));
        self.counters.iter().for_each(|(counter, count)| raise(counter, count(gauges)));
        let id = format!("{:x}", gauges.member_id);
        // Labels are states here: those of the last scrape are removed.
        for labelled in [&self.id, &self.cluster_version, &self.alarms, &self.known_peers, &self.active_peers]
        {
            labelled.reset();
        }
        self.id.with_label_values(&[&id]).set(1.0);
        if let Some(version) = &gauges.cluster_version {
            let short = version.rsplit_once('.').map_or(version.as_str(), |(short, _)| short);
            self.cluster_version.with_label_values(&[short]).set(1.0);
        }
        for (member, alarm) in &gauges.alarms {
            self.alarms.with_label_values(&[format!("{member:x}").as_str(), alarm]).set(1.0);
        }
        for (component, bytes) in &gauges.memory {
            self.memory.with_label_values(&[component]).set(*bytes as f64);
        }
        for (queue, length) in &gauges.queues {
            own.queue_length(queue).set(i64::try_from(*length).unwrap_or(i64::MAX));
        }
        for (queue, seconds) in &gauges.waits {
            own.queue_waits.with_label_values(&[queue]).set(*seconds);
        }
        own.peer_queued_bytes.reset();
        // As in etcd, a member is among those that it knows.
        self.known_peers.with_label_values(&[&id, &id]).set(1.0);
        for peer in &gauges.peers {
            let remote = format!("{:x}", peer.id);
            self.known_peers.with_label_values(&[&id, &remote]).set(1.0);
            self.active_peers.with_label_values(&[&id, &remote]).set(flag(peer.connected));
            raise(&self.peer_sent.with_label_values(&[&remote]), peer.sent_bytes);
            raise(&self.peer_received.with_label_values(&[&remote]), peer.received_bytes);
            raise(&self.peer_sent_failures.with_label_values(&[&remote]), peer.send_failures);
            raise(&self.peer_received_failures.with_label_values(&[&remote]), peer.receive_failures);
            raise(&self.peer_disconnects.with_label_values(&[&id, &remote]), peer.disconnects);
            for (stream, bytes) in peer.queued_bytes {
                own.peer_queued_bytes.with_label_values(&[remote.as_str(), stream]).set(bytes as f64);
            }
        }
    }
}

/// Raises a counter to `value`; it never goes back.
fn raise(counter: &IntCounter, value: u64) {
    counter.inc_by(value.saturating_sub(counter.get()));
}
