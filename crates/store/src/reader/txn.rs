//! Transactions that only read: served where they arrive, without the log.
//!
//! All of it is at one revision, the newest when it began, which stays pinned. So compares and ranges need no
//! common hold of the lock: compares of values can read what they need, and long ranges let the writer in.

use std::ops::ControlFlow;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use super::Reader;
use crate::command::{OpReply, TxnReply};
use crate::compare::{holds_for, holds_for_none};
use crate::index::{Key, Version, walk_chunk};
use crate::range::{bounds, check_revision_in_txn};
use crate::state::{Counters, read};
use crate::types::{Damaged, Revision};

/// A transaction of which all operations, in both branches, are ranges.
#[derive(Clone, Debug)]
pub struct ReadTxn<'r> {
    compares: &'r [pb::Compare],
    success: Vec<&'r pb::RangeRequest>,
    failure: Vec<&'r pb::RangeRequest>,
}

impl<'r> ReadTxn<'r> {
    /// `None` when the request does anything else than read. Like etcd, this does not look into nested
    /// transactions: they count as writes.
    pub fn of(request: &'r pb::TxnRequest) -> Option<ReadTxn<'r>> {
        let (success, failure) = (ranges(&request.success)?, ranges(&request.failure)?);
        Some(ReadTxn { compares: &request.compare, success, failure })
    }

    /// Whether it may be answered from a state that is behind: it reads, and all its ranges allow that.
    /// Compares alone cannot say so.
    pub fn is_serializable(&self) -> bool {
        let mut ranges = self.success.iter().chain(&self.failure).peekable();
        ranges.peek().is_some() && ranges.all(|range| range.serializable)
    }
}

fn ranges(ops: &[pb::RequestOp]) -> Option<Vec<&pb::RangeRequest>> {
    let range = |op: &'_ pb::RequestOp| matches!(op.request, Some(Request::RequestRange(_)));
    if !ops.iter().all(range) {
        return None;
    }
    Some(
        ops.iter()
            .filter_map(|op| match &op.request {
                Some(Request::RequestRange(request)) => Some(request),
                _ => None,
            })
            .collect(),
    )
}

impl Reader {
    /// Carries out a transaction that only reads.
    ///
    /// # Errors
    /// Outer: [`Damaged`] when a value to compare cannot be read; repair it and call again. Inner:
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn txn(&self, txn: &ReadTxn<'_>) -> Result<Result<TxnReply, Error>, Damaged> {
        let state = self.shared.state.read();
        let (current, compacted) = (state.revision, state.compacted);
        let asked = txn.success.iter().chain(&txn.failure).map(|range| range.revision);
        // Whichever branch it will be: what can be read now must stay.
        let oldest = asked.filter(|asked| *asked > 0 && *asked >= compacted).fold(current, i64::min);
        let _pin = self.shared.pin(oldest);
        drop(state);
        let mut succeeded = true;
        for compare in txn.compares {
            if !self.holds(compare, current)? {
                succeeded = false;
                break;
            }
        }
        Counters::add(&self.shared.counters.txns, 1);
        let ranges = if succeeded { &txn.success } else { &txn.failure };
        for range in ranges {
            if let Err(error) = check_revision_in_txn(range.revision, current, compacted) {
                return Ok(Err(error));
            }
        }
        let replies = ranges.iter().map(|range| {
            let revision = if range.revision > 0 { range.revision } else { current };
            OpReply::Range(self.select(range, self.shared.state.read(), revision, current))
        });
        Ok(Ok(TxnReply { revision: current, succeeded, replies: replies.collect() }))
    }

    /// Whether a compare holds, at the pinned revision `at`, for all keys it names.
    fn holds(&self, compare: &pb::Compare, at: i64) -> Result<bool, Damaged> {
        let at = Revision { main: at, sub: u32::MAX };
        if compare.range_end.is_empty() {
            let state = self.shared.state.read();
            let version = state.index.record(&compare.key).and_then(|record| record.live_until(at));
            drop(state);
            return version.map_or(Ok(holds_for_none(compare)), |version| self.holds_for(compare, &version));
        }
        let mut any = false;
        let mut start = Some(Key::new(&compare.key));
        while let Some(from) = start {
            let mut versions = Vec::new();
            let mut range = bounds(&compare.key, &compare.range_end);
            range.start = from.as_slice();
            let state = self.shared.state.read();
            start = walk_chunk(&state.index, &range, self.shared.limits.chunk_keys, |record, _| {
                versions.extend(record.live_until(at));
                ControlFlow::Continue(())
            });
            drop(state);
            any |= !versions.is_empty();
            for version in &versions {
                if !self.holds_for(compare, version)? {
                    return Ok(false);
                }
            }
        }
        Ok(any || holds_for_none(compare))
    }

    fn holds_for(&self, compare: &pb::Compare, version: &Version) -> Result<bool, Damaged> {
        holds_for(compare, version, |value| read(&*self.shared.values, value))
    }
}
