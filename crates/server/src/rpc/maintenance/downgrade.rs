//! Maintenance/Downgrade: whether the cluster can be downgraded to the release before, the begin and the end of that.
//!
//! Stele never becomes an older binary. An enabled downgrade makes the cluster show the older version, in its cluster
//! version, storage version and backups, so that tools which wait for it go on; it lasts until it is cancelled. The
//! rules and texts are etcd's.

use api::etcdserverpb as pb;
use api::membershippb::DowngradeInfoSetRequest;
use api::version::ClusterVersion;
use bytes::Bytes;
use member::batch::CommandKind;
use pb::downgrade_request::DowngradeAction;
use prost::Message;

use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::{Call, decode};

pub(in crate::rpc) async fn downgrade(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let request: pb::DowngradeRequest = decode(body)?;
    let version = match DowngradeAction::try_from(request.action) {
        // The version as it was when the request came, as in etcd.
        Ok(DowngradeAction::Validate) => {
            let target = target(&request.version)?;
            let version = cluster_version(node)?;
            validate(node, target).await?;
            version
        }
        Ok(DowngradeAction::Enable) => {
            let enabled = enable(node, call, &request.version).await;
            enabled.inspect_err(|error| tracing::warn!(%error, "reject downgrade request"))?;
            cluster_version(node)?
        }
        Ok(DowngradeAction::Cancel) => {
            cancel(node, call).await?;
            cluster_version(node)?
        }
        Err(_) => return Err(api::Error::UnknownMethod.into()),
    };
    Ok(EncodedMessage::message(&pb::DowngradeResponse {
        header: Some(node.header_now()),
        version: version.short(),
    }))
}

fn target(version: &str) -> Result<ClusterVersion, api::Error> {
    ClusterVersion::parse(version).ok_or(api::Error::WrongDowngradeVersionFormat)
}

fn cluster_version(node: &Node) -> Result<ClusterVersion, api::Error> {
    let version = node.reader.cluster_version().as_deref().and_then(ClusterVersion::parse);
    version.ok_or(api::Error::ClusterVersionUnavailable)
}

async fn validate(node: &Node, target: ClusterVersion) -> Result<(), api::Error> {
    node.linearize().await?;
    if target != cluster_version(node)?.downgrade_target() {
        return Err(api::Error::InvalidDowngradeTarget);
    }
    if node.reader.downgrade_target().is_some() { Err(api::Error::DowngradeInProgress) } else { Ok(()) }
}

async fn enable(node: &Node, call: &Call, version: &str) -> Result<(), api::Error> {
    let target = target(version)?;
    validate(node, target).await?;
    set(node, call, DowngradeInfoSetRequest { enabled: true, ver: target.to_string() }).await
}

/// Ends the downgrade. As in etcd, it is no error if there is none.
async fn cancel(node: &Node, call: &Call) -> Result<(), api::Error> {
    node.linearize().await?;
    if node.reader.downgrade_target().is_none() {
        let error = api::Error::NoDowngradeInProgress;
        tracing::warn!(%error, "failed to cancel downgrade");
        return Ok(());
    }
    set(node, call, DowngradeInfoSetRequest::default()).await
}

async fn set(node: &Node, call: &Call, request: DowngradeInfoSetRequest) -> Result<(), api::Error> {
    let caller = node.identify(&call.credentials).await?;
    node.propose(CommandKind::DowngradeInfo, caller, request.encode_to_vec().into()).await.map(|_| ())
}
