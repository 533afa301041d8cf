//! The locks of `stm --stm-locker`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use api::etcdserverpb as pb;
use api::methods;
use api::v3lockpb;
use bytes::Bytes;
use ctl::CallError;
use pb::compare::CompareResult;
use pb::range_request::{SortOrder, SortTarget};
use pb::request_op::Request;
use pb::response_op::Response;

use super::txn::put_if;
use super::watchers::{WatchTalk, watcher};
use crate::client::Lane;
use crate::session::BenchSession;

/// The lock's name: `benchmark`'s.
const NAME: &str = "stmlock";

/// Seconds that a client's lease lives without renewal: those of etcd's sessions.
const TTL: i64 = 60;

/// How transactions exclude each other.
#[derive(Clone)]
pub(super) enum Locker {
    /// Not at all.
    None,
    /// By keys in order of their creation, as etcd's client locks; with the leases of clients that hold no lock.
    Keys(Rc<RefCell<VecDeque<i64>>>),
    /// By the lock service; with the same leases.
    Service(Rc<RefCell<VecDeque<i64>>>),
}

/// A lock that is held: its lease and its key.
pub(super) struct Held(i64, Bytes);

impl Locker {
    /// Grants a lease for each client, and keeps them alive.
    ///
    /// # Errors
    /// A lease cannot be granted.
    pub(super) async fn start(session: &BenchSession, name: &str) -> Result<Self, String> {
        if name == "stm" {
            return Ok(Self::None);
        }
        let mut leases = VecDeque::new();
        for client in 0..session.reach.clients as usize {
            let lane = session.lane(client);
            let request = pb::LeaseGrantRequest { ttl: TTL, id: 0 };
            let granted: Result<pb::LeaseGrantResponse, _> = lane.ask(methods::LEASE_GRANT, &request).await;
            leases.push_back(granted.map_err(|error| format!("cannot grant a lease: {error}"))?.id);
        }
        tokio::task::spawn_local(keep_alive(session.lane(0), leases.clone()));
        let leases = Rc::new(RefCell::new(leases));
        Ok(if name == "lock-rpc" { Self::Service(leases) } else { Self::Keys(leases) })
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// What the server answered.
    pub(super) async fn lock(&self, lane: &Rc<Lane>) -> Result<Option<Held>, CallError> {
        let (Self::Keys(leases) | Self::Service(leases)) = self else { return Ok(None) };
        // There is one for each client.
        let lease = leases.borrow_mut().pop_front().unwrap_or_default();
        let key = match self {
            Self::Service(_) => {
                let request = v3lockpb::LockRequest { name: NAME.into(), lease };
                lane.ask::<v3lockpb::LockResponse>(methods::LOCK_LOCK, &request)
                    .await
                    .map(|answer| answer.key)
            }
            _ => lock_key(lane, lease).await,
        };
        match key {
            Ok(key) => Ok(Some(Held(lease, key))),
            Err(error) => {
                leases.borrow_mut().push_back(lease);
                Err(error)
            }
        }
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// What the server answered.
    pub(super) async fn unlock(&self, lane: &Lane, held: Option<Held>) -> Result<(), CallError> {
        let (Some(Held(lease, key)), Self::Keys(leases) | Self::Service(leases)) = (held, self) else {
            return Ok(());
        };
        let outcome = match self {
            Self::Service(_) => {
                let request = v3lockpb::UnlockRequest { key };
                lane.ask::<v3lockpb::UnlockResponse>(methods::LOCK_UNLOCK, &request).await.map(drop)
            }
            _ => delete(lane, key).await,
        };
        leases.borrow_mut().push_back(lease);
        outcome
    }
}

/// Puts a key below the lock's name, and waits until all that were created before are gone.
async fn lock_key(lane: &Rc<Lane>, lease: i64) -> Result<Bytes, CallError> {
    let key = Bytes::from(format!("{NAME}/{lease:x}"));
    let waited = wait_for_lock(lane, lease, &key).await;
    if waited.is_err() {
        // All that come later would wait for it; if it cannot be deleted, until its lease ends.
        let _ = delete(lane, key.clone()).await;
    }
    waited.map(|()| key)
}

async fn wait_for_lock(lane: &Rc<Lane>, lease: i64, key: &Bytes) -> Result<(), CallError> {
    let answer: pb::TxnResponse = lane.ask(methods::KV_TXN, &lock_txn(lease, key)).await?;
    let own = match answer.responses.into_iter().next().and_then(|response| response.response) {
        // The key was left by an unlock that failed: it is as old as it was.
        Some(Response::ResponseRange(range)) => range.kvs.first().map_or(0, |kv| kv.create_revision),
        _ => answer.header.map_or(0, |header| header.revision),
    };
    let prefix = Bytes::from(format!("{NAME}/"));
    loop {
        let before = pb::RangeRequest {
            range_end: api::prefix_end(&prefix),
            key: prefix.clone(),
            limit: 1,
            max_create_revision: own - 1,
            sort_order: SortOrder::Descend.into(),
            sort_target: SortTarget::Create.into(),
            ..Default::default()
        };
        let found: pb::RangeResponse = lane.ask(methods::KV_RANGE, &before).await?;
        let Some(last) = found.kvs.first() else { return Ok(()) };
        let start_revision = found.header.as_ref().map_or(0, |header| header.revision) + 1;
        let request = pb::WatchCreateRequest { start_revision, ..watcher(last.key.clone()) };
        let stream = WatchTalk::open(lane, request).await?;
        while stream.next().await?.events.iter().all(|event| event.r#type != 1) {}
    }
}

/// As etcd's client does it: puts the key if it is not there, else reads it. (The revision of the last change of a key
/// that is not there is 0, like that of its creation.)
fn lock_txn(lease: i64, key: &Bytes) -> pb::TxnRequest {
    let put = pb::PutRequest { key: key.clone(), value: Bytes::new(), lease, ..Default::default() };
    let get = pb::RangeRequest { key: key.clone(), ..Default::default() };
    let mut txn = put_if(key, CompareResult::Equal, 0, Request::RequestPut(put));
    txn.failure = vec![pb::RequestOp { request: Some(Request::RequestRange(get)) }];
    txn
}

async fn delete(lane: &Lane, key: Bytes) -> Result<(), CallError> {
    let request = pb::DeleteRangeRequest { key, ..Default::default() };
    lane.ask::<pb::DeleteRangeResponse>(methods::KV_DELETE_RANGE, &request).await.map(drop)
}

async fn keep_alive(lane: Rc<Lane>, leases: VecDeque<i64>) {
    loop {
        tokio::time::sleep(std::time::Duration::from_secs(TTL as u64 / 3)).await;
        for id in &leases {
            // A lease that could not be renewed shows when its lock fails.
            let request = pb::LeaseKeepAliveRequest { id: *id };
            let _ = lane.ask::<pb::LeaseKeepAliveResponse>(methods::LEASE_KEEP_ALIVE, &request).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_left_stays_as_old_as_it_is() {
        let txn = lock_txn(7, &"stmlock/7".into());
        let absent = Some(pb::compare::TargetUnion::ModRevision(0));
        let compare = &txn.compare[0];
        assert_eq!((compare.result, &compare.target_union), (CompareResult::Equal as i32, &absent));
        assert!(matches!(&txn.success[0].request, Some(Request::RequestPut(put)) if put.lease == 7));
        assert!(
            matches!(&txn.failure[0].request, Some(Request::RequestRange(get)) if get.key == "stmlock/7")
        );
    }
}
