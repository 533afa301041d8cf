//! What clients ask for.

use api::etcdserverpb as pb;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use super::Op;
use crate::checks::history::History;
use crate::plan::Plan;
use crate::rng::Rng;

/// How often each request is drawn as a rule: put, transaction, delete, read, read of the past, local read,
/// grant, renew,
/// look at a lease, revoke, compact.
pub(crate) const WEIGHTS: [u64; 11] = [30, 18, 6, 18, 6, 10, 4, 12, 2, 2, 1];

/// The longest TTL of the leases that do not live through a quiet spell of a long run, seconds.
const SHORT_TTL_MAX_S: u64 = 12;

/// What a client knows when it decides what to ask for.
pub(crate) struct Drawing<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) rng: &'a mut Rng,
    pub(crate) history: &'a History,
    /// Leases that were granted, newest last.
    pub(crate) leases: &'a [i64],
    /// No lease is granted or renewed any more.
    pub(crate) calm: bool,
    /// Little happens now but that leases are kept alive.
    pub(crate) quiet: bool,
    /// The number of the request.
    pub(crate) number: u64,
}

impl Drawing<'_> {
    /// Draws a request.
    pub(crate) fn draw(&mut self) -> Op {
        if self.quiet && !self.calm && self.rng.percent(50) {
            return self.with_lease(|lease| Op::KeepAlive { lease, renew: true });
        }
        match self.rng.weighted(&self.plan.mix.weights) {
            1 => self.txn(),
            2 => Op::Delete(self.delete()),
            3 => Op::Read(self.range()),
            4 => Op::Read(self.past()),
            5 => Op::Local(self.range()),
            6 if !self.calm => {
                let short = self.plan.is_long() && self.rng.percent(50);
                let ttl_max_s = if short { SHORT_TTL_MAX_S } else { self.plan.ttl_max_s as u64 };
                let ttl = self.rng.between(1, ttl_max_s) as i64;
                Op::Grant(pb::LeaseGrantRequest { ttl, id: 1_000_000 + self.number as i64 })
            }
            7 if !self.calm => self.with_lease(|lease| Op::KeepAlive { lease, renew: true }),
            8 => self.with_lease(|lease| Op::KeepAlive { lease, renew: false }),
            9 => self.with_lease(|lease| Op::Revoke(pb::LeaseRevokeRequest { id: lease })),
            10 => self.compact(),
            _ => Op::Put(self.put(0)),
        }
    }

    fn key(&mut self) -> Bytes {
        format!("k{:02}", self.rng.below(self.plan.keys)).into()
    }

    /// One key, or from one to another, or all.
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

    fn with_lease(&mut self, make: impl FnOnce(i64) -> Op) -> Op {
        match self.recent_lease() {
            Some(lease) => make(lease),
            None => Op::Put(self.put(0)),
        }
    }

    fn recent_lease(&mut self) -> Option<i64> {
        let recent = &self.leases[self.leases.len().saturating_sub(6)..];
        recent.get(self.rng.below(recent.len() as u64) as usize).copied()
    }

    fn put(&mut self, nth: usize) -> pb::PutRequest {
        let bytes = self.rng.below(self.plan.max_value_bytes) as usize;
        let mut value = format!("{}:{nth}:", self.number).into_bytes();
        value.resize(value.len() + bytes, b'a' + (self.number % 26) as u8);
        let lease = if self.rng.percent(25) { self.recent_lease().unwrap_or(0) } else { 0 };
        let prev_kv = self.rng.percent(40);
        pb::PutRequest { key: self.key(), value: value.into(), lease, prev_kv, ..Default::default() }
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

    fn compact(&mut self) -> Op {
        let revision = self.history.revision() - self.rng.below(40) as i64;
        Op::Compact(pb::CompactionRequest { revision: revision.max(1), physical: self.rng.percent(50) })
    }

    fn txn(&mut self) -> Op {
        let compare = (0..self.rng.below(3)).map(|_| self.compare()).collect();
        let success = self.branch(0);
        let failure = self.branch(10);
        Op::Txn(pb::TxnRequest { compare, success, failure })
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

    /// Operations of one branch: each key is written at most once, as the API asks.
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
