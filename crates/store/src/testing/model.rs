//! A naive model of the store: all versions of all keys, every answer computed the long way round, as etcd
//! describes it.

use std::collections::BTreeMap;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::compare::TargetUnion;
use api::etcdserverpb::request_op::Request;
use api::etcdserverpb::response_op::Response as Op;
use api::mvccpb::KeyValue;
use bytes::Bytes;

/// A change: the version it made, `None` for a deletion.
#[derive(Clone, Debug)]
pub(crate) struct ModelChange {
    pub(crate) main: i64,
    pub(crate) key: Bytes,
    pub(crate) kv: Option<KeyValue>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct StoreModel {
    /// All changes ever, in order.
    pub(crate) changes: Vec<ModelChange>,
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    pub(crate) leases: BTreeMap<i64, i64>,
}

/// Whether `key` is in the range.
pub(crate) fn within(key: &[u8], start: &[u8], end: &[u8]) -> bool {
    match end {
        [] => key == start,
        [0] => key >= start,
        end => key >= start && key < end,
    }
}

fn header(revision: i64) -> Option<pb::ResponseHeader> {
    Some(pb::ResponseHeader { revision, ..Default::default() })
}

impl StoreModel {
    pub(crate) fn new() -> StoreModel {
        StoreModel { changes: Vec::new(), revision: 1, compacted: -1, leases: BTreeMap::new() }
    }

    /// Live keys of a range at a revision, in key order.
    pub(crate) fn live(&self, start: &[u8], end: &[u8], at: i64) -> Vec<KeyValue> {
        let mut live = BTreeMap::new();
        for change in
            self.changes.iter().filter(|change| change.main <= at && within(&change.key, start, end))
        {
            match &change.kv {
                Some(kv) => live.insert(change.key.clone(), kv.clone()),
                None => live.remove(&change.key),
            };
        }
        live.into_values().collect()
    }

    fn get(&self, key: &[u8]) -> Option<KeyValue> {
        self.live(key, b"", i64::MAX).pop()
    }

    fn has_changed(&self, main: i64) -> bool {
        self.changes.last().is_some_and(|change| change.main == main)
    }

    /// The revision a read sees while `main` is being written.
    fn visible(&self, main: i64) -> i64 {
        if self.has_changed(main) { main } else { main - 1 }
    }

    fn end(&mut self) -> i64 {
        self.revision = self.visible(self.revision + 1);
        self.revision
    }

    fn check_put(&self, request: &pb::PutRequest) -> Result<(), Error> {
        if request.lease != 0 && !self.leases.contains_key(&request.lease) {
            return Err(Error::LeaseNotFound);
        }
        if (request.ignore_value || request.ignore_lease) && self.get(&request.key).is_none() {
            return Err(Error::KeyNotFound);
        }
        Ok(())
    }

    fn write(&mut self, request: &pb::PutRequest, main: i64) -> pb::PutResponse {
        let old = self.get(&request.key);
        let kept = old.clone().unwrap_or_default();
        let kv = KeyValue {
            key: request.key.clone(),
            create_revision: if old.is_some() { kept.create_revision } else { main },
            mod_revision: main,
            version: kept.version + 1,
            value: if request.ignore_value { kept.value } else { request.value.clone() },
            lease: if request.ignore_lease { kept.lease } else { request.lease },
        };
        self.changes.push(ModelChange { main, key: request.key.clone(), kv: Some(kv) });
        pb::PutResponse { header: header(main), prev_kv: old.filter(|_| request.prev_kv) }
    }

    pub(crate) fn put(&mut self, request: &pb::PutRequest) -> Result<pb::PutResponse, Error> {
        self.check_put(request)?;
        let response = self.write(request, self.revision + 1);
        self.end();
        Ok(response)
    }

    fn erase(&mut self, request: &pb::DeleteRangeRequest, main: i64) -> pb::DeleteRangeResponse {
        let old = self.live(&request.key, &request.range_end, i64::MAX);
        for kv in &old {
            self.changes.push(ModelChange { main, key: kv.key.clone(), kv: None });
        }
        let deleted = old.len() as i64;
        let prev_kvs = if request.prev_kv { old } else { Vec::new() };
        pb::DeleteRangeResponse { header: header(self.visible(main)), deleted, prev_kvs }
    }

    pub(crate) fn delete_range(&mut self, request: &pb::DeleteRangeRequest) -> pb::DeleteRangeResponse {
        let response = self.erase(request, self.revision + 1);
        self.end();
        response
    }

    pub(crate) fn revoke(&mut self, id: i64) -> Result<i64, Error> {
        self.leases.remove(&id).ok_or(Error::LeaseNotFound)?;
        let main = self.revision + 1;
        for kv in self.live(b"", b"\0", i64::MAX).into_iter().filter(|kv| kv.lease == id) {
            self.changes.push(ModelChange { main, key: kv.key, kv: None });
        }
        Ok(self.end())
    }

    pub(crate) fn compact(&mut self, at: i64) -> Result<(), Error> {
        if at <= self.compacted {
            return Err(Error::Compacted);
        }
        if at > self.revision {
            return Err(Error::FutureRevision);
        }
        self.compacted = at;
        Ok(())
    }

