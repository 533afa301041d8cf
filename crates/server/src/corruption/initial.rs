//! The check before a member serves: its newest revision is compared with the same revision at its peers.
//!
//! Peers that do not answer, or that compacted further, prove nothing, so a whole cluster can start at once.

use store::HashKvReply;

use super::peer_hashes::{PeerHash, PeerHashError};
use super::source::HashSource;

/// Compares with all peers.
///
/// # Errors
/// There is a peer with another hash of the same history; or the local data cannot be hashed.
pub(super) async fn check(source: &dyn HashSource) -> Result<(), String> {
    let local = format!("{:x}", source.member_id());
    tracing::info!(
        local_member_id = local,
        timeout = format!("{:?}", source.request_timeout()),
        "starting initial corruption check"
    );
    let own = source.hash(0).await.map_err(|error| format!("{local} failed to fetch hash ({error})"))?;
    let mut mismatches = 0;
    for peer in source.peer_hashes(own.hash_revision).await {
        match &peer.answer {
            Ok(theirs) if theirs.hash != own.hash => {
                let is_same_history = theirs.compact_revision == own.compact_revision;
                mismatches += u32::from(is_same_history);
                report_difference(&local, &own, &peer, theirs, is_same_history);
            }
            Ok(_) => {}
            Err(error) => report_error(&local, &own, &peer, error),
        }
    }
    if mismatches > 0 {
        return Err(format!("{local} found data inconsistency with peers"));
    }
    tracing::info!(local_member_id = local, "initial corruption checking passed; no corruption");
    Ok(())
}

fn report_difference(
    local: &str,
    own: &HashKvReply,
    peer: &PeerHash,
    theirs: &HashKvReply,
    is_corrupt: bool,
) {
    let what = if is_corrupt { "hash values" } else { "compact revision values" };
    tracing::warn!(
        local_member_id = local,
        local_member_revision = own.hash_revision,
        local_member_compact_revision = own.compact_revision,
        local_member_hash = own.hash,
        remote_peer_id = format!("{:x}", peer.id),
        remote_peer_endpoints = format!("{:?}", peer.urls),
        remote_peer_revision = theirs.revision,
        remote_peer_compact_revision = theirs.compact_revision,
        remote_peer_hash = theirs.hash,
        "found different {what} from remote peer"
    );
}

fn report_error(local: &str, own: &HashKvReply, peer: &PeerHash, error: &PeerHashError) {
    let what = match error {
        PeerHashError::Future => "cannot fetch hash from slow remote peer",
        PeerHashError::Compacted => "cannot fetch hash from remote peer; local member is behind",
        PeerHashError::OtherCluster => "cluster ID mismatch",
        // It was logged when the peer was asked.
        PeerHashError::Failed(_) => return,
    };
    tracing::warn!(
        local_member_id = local,
        local_member_revision = own.hash_revision,
        local_member_compact_revision = own.compact_revision,
        local_member_hash = own.hash,
        remote_peer_id = format!("{:x}", peer.id),
        remote_peer_endpoints = format!("{:?}", peer.urls),
        %error,
        "{what}"
    );
}
