//! Compacts history by itself, as `--auto-compaction-*` says; on the leader only, so that members do not compete.

mod schedule;

use std::sync::Arc;
use std::time::Instant;

use api::etcdserverpb::CompactionRequest;
use member::batch::CommandKind;
use prost::Message;
use store::Caller;

use crate::config::CompactionPolicy;
use crate::node::Node;

use schedule::Schedule;

/// Runs until the process ends.
pub(crate) async fn run(node: Arc<Node>, policy: CompactionPolicy) {
    let start = Instant::now();
    let now_ns = || start.elapsed().as_nanos() as u64;
    let mut schedule = Schedule::new(policy, now_ns());
    let mut interval = tokio::time::interval(schedule.interval());
    loop {
        interval.tick().await;
        let now = now_ns();
        if !schedule.is_due(now) {
            continue;
        }
        let Some(revision) = schedule.observe(now, node.reader.current_revision()) else { continue };
        if node.status.leader() != node.member_id {
            continue;
        }
        let body = CompactionRequest { revision, physical: false }.encode_to_vec().into();
        match node.propose(CommandKind::Compaction, Caller::Internal, body).await {
            Ok(_) | Err(api::Error::Compacted) => {
                schedule.compacted(now_ns(), revision);
                tracing::info!(revision, "completed auto compaction");
            }
            Err(error) => tracing::warn!(revision, error = error.message(), "failed auto compaction"),
        }
    }
}
