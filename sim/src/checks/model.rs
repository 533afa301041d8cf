//! A model of the key-value API: what each request means, on plain sorted maps. Slow, short, and written from etcd's
//! API documents alone.
//!
//! ```text
//! ModelReplay::new(keys at revision 6, 7)
//!   .txn(if version(a) = 3 then put a=x, delete b)  ->  response: succeeded, 1 deleted
//!   .changes                                        ->  [a = x (create 2, mod 7, version 4), b deleted]
//! ```

use std::cmp::Ordering;
use std::collections::BTreeMap;

use api::etcdserverpb as pb;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use api::etcdserverpb::request_op::Request;
use api::etcdserverpb::response_op::Response;
use api::mvccpb::KeyValue;
use bytes::Bytes;

use super::history::{KeyChange, KeysAtRevision};

/// Whether a key is in the range of a request.
pub(crate) fn is_within(key: &Bytes, start: &Bytes, end: &Bytes) -> bool {
    match end.as_ref() {
        [] => key == start,
        [0] => key >= start,
        _ => key >= start && key < end,
    }
}

/// A request that is applied to the keys at a revision.
pub(crate) struct ModelReplay<'a> {
    before: KeysAtRevision<'a>,
    main: i64,
    /// Keys that it has written, or deleted (`None`).
    written: BTreeMap<Bytes, Option<KeyValue>>,
    /// What it changed so far, in order.
    pub(crate) changes: Vec<KeyChange>,
}

