//! What clients request in runs with thousands of keys: large transactions that load keys, deletions of many of them,
//! lists in pages at one revision, counts and hashes of old revisions.
//!
//! ```text
//! client 3   list [a, z), 200 keys   200 keys of revision 41, more
//!            [its key 200, z) at 41  any member, after compactions, deletions, an installed snapshot
//!            ...                     every page is what the model says of revision 41, or "compacted"
//! ```

use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use super::draw::RequestDrawing;
use crate::simulation::state::Simulation;
use crate::world::request::{ClientRequest, PendingRequest};

/// Percentage of requests that are drawn here.
const OWN_PERCENT: u64 = 75;

/// Weight of each request: load, delete, first page of a list, count of the past, hash, compact.
const WEIGHTS: [u64; 6] = [40, 8, 16, 12, 6, 12];

/// Keys that a transaction loads, at most.
const MAX_LOADED: u64 = 200;

/// Keys that a deletion covers, at most: a few, or a large part of all.
const MAX_DELETED: [u64; 2] = [60, 3_000];

/// Keys of a page.
const MIN_PAGE_KEYS: u64 = 20;
const MAX_PAGE_KEYS: u64 = 400;

/// How far back revisions of counts and hashes lie, and compactions.
const MAX_BACK: u64 = 60;

/// One compaction in so many hides all that a list or a hash in progress needs.
const COMPACT_ALL_ONE_IN: u64 = 3;

impl RequestDrawing<'_> {
    /// A request of a run with many keys; `None` for one as in other runs.
    pub(super) fn of_many_keys(&mut self) -> Option<ClientRequest> {
        if !self.plan.names.are_many() || !self.rng.percent(OWN_PERCENT) {
            return None;
        }
        Some(match self.rng.weighted(&WEIGHTS) {
            0 => self.load(),
            1 => {
                let most = MAX_DELETED[self.rng.below(2) as usize];
                let (key, range_end) = self.neighbours(most);
                ClientRequest::Delete(pb::DeleteRangeRequest { key, range_end, ..Default::default() })
            }
            2 => {
                let (key, range_end) = self.neighbours(self.plan.names.keys);
                let limit = self.rng.between(MIN_PAGE_KEYS, MAX_PAGE_KEYS) as i64;
                ClientRequest::Read(pb::RangeRequest { key, range_end, limit, ..Default::default() })
            }
            3 => {
                let (key, range_end) = self.neighbours(self.plan.names.keys);
                let (revision, count_only) = (self.old_revision(), true);
                ClientRequest::Read(pb::RangeRequest {
                    key,
                    range_end,
                    revision,
                    count_only,
                    ..Default::default()
                })
            }
            4 => {
                let is_newest = self.rng.percent(30);
                ClientRequest::HashKv { revision: if is_newest { 0 } else { self.old_revision() } }
            }
            _ => {
                let is_all = self.rng.below(COMPACT_ALL_ONE_IN) == 0;
                let revision = if is_all { self.history.revision() } else { self.old_revision() };
                let physical = self.rng.percent(50);
                ClientRequest::Compact(pb::CompactionRequest { revision: revision.max(1), physical })
            }
        })
    }

    fn old_revision(&mut self) -> i64 {
        (self.history.revision() - self.rng.below(MAX_BACK) as i64).max(1)
    }

    /// A transaction that writes neighbouring keys, a few of them with one lease.
    fn load(&mut self) -> ClientRequest {
        let keys = self.plan.names.keys;
        let count = self.rng.between(1, MAX_LOADED);
        let first = self.rng.below(keys);
        let lease = if self.rng.percent(10) { self.recent_lease().unwrap_or(0) } else { 0 };
        let puts = (first..keys.min(first + count)).enumerate().map(|(nth, number)| {
            let (key, value) = (self.plan.names.name(number).into(), self.value(nth));
            let put = pb::PutRequest { key, value, lease, ..Default::default() };
            pb::RequestOp { request: Some(Request::RequestPut(put)) }
        });
        ClientRequest::Txn(pb::TxnRequest { success: puts.collect(), ..Default::default() })
    }

    /// A range of up to `most` keys that follow each other.
    fn neighbours(&mut self, most: u64) -> (Bytes, Bytes) {
        let names = &self.plan.names;
        let first = self.rng.below(names.keys);
        let end = first + self.rng.between(1, most);
        let range_end = if end < names.keys { names.name(end) } else { "\0".to_owned() };
        (names.name(first).into(), range_end.into())
    }
}

impl Simulation {
    /// The next page of the list that a client reads, if it reads one.
    pub(super) fn next_page(&mut self, client: usize) -> Option<ClientRequest> {
        self.workload.clients[client].list.take().map(ClientRequest::Read)
    }

    /// A client has received an answer. If that is a page of a list, it requests the next one at the same revision.
    pub(super) fn page_arrives(
        &mut self,
        pending: &PendingRequest,
        request: &pb::RangeRequest,
        response: &pb::RangeResponse,
    ) {
        let is_page = self.plan.names.are_many() && request.limit >= MIN_PAGE_KEYS as i64 && response.more;
        let (Some(last), true) = (response.kvs.last(), is_page && request.sort_order == 0) else { return };
        let Some(client) = self.workload.clients.get_mut(pending.client) else { return };
        self.coverage.event(if request.revision > 0 {
            "later pages of lists"
        } else {
            "first pages of lists"
        });
        let newest = response.header.as_ref().map_or(0, |header| header.revision);
        let revision = if request.revision > 0 { request.revision } else { newest };
        let key = Bytes::from([&last.key[..], &[0]].concat());
        client.list = Some(pb::RangeRequest { key, revision, ..request.clone() });
    }
}
