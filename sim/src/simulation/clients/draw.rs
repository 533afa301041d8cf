//! Draws the next request of a client.

use api::etcdserverpb as pb;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use crate::checks::history::RevisionHistory;
use crate::plan::run_plan::RunPlan;
use crate::rng::Rng;
use crate::world::request::ClientRequest;

/// Longest TTL of the leases of a long run that do not outlive a quiet period.
const MAX_SHORT_TTL_S: u64 = 12;

/// What a client knows when it draws a request.
pub(super) struct RequestDrawing<'a> {
    pub(super) plan: &'a RunPlan,
    pub(super) rng: &'a mut Rng,
    pub(super) history: &'a RevisionHistory,
    /// Leases that were granted, newest last.
    pub(super) leases: &'a [i64],
    /// Faults have stopped: no lease is granted or renewed any more.
    pub(super) faults_stopped: bool,
    /// A quiet period: half of the requests renew leases.
    pub(super) quiet: bool,
    /// The number of the request.
    pub(super) number: u64,
}

impl RequestDrawing<'_> {
    /// Draws a request.
    pub(super) fn draw(&mut self) -> ClientRequest {
        if self.quiet && !self.faults_stopped && self.rng.percent(50) {
            return self.with_lease(|lease| ClientRequest::KeepAlive { lease, renew: true });
        }
        if let Some(request) = self.of_many_keys() {
            return request;
        }
        match self.rng.weighted(&self.plan.request_weights) {
            1 => self.txn(),
            2 => ClientRequest::Delete(self.delete()),
            3 => ClientRequest::Read(self.range()),
            4 => ClientRequest::Read(self.past()),
            5 => ClientRequest::SerializableRead(self.range()),
            6 if !self.faults_stopped => {
                let short = self.plan.is_long() && self.rng.percent(50);
                let max_ttl_s = if short { MAX_SHORT_TTL_S } else { self.plan.max_ttl_s as u64 };
                let ttl = self.rng.between(1, max_ttl_s) as i64;
                ClientRequest::Grant(pb::LeaseGrantRequest { ttl, id: 1_000_000 + self.number as i64 })
            }
            7 if !self.faults_stopped => {
                self.with_lease(|lease| ClientRequest::KeepAlive { lease, renew: true })
            }
            8 => self.with_lease(|lease| ClientRequest::KeepAlive { lease, renew: false }),
            9 => self.with_lease(|lease| ClientRequest::Revoke(pb::LeaseRevokeRequest { id: lease })),
            10 => self.compact(),
            _ => ClientRequest::Put(self.put(0)),
        }
    }

    fn key(&mut self) -> Bytes {
        self.plan.names.name(self.rng.below(self.plan.names.keys)).into()
    }

    /// One key, or the keys from one to another, or all keys.
    fn key_range(&mut self) -> (Bytes, Bytes) {
        let key = self.key();
        match self.rng.below(4) {
            0 | 1 => (key, Bytes::new()),
            2 => {
                let end = self.key();
                if end > key { (key, end) } else { (end, Bytes::from_static(b"\0")) }
            }
            _ => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
        }
    }

    fn with_lease(&mut self, make: impl FnOnce(i64) -> ClientRequest) -> ClientRequest {
        match self.recent_lease() {
            Some(lease) => make(lease),
            None => ClientRequest::Put(self.put(0)),
        }
    }

    pub(super) fn recent_lease(&mut self) -> Option<i64> {
        let recent = &self.leases[self.leases.len().saturating_sub(6)..];
        recent.get(self.rng.below(recent.len() as u64) as usize).copied()
    }

    fn put(&mut self, nth: usize) -> pb::PutRequest {
        let value = self.value(nth);
        let lease = if self.rng.percent(25) { self.recent_lease().unwrap_or(0) } else { 0 };
        let prev_kv = self.rng.percent(40);
        pb::PutRequest { key: self.key(), value, lease, prev_kv, ..Default::default() }
    }

    /// A value of the request, which begins with its number.
    pub(super) fn value(&mut self, nth: usize) -> Bytes {
        let bytes = self.rng.below(self.plan.max_value_bytes) as usize;
        let mut value = format!("{}:{nth}:", self.number).into_bytes();
        value.resize(value.len() + bytes, b'a' + (self.number % 26) as u8);
        value.into()
    }

    fn delete(&mut self) -> pb::DeleteRangeRequest {
        let (key, range_end) = self.key_range();
        pb::DeleteRangeRequest { key, range_end, prev_kv: self.rng.percent(50) }
    }

    fn range(&mut self) -> pb::RangeRequest {
        let (key, range_end) = self.key_range();
        let limit = if self.rng.percent(30) { self.rng.between(1, 5) as i64 } else { 0 };
        let descend = pb::range_request::SortOrder::Descend as i32;
        pb::RangeRequest {
            key,
            range_end,
            limit,
            keys_only: self.rng.percent(10),
            count_only: self.rng.percent(10),
            sort_order: if self.rng.percent(20) { descend } else { 0 },
            ..Default::default()
        }
    }

    fn past(&mut self) -> pb::RangeRequest {
        let newest = self.history.revision();
        let back = self.rng.below(60) as i64;
        pb::RangeRequest { revision: (newest - back).max(1), ..self.range() }
    }

    fn compact(&mut self) -> ClientRequest {
        let revision = self.history.revision() - self.rng.below(40) as i64;
        ClientRequest::Compact(pb::CompactionRequest {
            revision: revision.max(1),
            physical: self.rng.percent(50),
        })
    }

    fn txn(&mut self) -> ClientRequest {
        let compare = (0..self.rng.below(3)).map(|_| self.compare()).collect();
        let success = self.branch(0);
        let failure = self.branch(10);
        ClientRequest::Txn(pb::TxnRequest { compare, success, failure })
    }

    /// A transaction to be put into another one.
    pub(super) fn nested(&mut self) -> pb::TxnRequest {
        let compare = (0..self.rng.below(3)).map(|_| self.compare()).collect();
        pb::TxnRequest { compare, success: self.branch(20), failure: self.branch(30) }
    }

    fn compare(&mut self) -> pb::Compare {
        let key = self.key();
        let kv = self.history.view(self.history.revision()).get(&key).cloned().unwrap_or_default();
        let (target, union) = match self.rng.below(5) {
            0 => (CompareTarget::Version, TargetUnion::Version(kv.version)),
            1 => (CompareTarget::Create, TargetUnion::CreateRevision(kv.create_revision)),
            2 => (CompareTarget::Mod, TargetUnion::ModRevision(kv.mod_revision)),
            3 => (CompareTarget::Lease, TargetUnion::Lease(kv.lease)),
            _ => (CompareTarget::Value, TargetUnion::Value(kv.value)),
        };
        let results = [
            CompareResult::Equal,
            CompareResult::Equal,
            CompareResult::NotEqual,
            CompareResult::Greater,
            CompareResult::Less,
        ];
        let result = results[self.rng.below(results.len() as u64) as usize];
        pb::Compare {
            result: result as i32,
            target: target as i32,
            key,
            target_union: Some(union),
            ..Default::default()
        }
    }

    /// Operations of one branch. Each key is written at most once, as the API requires.
    fn branch(&mut self, first: usize) -> Vec<pb::RequestOp> {
        let mut written: Vec<Bytes> = Vec::new();
        let mut ops = Vec::new();
        for nth in 0..self.rng.below(4) as usize {
            let request = match self.rng.below(5) {
                0 | 1 => Request::RequestRange(self.range()),
                2 => {
                    let key = self.key();
                    let prev_kv = self.rng.percent(50);
                    Request::RequestDeleteRange(pb::DeleteRangeRequest { key, prev_kv, ..Default::default() })
                }
                _ => Request::RequestPut(self.put(first + nth)),
            };
            let key = match &request {
                Request::RequestPut(put) => Some(&put.key),
                Request::RequestDeleteRange(delete) => Some(&delete.key),
                _ => None,
            };
            if key.is_some_and(|key| written.contains(key)) {
                continue;
            }
            written.extend(key.cloned());
            ops.push(pb::RequestOp { request: Some(request) });
        }
        ops
    }
}
