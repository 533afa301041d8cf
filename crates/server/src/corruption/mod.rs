//! etcd's checks for corruption: members' data is compared by hashes that members ask each other for.
//!
//! | check | when | compares | finds |
//! |---|---|---|---|
//! | initial | before a member that has data serves (gate `InitialCorruptCheck`) | the newest revision | stops the start |
//! | periodic | on the leader, each `--corrupt-check-time` | the newest revision | alarm CORRUPT |
//! | compaction | on the leader, each `--compact-hash-check-time` (gate `CompactHashCheck`) | the hashes kept of compactions | alarm CORRUPT |
//!
//! They are off unless asked for, as in etcd. Stele also compares state hashes at every applied entry all the time
//! (`member/src/maintenance/state_hashes/mod.rs`); these checks cover what that hash does not: the history.
//!
//! ```text
//! leader, compacted at 90: kept hashes 90 -> a7, 40 -> 13
//!   GET /members/hashkv at 90:   member 2 a7       member 3 c1        2 of 3 agree: the alarm names member 3
//!                                member 2 a7       no answer          40 is compared instead
//! ```
//!
//! The rules, log lines and alarms are those of etcd's `corrupt.go`.

mod compaction;
mod initial;
mod peer_hashes;
mod periodic;
mod source;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::config::CorruptionChecks;
use crate::node::Node;
use crate::peers::PeerHttp;

use compaction::CompactionChecks;
use source::NodeHashes;

/// The initial check; see the module.
///
/// # Errors
/// What is different from a peer.
pub(crate) async fn check_at_start(
    node: &Arc<Node>,
    peers: PeerHttp,
    checks: &CorruptionChecks,
) -> Result<(), String> {
    let source = NodeHashes::new(node.clone(), peers, checks.request_timeout);
    initial::check(&source).await.inspect_err(|error| tracing::error!(error, "checkInitialHashKV failed"))
}

/// Runs the checks that are on until the process ends.
pub(crate) fn start(node: &Arc<Node>, peers: PeerHttp, checks: &CorruptionChecks) {
    let source = Arc::new(NodeHashes::new(node.clone(), peers, checks.request_timeout));
    if let Some(interval) = checks.periodic {
        tracing::info!(
            local_member_id = format!("{:x}", node.member_id),
            interval = format!("{interval:?}"),
            "enabled corruption checking"
        );
        tokio::spawn(check_periodically(node.clone(), source.clone(), interval));
    }
    if let Some(interval) = checks.at_compaction {
        tokio::spawn(check_compactions(node.clone(), source, interval));
    }
}

async fn check_periodically(node: Arc<Node>, source: Arc<NodeHashes>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        if node.status.leader() != node.member_id {
            continue;
        }
        if let Err(error) = periodic::check(source.as_ref()).await {
            tracing::warn!(%error, "failed to check hash KV");
        }
    }
}

async fn check_compactions(node: Arc<Node>, source: Arc<NodeHashes>, interval: Duration) {
    let mut checks = CompactionChecks::default();
    loop {
        tokio::time::sleep(interval).await;
        if node.status.leader() == node.member_id {
            checks.check(source.as_ref()).await;
        }
    }
}
