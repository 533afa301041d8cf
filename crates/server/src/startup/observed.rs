//! The member as health checks and scrapes see it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::etcdserverpb::{AlarmType, Member};
use log::{Disk, RealDisk};
use store::HashKvReply;
use transport::{PeerStatistics, Peers, StreamClass};

use crate::auth::{Credentials, Needs};
use crate::http::{BoxFuture, Endpoints, HashKvResult, Health};
use crate::metrics::{GaugeSource, Gauges, PeerGauges};
use crate::node::Node;

/// A member and its connections.
pub(crate) struct Observed {
    node: Arc<Node>,
    peers: Arc<Peers>,
    data_dir: PathBuf,
}

impl Observed {
    /// What the HTTP endpoints share, over this member.
    pub(crate) fn endpoints(node: &Arc<Node>, peers: &Arc<Peers>, data_dir: &Path) -> Endpoints {
        let data_dir = data_dir.to_owned();
        let observed = Arc::new(Observed { node: node.clone(), peers: peers.clone(), data_dir });
        Endpoints { health: observed.clone(), metrics: node.metrics.clone(), source: observed }
    }

    fn alarms_by_member(&self) -> Vec<(u64, AlarmType)> {
        let kind = |alarm: i32| AlarmType::try_from(alarm).unwrap_or(AlarmType::None);
        self.node.reader.alarms().iter().map(|alarm| (alarm.member_id, kind(alarm.alarm))).collect()
    }
}

impl Observed {
    /// The quota; without one, what the data directory may grow to on its file system. The alert rules of etcd compare
    /// the size of the data with it.
    fn quota_bytes(&self, total_bytes: u64) -> u64 {
        match self.node.live.quota_bytes() {
            0 => total_bytes.saturating_add(RealDisk.free_bytes(&self.data_dir).unwrap_or(u64::MAX)),
            quota => quota,
        }
    }

    fn peer(&self, statistics: &PeerStatistics) -> PeerGauges {
        let queued = |class| self.peers.in_flight_bytes(statistics.peer, class) as u64;
        PeerGauges {
            id: statistics.peer,
            connected: statistics.control_since.is_some(),
            sent_bytes: statistics.sent_bytes,
            received_bytes: statistics.received_bytes,
            send_failures: statistics.send_failures,
            receive_failures: statistics.receive_failures,
            disconnects: statistics.disconnects,
            queued_bytes: [("control", queued(StreamClass::Control)), ("bulk", queued(StreamClass::Bulk))],
        }
    }
}

impl Health for Observed {
    fn linearizable_read(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { self.node.linearize().await.map_err(|e| e.to_string()) })
    }

    fn serializable_read(&self) -> BoxFuture<'_, Result<(), String>> {
        // The index is in memory: it can be read whenever this process runs, unless it may be that of no member.
        Box::pin(async { self.node.check_serves().map_err(|e| e.to_string()) })
    }

    fn has_leader(&self) -> bool {
        self.node.has_leader()
    }

    fn is_learner(&self) -> bool {
        self.node.is_learner()
    }

    fn alarms(&self) -> Vec<AlarmType> {
        self.alarms_by_member().into_iter().map(|(_, alarm)| alarm).collect()
    }

    fn members(&self) -> Vec<Member> {
        self.node.members()
    }

    fn promote(&self, id: u64, credentials: Credentials) -> BoxFuture<'_, Result<Vec<Member>, api::Error>> {
        Box::pin(async move {
            self.node.admit(Needs::Root, &credentials).await?;
            self.node.promote(id).await
        })
    }

    fn cluster_id(&self) -> u64 {
        self.node.cluster_id
    }

    fn lineage(&self) -> u64 {
        self.node.reader.lineage()
    }

    fn cluster_version(&self) -> Option<String> {
        self.node.reader.cluster_version()
    }

    fn storage_version(&self) -> Option<String> {
        Some(self.node.storage_version())
    }

    fn is_downgrading(&self) -> bool {
        self.node.reader.downgrade_target().is_some()
    }

    fn hash_kv(&self, revision: i64) -> BoxFuture<'_, Result<HashKvResult, String>> {
        Box::pin(async move {
            let reply = self.node.hash_kv(revision).await.map_err(|error| error.to_string())?;
            let HashKvReply { hash, compact_revision, hash_revision, revision } = reply;
            Ok(HashKvResult { hash, compact_revision, hash_revision, revision })
        })
    }
}

impl GaugeSource for Observed {
    fn gauges(&self) -> Gauges {
        let (node, status) = (&self.node, &self.node.status);
        let (counts, watches, sizes) = (node.reader.counts(), node.hub.stats(), node.db_sizes());
        Gauges {
            member_id: node.member_id,
            cluster_version: node.reader.cluster_version(),
            has_leader: node.has_leader(),
            is_leader: status.leader() == node.member_id,
            is_learner: node.is_learner(),
            leader_changes: status.leader_changes(),
            proposals_failed: status.failed(),
            puts: counts.puts,
            deletes: counts.deletes,
            txns: counts.txns,
            ranges: counts.ranges,
            compacted_versions: counts.purged,
            put_size_bytes: counts.put_bytes,
            leases_renewed: status.leases_renewed(),
            leases_expired: status.leases_expired(),
            failed_rounds: status.failed_rounds(),
            late_reads: status.late_reads(),
            watch_events: watches.events_sent,
            proposals_committed: status.committed_index(),
            proposals_applied: status.applied_index(),
            proposals_pending: status.pending(),
            write_pending_s: self.node.metrics.own.pending_write.waited().as_secs_f64(),
            db_size_bytes: sizes.total,
            db_size_in_use_bytes: sizes.in_use,
            memory_limit_bytes: status.memory_limit_bytes(),
            memory: status.memory().to_vec(),
            quota_bytes: self.quota_bytes(sizes.total),
            keys: counts.keys,
            watchers: watches.watchers as u64,
            slow_watchers: watches.slow_watchers as u64,
            watch_streams: watches.streams as u64,
            pending_events: watches.pending_events as u64,
            current_revision: node.reader.current_revision(),
            compact_revision: node.reader.compacted(),
            compacted_at_s: status.compacted_at_s(),
            relocation_debt_bytes: node.log.file_bytes().saturating_sub(node.log.live_bytes()),
            repairs_pending: status.repairs(),
            open_reads: node.log.pins(),
            queues: vec![
                ("input", node.handoff.waiting_inputs() as u64),
                ("proposals", status.waiting_commands()),
                ("read_index", status.waiting_reads()),
            ],
            waits: vec![
                ("commands", node.handoff.waits().commands().as_secs_f64()),
                ("reads", node.handoff.waits().reads().as_secs_f64()),
                ("workers", node.handoff.take_worker_wait().as_secs_f64()),
                ("ranges", node.large_ranges.longest_wait().as_secs_f64()),
            ],
            auth_revision: node.reader.auth_revision(),
            alarms: self
                .alarms_by_member()
                .iter()
                .map(|(member, alarm)| (*member, alarm.as_str_name()))
                .collect(),
            peers: self.peers.statistics().iter().map(|statistics| self.peer(statistics)).collect(),
            snapshots_installing: status.snapshots_installing(),
            scrubbed_bytes: status.scrubbed_bytes(),
            scrub_rounds: status.scrub_rounds(),
        }
    }
}
