//! The check in intervals: the leader compares its newest revision with the same revision at its peers.

use store::HashKvReply;

use super::peer_hashes::PeerHash;
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
        if is_suspect(&before, &after, peer, theirs) {
            corrupt = corrupt.or(Some(peer.id));
        }
    }
    if let Some(member) = corrupt {
        raise(source, member).await;
    }
    tracing::info!(number_of_peers_checked = checked, "finished peer corruption check");
    Ok(())
}

/// Whether a follower has what it cannot have. The leader hashed before the follower was asked, and after.
fn is_suspect(before: &HashKvReply, after: &HashKvReply, peer: &PeerHash, theirs: &HashKvReply) -> bool {
    let id = format!("{:x}", peer.id);
    let mut suspect = false;
    if theirs.revision > after.revision {
        tracing::warn!(
            leader_revision = after.revision,
            follower_revision = theirs.revision,
            follower_peer_id = id,
            "revision from follower must be less than or equal to leader's"
        );
        suspect = true;
    }
    if theirs.compact_revision > after.compact_revision {
        tracing::warn!(
            leader_compact_revision = after.compact_revision,
            follower_compact_revision = theirs.compact_revision,
            follower_peer_id = id,
            "compact revision from follower must be less than or equal to leader's"
        );
        suspect = true;
    }
    if theirs.compact_revision == before.compact_revision && theirs.hash != before.hash {
        tracing::warn!(
            leader_compact_revision = after.compact_revision,
            leader_hash = before.hash,
            follower_compact_revision = theirs.compact_revision,
            follower_hash = theirs.hash,
            follower_peer_id = id,
            "same compact revision then hashes must match"
        );
        suspect = true;
    }
    suspect
}
