//! The check of compactions: the leader compares the hashes that members made while they compacted.
//!
//! All members compact at the same revisions, so there is a hash of the same history at each of them, also while keys
//! change. A member that has not finished a compaction yet answers with another compact revision, and an older
//! compaction is compared instead; the newer one is compared the next time.

use std::collections::BTreeMap;

use store::KeptHash;

use super::peer_hashes::{PeerHash, hash_of_quorum};
use super::source::{HashSource, raise};

/// The checks of one process.
#[derive(Debug, Default)]
pub(super) struct CompactionChecks {
    /// The newest revision at which all members had the same hash.
    checked_until: i64,
}

impl CompactionChecks {
    /// Compares the newest compaction at which all members have a hash, unless that was done.
    pub(super) async fn check(&mut self, source: &dyn HashSource) {
        tracing::info!(
            local_member_id = format!("{:x}", source.member_id()),
            timeout = format!("{:?}", source.request_timeout()),
            "starting compact hash check"
        );
        let mut hashes_checked = 0;
        let unchecked =
            source.kept_hashes().into_iter().take_while(|kept| kept.revision > self.checked_until);
        for own in unchecked.collect::<Vec<_>>() {
            hashes_checked += 1;
            let peers = source.peer_hashes(own.revision).await;
            if !peers.is_empty() && self.compare(source, own, &peers).await {
                break;
            }
        }
        tracing::info!(number_of_hashes_checked = hashes_checked, "finished compaction hash check");
    }

    /// Compares one compaction. Returns whether older ones need not be compared.
    async fn compare(&mut self, source: &dyn HashSource, own: KeptHash, peers: &[PeerHash]) -> bool {
        let leader = source.member_id();
        let mut members_by_hash = BTreeMap::from([(own.hash, vec![leader])]);
        let mut checked = 0;
        for peer in peers {
            match usable_hash(own, peer) {
                Ok(hash) => {
                    checked += 1;
                    members_by_hash.entry(hash).or_default().push(peer.id);
                }
                Err(reason) => tracing::warn!(
                    number_of_peers = peers.len(),
                    leader_id = format!("{leader:x}"),
                    peer_id = format!("{:x}", peer.id),
                    reason,
                    "Skipped peer's hash"
                ),
            }
        }
        if members_by_hash.len() > 1 {
            report(source, own, members_by_hash, peers.len() + 1).await;
            return true;
        }
        let is_whole = checked == peers.len();
        let (revision, compact_revision) = (own.revision, own.compact_revision);
        if is_whole {
            tracing::info!(
                number_of_peers_checked = checked,
                revision,
                compactRevision = compact_revision,
                "successfully checked hash on whole cluster"
            );
            self.checked_until = self.checked_until.max(own.revision);
        } else {
            tracing::warn!(
                number_of_peers_checked = checked,
                number_of_peers = peers.len(),
                revision,
                compactRevision = compact_revision,
                "skipped revision in compaction hash check; was not able to check all peers"
            );
        }
        is_whole
    }
}

/// The peer's hash, if it covers the same history.
fn usable_hash(own: KeptHash, peer: &PeerHash) -> Result<u32, String> {
    let answer = peer.answer.as_ref().map_err(|_| "no response".to_owned())?;
    if answer.compact_revision == own.compact_revision {
        return Ok(answer.hash);
    }
    Err(format!(
        "the peer's CompactRevision {} doesn't match leader's CompactRevision {}",
        answer.compact_revision, own.compact_revision
    ))
}

/// Members have different hashes. If most of the cluster agrees, the alarm names the others; else the whole cluster.
async fn report(
    source: &dyn HashSource,
    own: KeptHash,
    mut members_by_hash: BTreeMap<u32, Vec<u64>>,
    members: usize,
) {
    let leader = format!("{:x}", source.member_id());
    let agreed = hash_of_quorum(&members_by_hash, members);
    match agreed {
        Some(hash) => drop(members_by_hash.remove(&hash)),
        None => {
            tracing::error!(
                leader_id = leader,
                leader_revision = own.revision,
                leader_compact_revision = own.compact_revision,
                leader_hash = own.hash,
                "Detected compaction hash mismatch but cannot identify the corrupted members, so intentionally set the \
                 memberID as 0"
            );
            raise(source, 0).await;
        }
    }
    for (hash, ids) in members_by_hash {
        let names: Vec<String> = ids.iter().map(|id| format!("{id:x}")).collect();
        tracing::error!(
            leader_id = leader,
            leader_revision = own.revision,
            leader_compact_revision = own.compact_revision,
            leader_hash = own.hash,
            peer_hash = hash,
            peer_ids = names.join(","),
            quorum_exist = agreed.is_some(),
            "Detected compaction hash mismatch"
        );
        if agreed.is_some() {
            for id in ids {
                raise(source, id).await;
            }
        }
    }
}
