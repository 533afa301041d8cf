//! Where the checks get hashes from, and how they raise the alarm.

use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb::{AlarmRequest, AlarmType, alarm_request::AlarmAction};
use member::batch::CommandKind;
use prost::Message;
use store::{Caller, HashKvReply, KeptHash, Reader};

use super::peer_hashes::{self, Asker, PeerHash};
use crate::http::BoxFuture;
use crate::node::Node;
use crate::peers::PeerHttp;

/// What a check works with: this member's hashes, those of its peers, and the alarm.
pub(super) trait HashSource: Send + Sync {
    /// This member.
    fn member_id(&self) -> u64;
    /// Time for one peer to answer.
    fn request_timeout(&self) -> Duration;
    /// The hash up to a revision (0 for the newest) here.
    fn hash(&self, revision: i64) -> BoxFuture<'_, Result<HashKvReply, api::Error>>;
    /// The hash up to a revision at each other member.
    fn peer_hashes(&self, revision: i64) -> BoxFuture<'_, Vec<PeerHash>>;
    /// Waits until this member has all that was acknowledged before.
    fn linearize(&self) -> BoxFuture<'_, Result<(), api::Error>>;
    /// The hashes of compactions, the newest first.
    fn kept_hashes(&self) -> Vec<KeptHash>;
    /// Raises the alarm CORRUPT for a member; 0 is the whole cluster.
    fn raise_alarm(&self, member: u64) -> BoxFuture<'_, Result<(), api::Error>>;
}

/// The hashes of a running member and its peers.
pub(super) struct NodeHashes {
    node: Arc<Node>,
    peers: PeerHttp,
    request_timeout: Duration,
}

impl NodeHashes {
    pub(super) fn new(node: Arc<Node>, peers: PeerHttp, request_timeout: Duration) -> NodeHashes {
        NodeHashes { node, peers, request_timeout }
    }
}

impl HashSource for NodeHashes {
    fn member_id(&self) -> u64 {
        self.node.member_id
    }

    fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    fn hash(&self, revision: i64) -> BoxFuture<'_, Result<HashKvReply, api::Error>> {
        let reader = self.node.reader.clone();
        Box::pin(async move {
            let hashed = tokio::task::spawn_blocking(move || hash_blocking(&reader, revision)).await;
            hashed.map_err(|_| api::Error::Stopped)?
        })
    }

    fn peer_hashes(&self, revision: i64) -> BoxFuture<'_, Vec<PeerHash>> {
        let (cluster_id, member_id) = (self.node.cluster_id, self.node.member_id);
        let asker = Asker { cluster_id, lineage: self.node.reader.lineage(), member_id };
        let members = self.node.members().into_iter();
        let others = members.filter(|member| member.id != member_id && !member.peer_urls.is_empty());
        // One that does not answer holds up no other.
        let asking =
            others.map(|member| peer_hashes::ask(&self.peers, asker, member, revision, self.request_timeout));
        Box::pin(futures_util::future::join_all(asking.collect::<Vec<_>>()))
    }

    fn linearize(&self) -> BoxFuture<'_, Result<(), api::Error>> {
        Box::pin(self.node.linearize())
    }

    fn kept_hashes(&self) -> Vec<KeptHash> {
        self.node.reader.kept_hashes()
    }

    fn raise_alarm(&self, member: u64) -> BoxFuture<'_, Result<(), api::Error>> {
        let (action, alarm) = (AlarmAction::Activate as i32, AlarmType::Corrupt as i32);
        let body = AlarmRequest { action, member_id: member, alarm }.encode_to_vec().into();
        Box::pin(
            async move { self.node.propose(CommandKind::Alarm, Caller::Internal, body).await.map(|_| ()) },
        )
    }
}

/// Raises the alarm for a member, or for the whole cluster (0).
pub(super) async fn raise(source: &dyn HashSource, member: u64) {
    if let Err(error) = source.raise_alarm(member).await {
        tracing::warn!(member_id = format!("{member:x}"), %error, "cannot raise the alarm CORRUPT");
    }
}

/// Hashes up to `revision` (0 for the newest); blocks while it does.
fn hash_blocking(reader: &Reader, revision: i64) -> Result<HashKvReply, api::Error> {
    let mut scan = reader.hash_kv(revision)?;
    loop {
        if let Some(reply) = scan.step()? {
            return Ok(reply);
        }
    }
}
