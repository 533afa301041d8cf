//! Metrics of what etcd does not have: batches, the group-commit delay, steps of the raft loop, background jobs, and
//! what waits in queues.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Result,
};

use super::pending_write::PendingWrite;
use super::register::MetricRegister;
use super::sharded::Buckets;

/// Buckets of the commands of a batch: up to as many as one may have.
const COMMANDS: Buckets = (1.0, 2.0, 11);
/// Buckets of the bytes of a batch, from 64 to 64 MiB.
const BYTES: Buckets = (64.0, 4.0, 11);
/// Buckets of delays and steps, from 10 µs to 5 s.
const FROM_10_US: Buckets = (0.000_01, 2.0, 20);
/// Buckets of background jobs, from 100 µs to 52 s.
const JOB: Buckets = (0.0001, 2.0, 20);

/// Calls that were refused, by reason. All are shown from the start.
pub struct RefusedRequests {
    /// A command would have waited longer than `--max-request-wait`.
    pub command_wait: IntCounter,
    /// A linearizable read would have.
    pub read_wait: IntCounter,
    /// A long range would have.
    pub range_wait: IntCounter,
    /// A command or linearizable read of an RPC worker that is too far behind.
    pub worker_wait: IntCounter,
    /// Too many committed entries are not applied yet.
    pub apply_lag: IntCounter,
    /// `--client-max-request-rate`.
    pub client_requests: IntCounter,
    /// `--client-max-bytes-rate`.
    pub client_bytes: IntCounter,
    /// `--client-max-streams`.
    pub client_streams: IntCounter,
}

impl RefusedRequests {
    fn new(r: &MetricRegister<'_>) -> Result<RefusedRequests> {
        let help = "Calls refused because there was too much to do";
        let family = r.counters("stele_refused_requests_total", help, &["reason"])?;
        let reason = |reason: &str| family.with_label_values(&[reason]);
        Ok(RefusedRequests {
            command_wait: reason("command_wait"),
            read_wait: reason("read_wait"),
            range_wait: reason("range_wait"),
            worker_wait: reason("worker_wait"),
            apply_lag: reason("apply_lag"),
            client_requests: reason("client_requests"),
            client_bytes: reason("client_bytes"),
            client_streams: reason("client_streams"),
        })
    }
}

/// What a continuous backup of this member does, while it leads.
pub struct BackupMetrics {
    /// The age of the oldest acknowledged change that is not in the archive, in seconds.
    pub lag_seconds: Gauge,
    /// The revision that the archive has.
    pub revision: Gauge,
    /// Bytes written.
    pub bytes: IntCounter,
    /// Log objects written.
    pub log_objects: IntCounter,
    /// Copies of the state written.
    pub bases: IntCounter,
    /// Steps that failed; they are repeated.
    pub failures: IntCounter,
}

impl BackupMetrics {
    #[rustfmt::skip]
    fn new(r: &MetricRegister<'_>) -> Result<BackupMetrics> {
        Ok(BackupMetrics {
            lag_seconds: r.gauge("stele_backup_lag_seconds", "Seconds that the archive is behind, on the leader")?,
            revision: r.gauge("stele_backup_revision", "Revision that the archive has, on the member that writes it")?,
            bytes: r.counter("stele_backup_bytes_total", "Bytes written into the archive")?,
            log_objects: r.counter("stele_backup_log_objects_total", "Objects with entries written into the archive")?,
            bases: r.counter("stele_backup_bases_total", "Copies of the state written into the archive")?,
            failures: r.counter("stele_backup_failures_total", "Steps of the backup that failed and are repeated")?,
        })
    }
}

/// Metrics named `stele_` that are counted where something happens.
pub struct OwnMetrics {
    /// Commands of a batch that this member proposed.
    pub batch_commands: Histogram,
    /// Bytes of a batch that this member proposed.
    pub batch_bytes: Histogram,
    /// Seconds from when commands waited to when their batch was proposed.
    pub group_commit_delay: Histogram,
    /// Seconds of a step of the raft loop that applied something.
    pub apply_step: Histogram,
    /// The write to the log that is under way.
    pub pending_write: PendingWrite,
    /// What a continuous backup does.
    pub backup: BackupMetrics,
    /// Spans that a collector took.
    pub spans_exported: IntCounter,
    /// Spans that were lost, by reason.
    pub spans_dropped: IntCounterVec,
    /// Calls refused because there was too much to do.
    pub refusals: RefusedRequests,
    jobs: HistogramVec,
    pub(super) queue_waits: GaugeVec,
    queue_lengths: IntGaugeVec,
    pub(super) peer_queued_bytes: GaugeVec,
}

impl OwnMetrics {
    #[rustfmt::skip]
    pub(super) fn new(r: &MetricRegister<'_>) -> Result<OwnMetrics> {
        Ok(OwnMetrics {
            batch_commands: r.histogram("stele_batch_commands", "Commands of a proposed batch", COMMANDS)?,
            batch_bytes: r.histogram("stele_batch_bytes", "Bytes of a proposed batch", BYTES)?,
            group_commit_delay: r.histogram("stele_group_commit_delay_seconds", "Wait for a batch", FROM_10_US)?,
            apply_step: r.histogram("stele_apply_step_duration_seconds", "Time of a step that applied", FROM_10_US)?,
            spans_exported: r.counter("stele_spans_exported_total", "Spans that a collector took")?,
            spans_dropped: r.counters("stele_spans_dropped_total", "Spans that were lost", &["reason"])?,
            pending_write: PendingWrite::default(),
            backup: BackupMetrics::new(r)?,
            refusals: RefusedRequests::new(r)?,
            queue_waits: r.gauges("stele_queue_wait_seconds", "Wait of a new request in a queue", &["queue"])?,
            jobs: r.histograms("stele_background_job_duration_seconds", "Time of background jobs", &["kind"], JOB)?,
            queue_lengths: r.int_gauges("stele_queue_length", "What waits in a queue", &["queue"])?,
            peer_queued_bytes: r.gauges("stele_peer_queued_bytes", "Bytes queued for a peer", &["To", "stream"])?,
        })
    }

    /// The times of background jobs of this kind.
    pub fn job(&self, kind: &str) -> Histogram {
        self.jobs.with_label_values(&[kind])
    }

    /// The length of a queue. Resolve once, change often.
    pub fn queue_length(&self, queue: &str) -> IntGauge {
        self.queue_lengths.with_label_values(&[queue])
    }
}
