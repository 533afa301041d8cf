//! Locks and elections: a key below a prefix, on a lease that is renewed. The oldest key holds the lock, or leads.

use std::time::Duration;

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use pb::request_op::Request;

use super::keep_alive::KeepAlive;
use super::watches::{Delivery, Watches};
use super::{CallError, Client};

/// A lease that is kept while its user works.
pub(crate) struct Session<'c> {
    pub(crate) lease: i64,
    keep_alive: KeepAlive<'c>,
}

/// A key of ours below a prefix.
pub(crate) struct Claim {
    pub(crate) key: Bytes,
    /// The revision that created it: the lowest one holds the lock.
    pub(crate) revision: i64,
    /// Revision of the store when the lock was taken.
    pub(crate) held_at: i64,
}

/// Why a session's work stopped.
pub(crate) enum SessionEnd {
    /// The lease expired or was revoked.
    Expired,
    Failed(CallError),
}

impl From<CallError> for SessionEnd {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

impl<'c> Session<'c> {
    /// Grants a lease of `ttl` seconds.
    ///
    /// # Errors
    ///
    /// No lease was granted.
    pub(crate) async fn begin(client: &'c Client, ttl: i64) -> Result<Self, CallError> {
        let request = pb::LeaseGrantRequest { ttl, id: 0 };
        let granted: pb::LeaseGrantResponse = client.write(methods::LEASE_GRANT, &request, None).await?;
        let first = Duration::from_secs(granted.ttl.unsigned_abs());
        Ok(Self { lease: granted.id, keep_alive: KeepAlive::new(client, granted.id, first) })
    }

    /// Works while the lease is kept.
    pub(crate) async fn keep<T>(
        &mut self,
        work: impl Future<Output = Result<T, SessionEnd>>,
    ) -> Result<T, SessionEnd> {
        let kept = async {
            while self.keep_alive.next().await?.is_some() {}
            Ok::<(), CallError>(())
        };
        tokio::select! {
            done = work => done,
            _ = kept => Err(SessionEnd::Expired),
        }
    }
}

/// Puts our key below a prefix, and waits until it is the oldest.
///
/// # Errors
///
/// A call failed, or our key was lost while we waited.
pub(crate) async fn acquire(
    client: &Client,
    lease: i64,
    name: &[u8],
    value: Bytes,
) -> Result<Claim, SessionEnd> {
    let prefix = [name, b"/"].concat();
    let key = Bytes::from([prefix.as_slice(), format!("{lease:x}").as_bytes()].concat());
    let mut claim = claim(client, lease, key, value).await?;
    loop {
        let older = older_key(client, &prefix, claim.revision - 1).await?;
        let Some(older) = older.kvs.into_iter().next() else { break };
        wait_for_delete(client, older.key, older.mod_revision + 1).await?;
    }
    let request = pb::RangeRequest { key: claim.key.clone(), ..Default::default() };
    let own: pb::RangeResponse = client.read(methods::KV_RANGE, &request, None).await?;
    if own.kvs.is_empty() {
        return Err(SessionEnd::Expired);
    }
    claim.held_at = own.header.map_or(0, |header| header.revision);
    Ok(claim)
}

async fn claim(client: &Client, lease: i64, key: Bytes, value: Bytes) -> Result<Claim, CallError> {
    let put = pb::PutRequest { key: key.clone(), value, lease, ..Default::default() };
    let get = pb::RangeRequest { key: key.clone(), ..Default::default() };
    let request = pb::TxnRequest {
        compare: vec![pb::Compare {
            target: pb::compare::CompareTarget::Create.into(),
            key: key.clone(),
            target_union: Some(pb::compare::TargetUnion::CreateRevision(0)),
            ..Default::default()
        }],
        success: vec![pb::RequestOp { request: Some(Request::RequestPut(put)) }],
        failure: vec![pb::RequestOp { request: Some(Request::RequestRange(get)) }],
    };
    let answer: pb::TxnResponse = client.write(methods::KV_TXN, &request, None).await?;
    let found = answer.responses.first().and_then(|response| match &response.response {
        Some(pb::response_op::Response::ResponseRange(range)) => {
            range.kvs.first().map(|kv| kv.create_revision)
        }
        _ => None,
    });
    let now = answer.header.map_or(0, |header| header.revision);
    Ok(Claim { key, revision: found.unwrap_or(now), held_at: now })
}

/// The youngest key of a prefix that is not younger than a revision.
async fn older_key(client: &Client, prefix: &[u8], revision: i64) -> Result<pb::RangeResponse, CallError> {
    let request = pb::RangeRequest {
        key: Bytes::copy_from_slice(prefix),
        range_end: api::prefix_end(prefix),
        limit: 1,
        sort_order: pb::range_request::SortOrder::Descend.into(),
        sort_target: pb::range_request::SortTarget::Create.into(),
        max_create_revision: revision,
        ..Default::default()
    };
    client.read(methods::KV_RANGE, &request, None).await
}

/// The oldest key of a prefix: who holds the lock, or leads.
///
/// # Errors
///
/// The call failed.
pub(crate) async fn oldest_key(client: &Client, prefix: &[u8]) -> Result<pb::RangeResponse, CallError> {
    let request = pb::RangeRequest {
        key: Bytes::copy_from_slice(prefix),
        range_end: api::prefix_end(prefix),
        limit: 1,
        sort_order: pb::range_request::SortOrder::Ascend.into(),
        sort_target: pb::range_request::SortTarget::Create.into(),
        ..Default::default()
    };
    client.read(methods::KV_RANGE, &request, None).await
}

async fn wait_for_delete(client: &Client, key: Bytes, revision: i64) -> Result<(), CallError> {
    let mut watches = Watches::new(client);
    watches.create(pb::WatchCreateRequest { key, start_revision: revision, ..Default::default() });
    loop {
        match watches.next().await? {
            Delivery::Response(_, response) if response.events.iter().all(|event| event.r#type == 0) => {}
            // Deleted, or compacted, which the next look at the keys clears up.
            Delivery::Response(..) | Delivery::Ended(..) => return Ok(()),
        }
    }
}

/// Deletes our key.
///
/// # Errors
///
/// The call failed.
pub(crate) async fn release(client: &Client, key: Bytes) -> Result<(), CallError> {
    let request = pb::DeleteRangeRequest { key, ..Default::default() };
    let _: pb::DeleteRangeResponse = client.write(methods::KV_DELETE_RANGE, &request, None).await?;
    Ok(())
}
