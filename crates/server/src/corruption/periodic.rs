//! The check in intervals: the leader compares its newest revision with the same revision at its peers.
//!
//! etcd's alarm names the first peer that differs from the leader. Here it names the first member that differs from a
//! quorum, be it the leader, and no member if no quorum agrees, because
//! operators replace the member that the alarm names.

use std::collections::BTreeMap;

use store::HashKvReply;

use super::peer_hashes::{PeerHash, hash_of_quorum};
use super::source::{HashSource, raise};

/// Compares once. Raises at most one alarm, as etcd does.
///
/// # Errors
/// The local data cannot be hashed, or this member does not lead any more.
pub(super) async fn check(source: &dyn HashSource) -> Result<(), api::Error> {
    let before = source.hash(0).await?;
    let peers = source.peer_hashes(before.hash_revision).await;
    source.linearize().await?;
    let after = source.hash(0).await?;
    let mut corrupt = None;
    let is_same =
        (after.hash_revision, after.compact_revision) == (before.hash_revision, before.compact_revision);
    if is_same && after.hash != before.hash {
        tracing::warn!(
            revision_1 = before.hash_revision,
            compact_revision_1 = before.compact_revision,
            hash_1 = before.hash,
            revision_2 = after.hash_revision,
            compact_revision_2 = after.compact_revision,
            hash_2 = after.hash,
            "found hash mismatch"
        );
        corrupt = Some(source.member_id());
    }
    let mut checked = 0;
    for peer in &peers {
        let Ok(theirs) = &peer.answer else { continue };
        checked += 1;
        if is_impossible(&after, peer, theirs) {
            corrupt = corrupt.or(Some(peer.id));
        }
    }
    corrupt = corrupt.or(outlier(source.member_id(), &before, &peers));
    if let Some(member) = corrupt {
        raise(source, member).await;
    }
    tracing::info!(number_of_peers_checked = checked, "finished peer corruption check");
    Ok(())
}

/// Whether a follower has what it cannot have: the leader hashed after the follower was asked.
fn is_impossible(after: &HashKvReply, peer: &PeerHash, theirs: &HashKvReply) -> bool {
    let id = format!("{:x}", peer.id);
    let mut is_impossible = false;
    if theirs.revision > after.revision {
        tracing::warn!(
            leader_revision = after.revision,
            follower_revision = theirs.revision,
            follower_peer_id = id,
            "revision from follower must be less than or equal to leader's"
        );
        is_impossible = true;
    }
    if theirs.compact_revision > after.compact_revision {
        tracing::warn!(
            leader_compact_revision = after.compact_revision,
            follower_compact_revision = theirs.compact_revision,
            follower_peer_id = id,
            "compact revision from follower must be less than or equal to leader's"
        );
        is_impossible = true;
    }
    is_impossible
}

/// The member whose hash of the same history differs from that of a quorum; 0 if hashes differ and no quorum agrees.
fn outlier(leader: u64, own: &HashKvReply, peers: &[PeerHash]) -> Option<u64> {
    let mut members_by_hash = BTreeMap::from([(own.hash, vec![leader])]);
    for peer in peers {
        let Ok(theirs) = &peer.answer else { continue };
        if theirs.compact_revision != own.compact_revision {
            continue;
        }
        members_by_hash.entry(theirs.hash).or_default().push(peer.id);
        if theirs.hash != own.hash {
            tracing::warn!(
                leader_compact_revision = own.compact_revision,
                leader_hash = own.hash,
                follower_compact_revision = theirs.compact_revision,
                follower_hash = theirs.hash,
                follower_peer_id = format!("{:x}", peer.id),
                "same compact revision then hashes must match"
            );
        }
    }
    if members_by_hash.len() == 1 {
        return None;
    }
    let Some(agreed) = hash_of_quorum(&members_by_hash, peers.len() + 1) else { return Some(0) };
    let others = members_by_hash.into_iter().filter(|(hash, _)| *hash != agreed);
    others.flat_map(|(_, ids)| ids).min()
}
