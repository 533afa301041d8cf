//! The member as health checks and scrapes see it.

use std::sync::Arc;

use api::etcdserverpb::{AlarmType, Member};
use api::version;
use store::HashKvReply;
use transport::Peers;

use crate::http::{BoxFuture, Endpoints, HashKvResult, Health};
use crate::metrics::{GaugeSource, Gauges, PeerGauges};
use crate::node::Node;

/// A member and its connections.
pub(crate) struct Observed {
    node: Arc<Node>,
    peers: Arc<Peers>,
}

impl Observed {
    /// What the HTTP endpoints share, over this member.
    pub(crate) fn endpoints(node: &Arc<Node>, peers: &Arc<Peers>) -> Endpoints {
        let observed = Arc::new(Observed { node: node.clone(), peers: peers.clone() });
        Endpoints { health: observed.clone(), metrics: node.metrics.clone(), source: observed }
    }

    fn alarms_by_member(&self) -> Vec<(u64, AlarmType)> {
        let kind = |alarm: i32| AlarmType::try_from(alarm).unwrap_or(AlarmType::None);
        self.node.reader.alarms().iter().map(|alarm| (alarm.member_id, kind(alarm.alarm))).collect()
    }
}

impl Health for Observed {
    fn linearizable_read(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { self.node.linearize().await.map_err(|e| e.to_string()) })
    }

    fn serializable_read(&self) -> BoxFuture<'_, Result<(), String>> {
        // The index is in memory: it can be read whenever this process runs.
        Box::pin(async { Ok(()) })
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

    fn promote(&self, id: u64) -> BoxFuture<'_, Result<Vec<Member>, api::Error>> {
        Box::pin(self.node.promote(id))
    }

    fn cluster_id(&self) -> u64 {
        self.node.cluster_id
    }

    fn cluster_version(&self) -> Option<String> {
        self.node.reader.cluster_version()
    }

    fn storage_version(&self) -> Option<String> {
        Some(version::STORAGE_VERSION.to_owned())
    }

    fn is_downgrading(&self) -> bool {
        false
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
        let applied = status.commands_applied();
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
            watch_events: watches.events_sent,
            // The member counts commands when it applies them; between commit and apply lies one batch at most.
            proposals_committed: applied,
            proposals_applied: applied,
            proposals_pending: status.pending(),
            db_size_bytes: sizes.total,
            db_size_in_use_bytes: sizes.in_use,
            memory_limit_bytes: status.memory_limit_bytes(),
            memory: status.memory().to_vec(),
            quota_bytes: i64::try_from(node.limits.quota_bytes).unwrap_or(i64::MAX),
            keys: counts.keys,
            watchers: watches.watchers as u64,
            slow_watchers: watches.slow_watchers as u64,
            watch_streams: watches.streams as u64,
            pending_events: watches.pending_events as u64,
            current_revision: node.reader.current_revision(),
            compact_revision: node.reader.compacted(),
            alarms: self
                .alarms_by_member()
                .iter()
                .map(|(member, alarm)| (*member, alarm.as_str_name()))
                .collect(),
            peers: self.peers.statistics().iter().map(peer).collect(),
            snapshots_installing: status.snapshots_installing(),
            ..Gauges::default()
        }
    }
}

fn peer(statistics: &transport::PeerStatistics) -> PeerGauges {
    PeerGauges {
        id: statistics.peer,
        connected: statistics.control_since.is_some(),
        sent_bytes: statistics.sent_bytes,
        received_bytes: statistics.received_bytes,
    }
}