impl<'a> ModelReplay<'a> {
    /// Begins on the keys at a revision; changes get the revision `main`.
    pub(crate) fn new(before: KeysAtRevision<'a>, main: i64) -> ModelReplay<'a> {
        ModelReplay { before, main, written: BTreeMap::new(), changes: Vec::new() }
    }

    fn get(&self, key: &Bytes) -> Option<&KeyValue> {
        match self.written.get(key) {
            Some(written) => written.as_ref(),
            None => self.before.get(key),
        }
    }

    /// The live keys of a range, in order.
    fn within(&self, start: &Bytes, end: &Bytes) -> Vec<KeyValue> {
        if end.is_empty() {
            return self.get(start).cloned().into_iter().collect();
        }
        let within = |kv: &&KeyValue| is_within(&kv.key, start, end);
        let untouched = |kv: &&KeyValue| !self.written.contains_key(&kv.key);
        let before = self.before.from(start).take_while(within).filter(untouched);
        let mut kvs: Vec<KeyValue> = before.cloned().collect();
        if !self.written.is_empty() {
            kvs.extend(self.written.values().flatten().filter(within).cloned());
            kvs.sort_by(|a, b| a.key.cmp(&b.key));
        }
        kvs
    }

    /// A put.
    pub(crate) fn put(&mut self, request: &pb::PutRequest) -> pb::PutResponse {
        let before = self.get(&request.key).cloned();
        let kv = KeyValue {
            key: request.key.clone(),
            create_revision: before.as_ref().map_or(self.main, |kv| kv.create_revision),
            mod_revision: self.main,
            version: before.as_ref().map_or(1, |kv| kv.version + 1),
            value: request.value.clone(),
            lease: request.lease,
        };
        self.written.insert(request.key.clone(), Some(kv.clone()));
        self.changes.push(KeyChange { key: request.key.clone(), kv: Some(kv) });
        pb::PutResponse { header: None, prev_kv: before.filter(|_| request.prev_kv) }
    }

    /// A deletion.
    pub(crate) fn delete(&mut self, request: &pb::DeleteRangeRequest) -> pb::DeleteRangeResponse {
        let gone = self.within(&request.key, &request.range_end);
        for kv in &gone {
            self.written.insert(kv.key.clone(), None);
            self.changes.push(KeyChange { key: kv.key.clone(), kv: None });
        }
        let deleted = gone.len() as i64;
        pb::DeleteRangeResponse {
            header: None,
            deleted,
            prev_kvs: if request.prev_kv { gone } else { Vec::new() },
        }
    }

    /// A range, with the options that the clients here use: limit, keys only, count only, descending by key.
    pub(crate) fn range(&self, request: &pb::RangeRequest) -> pb::RangeResponse {
        let mut kvs = self.within(&request.key, &request.range_end);
        let count = kvs.len() as i64;
        if request.sort_order == pb::range_request::SortOrder::Descend as i32 {
            kvs.reverse();
        }
        let limit = if request.limit > 0 { request.limit as usize } else { usize::MAX };
        let more = kvs.len() > limit && !request.count_only;
        kvs.truncate(if request.count_only { 0 } else { limit });
        if request.keys_only {
            kvs.iter_mut().for_each(|kv| {
                kv.value = Bytes::new();
                kv.lease = 0;
            });
        }
        pb::RangeResponse { header: None, kvs, more, count }
    }

    /// A transaction. All branches, those of nested ones too, are chosen before anything is written.
    pub(crate) fn txn(&mut self, request: &pb::TxnRequest) -> pb::TxnResponse {
        let mut path = Vec::new();
        self.choose(request, &mut path);
        self.follow(request, &mut path.into_iter())
    }

    /// Whether a transaction succeeds, and then the same of those in its branch, in order.
    fn choose(&self, request: &pb::TxnRequest, path: &mut Vec<bool>) {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        path.push(succeeded);
        for op in if succeeded { &request.success } else { &request.failure } {
            if let Some(Request::RequestTxn(nested)) = &op.request {
                self.choose(nested, path);
            }
        }
    }

    fn follow(&mut self, request: &pb::TxnRequest, path: &mut dyn Iterator<Item = bool>) -> pb::TxnResponse {
        let succeeded = path.next() == Some(true);
        let branch = if succeeded { &request.success } else { &request.failure };
        let mut responses = Vec::new();
        for op in branch {
            responses.push(match &op.request {
                Some(Request::RequestTxn(nested)) => {
                    let response = self.follow(nested, path);
                    pb::ResponseOp { response: Some(Response::ResponseTxn(response)) }
                }
                _ => self.op(op),
            });
        }
        pb::TxnResponse { header: None, succeeded, responses }
    }

    fn op(&mut self, op: &pb::RequestOp) -> pb::ResponseOp {
        let response = match &op.request {
            Some(Request::RequestPut(put)) => Some(Response::ResponsePut(self.put(put))),
            Some(Request::RequestDeleteRange(delete)) => {
                Some(Response::ResponseDeleteRange(self.delete(delete)))
            }
            Some(Request::RequestRange(range)) => Some(Response::ResponseRange(self.range(range))),
            Some(Request::RequestTxn(_)) | None => None,
        };
        pb::ResponseOp { response }
    }

    fn holds(&self, compare: &pb::Compare) -> bool {
        let kv = self.get(&compare.key);
        let zero = KeyValue::default();
        let numbers = kv.unwrap_or(&zero);
        let is_value = compare.target == CompareTarget::Value as i32;
        let ordering = match &compare.target_union {
            _ if is_value && kv.is_none() => return false,
            Some(TargetUnion::Value(value)) => numbers.value.cmp(value),
            Some(TargetUnion::Version(wanted)) => numbers.version.cmp(wanted),
            Some(TargetUnion::CreateRevision(wanted)) => numbers.create_revision.cmp(wanted),
            Some(TargetUnion::ModRevision(wanted)) => numbers.mod_revision.cmp(wanted),
            Some(TargetUnion::Lease(wanted)) => numbers.lease.cmp(wanted),
            None => Ordering::Equal,
        };
        match CompareResult::try_from(compare.result) {
            Ok(CompareResult::Equal) | Err(_) => ordering.is_eq(),
            Ok(CompareResult::NotEqual) => ordering.is_ne(),
            Ok(CompareResult::Greater) => ordering.is_gt(),
            Ok(CompareResult::Less) => ordering.is_lt(),
        }
    }
}