    pub(crate) fn range(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, Error> {
        if request.revision > self.revision {
            return Err(Error::FutureRevision);
        }
        if request.revision > 0 && request.revision < self.compacted {
            return Err(Error::Compacted);
        }
        Ok(self.select(request, self.revision))
    }

    /// As etcd: get (with a limit only where that cannot matter), filter, sort, cut.
    fn select(&self, request: &pb::RangeRequest, visible: i64) -> pb::RangeResponse {
        let at = if request.revision > 0 { request.revision } else { visible };
        let mut kvs = self.live(&request.key, &request.range_end, at);
        let count = kvs.len() as i64;
        let (mins, maxs) = (
            [request.min_mod_revision, request.min_create_revision],
            [request.max_mod_revision, request.max_create_revision],
        );
        let filtered = mins != [0; 2] || maxs != [0; 2];
        let default_order = request.sort_order == 0 || (request.sort_target == 0 && request.sort_order == 1);
        if request.limit > 0 && default_order && !filtered {
            kvs.truncate(request.limit as usize + 1);
        }
        kvs.retain(|kv| {
            let numbers = [kv.mod_revision, kv.create_revision];
            (0..2).all(|n| (mins[n] == 0 || numbers[n] >= mins[n]) && (maxs[n] == 0 || numbers[n] <= maxs[n]))
        });
        match request.sort_target {
            1 => kvs.sort_by_key(|kv| kv.version),
            2 => kvs.sort_by_key(|kv| kv.create_revision),
            3 => kvs.sort_by_key(|kv| kv.mod_revision),
            4 => kvs.sort_by_key(|kv| kv.value.clone()),
            _ => {}
        }
        if request.sort_order == 2 {
            kvs = reverse_but_keep_ties(kvs, request.sort_target);
        }
        let more = request.limit > 0 && kvs.len() > request.limit as usize;
        if more {
            kvs.truncate(request.limit as usize);
        }
        if request.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
            if request.sort_target != 4 {
                kvs.iter_mut().for_each(|kv| kv.lease = 0);
            }
        }
        if request.count_only {
            kvs.clear();
        }
        pb::RangeResponse { header: header(visible), kvs, more: more && !request.count_only, count }
    }

    pub(crate) fn txn(&mut self, request: &pb::TxnRequest) -> Result<pb::TxnResponse, Error> {
        let before = self.clone();
        before.check_txn(request)?;
        let main = self.revision + 1;
        let mut response = self.run_txn(request, &before, main);
        response.header = header(self.end());
        Ok(response)
    }

    fn branch<'r>(&self, request: &'r pb::TxnRequest) -> (bool, &'r [pb::RequestOp]) {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        (succeeded, if succeeded { &request.success } else { &request.failure })
    }

    fn check_txn(&self, request: &pb::TxnRequest) -> Result<(), Error> {
        for op in self.branch(request).1 {
            match op.request.as_ref().unwrap() {
                Request::RequestRange(range) if range.revision > self.revision => {
                    return Err(Error::FutureRevision);
                }
                Request::RequestRange(range) if range.revision != 0 && range.revision < self.compacted => {
                    return Err(Error::Compacted);
                }
                Request::RequestPut(put) => self.check_put(put)?,
                Request::RequestTxn(nested) => self.check_txn(nested)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn run_txn(&mut self, request: &pb::TxnRequest, before: &StoreModel, main: i64) -> pb::TxnResponse {
        let (succeeded, ops) = before.branch(request);
        let mut responses = Vec::new();
        for op in ops {
            let response = match op.request.as_ref().unwrap() {
                Request::RequestRange(range) => Op::ResponseRange(self.select(range, self.visible(main))),
                Request::RequestPut(put) => Op::ResponsePut(self.write_after(put, main)),
                Request::RequestDeleteRange(delete) => Op::ResponseDeleteRange(self.erase(delete, main)),
                Request::RequestTxn(nested) => Op::ResponseTxn(self.run_txn(nested, before, main)),
            };
            responses.push(pb::ResponseOp { response: Some(response) });
        }
        pb::TxnResponse { header: header(0), succeeded, responses }
    }

    /// A put in a transaction that may have deleted the key before: then there is nothing to keep.
    fn write_after(&mut self, put: &pb::PutRequest, main: i64) -> pb::PutResponse {
        let mut put = put.clone();
        if put.ignore_value && self.get(&put.key).is_none() {
            put.value = Bytes::new();
        }
        self.write(&put, main)
    }

    fn holds(&self, compare: &pb::Compare) -> bool {
        let kvs = self.live(&compare.key, &compare.range_end, i64::MAX);
        let of_value = compare.target == 3;
        if kvs.is_empty() {
            return !of_value && holds_for(compare, &KeyValue::default());
        }
        kvs.iter().all(|kv| holds_for(compare, kv))
    }
}

fn reverse_but_keep_ties(kvs: Vec<KeyValue>, target: i32) -> Vec<KeyValue> {
    let tied = |a: &KeyValue, b: &KeyValue| match target {
        1 => a.version == b.version,
        2 => a.create_revision == b.create_revision,
        3 => a.mod_revision == b.mod_revision,
        4 => a.value == b.value,
        _ => false,
    };
    let groups: Vec<&[KeyValue]> = kvs.chunk_by(tied).collect();
    groups.into_iter().rev().flatten().cloned().collect()
}

fn holds_for(compare: &pb::Compare, kv: &KeyValue) -> bool {
    let ordering = match compare.target_union.as_ref().unwrap() {
        TargetUnion::Version(wanted) => kv.version.cmp(wanted),
        TargetUnion::CreateRevision(wanted) => kv.create_revision.cmp(wanted),
        TargetUnion::ModRevision(wanted) => kv.mod_revision.cmp(wanted),
        TargetUnion::Value(wanted) => kv.value.cmp(wanted),
        TargetUnion::Lease(wanted) => kv.lease.cmp(wanted),
    };
    match compare.result {
        0 => ordering.is_eq(),
        1 => ordering.is_gt(),
        2 => ordering.is_lt(),
        _ => ordering.is_ne(),
    }
}
