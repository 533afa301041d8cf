//! Transactions that only read: served by the member that receives them, without the log.
//!
//! The whole transaction reads at one revision, the newest when it began, which stays pinned. So compares and ranges
//! need no common hold of the lock: compares read the values they need, and long ranges release the lock between
//! chunks. If a snapshot takes the revision away meanwhile, the transaction begins again at the newest one.
//!
//! The limits are those of transactions that write: keys that compares visit and operations read are counted before any
//! of them is looked at. Bytes of compared values are counted as they are read.

use std::ops::ControlFlow;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
use crate::apply::{MAX_COMPARED_BYTES, TxnCost};
use crate::command::{OpReply, TxnReply};
use crate::compare::PreparedCompare;
use crate::index::{IndexKey, Version, walk_chunk};
use crate::range::{bounds, check_revision_in_txn};
use crate::state::{StateReplaced, StoreCounters};
use crate::types::Revision;
use crate::values::{Damaged, read};

/// Why an attempt at a transaction ended without an answer: a damaged value, or a new state.
type Attempt<T> = Result<Result<T, Damaged>, StateReplaced>;

/// A transaction of which all operations, in both branches, are ranges.
#[derive(Clone, Debug)]
pub struct ReadTxn<'r> {
    compares: &'r [pb::Compare],
    success: Vec<&'r pb::RangeRequest>,
    failure: Vec<&'r pb::RangeRequest>,
}

impl<'r> ReadTxn<'r> {
    /// `None` if the request does anything but read. As in etcd, a nested transaction counts as a write.
    pub fn of(request: &'r pb::TxnRequest) -> Option<ReadTxn<'r>> {
        let (success, failure) = (ranges(&request.success)?, ranges(&request.failure)?);
        Some(ReadTxn { compares: &request.compare, success, failure })
    }

    /// Whether it may be answered without a ReadIndex round: it has ranges, and all of them are serializable. As in
    /// etcd, a transaction of compares only is not.
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
    /// [`Error::TooManyOps`], [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn txn(&self, txn: &ReadTxn<'_>) -> Result<Result<TxnReply, Error>, Damaged> {
        let answered = from_the_beginning(|| self.try_txn(txn))?;
        StoreCounters::add(&self.shared.counters.txns, 1);
        Ok(answered)
    }

    fn try_txn(&self, txn: &ReadTxn<'_>) -> Attempt<Result<TxnReply, Error>> {
        let state = self.shared.state.read();
        let (current, compacted) = (state.revision, state.compacted);
        let mut cost = TxnCost::of_compares();
        let mut compares = txn.compares.iter();
        if let Err(error) = compares.try_for_each(|compare| cost.add_compare(&state.index, compare)) {
            return Ok(Ok(Err(error)));
        }
        let asked = txn.success.iter().chain(&txn.failure).map(|range| range.revision);
        // Either branch may be taken: pin the oldest revision that either can read.
        let oldest = asked.filter(|asked| *asked > 0 && *asked >= compacted).fold(current, i64::min);
        let pinned = PinnedRevision::new(&self.shared, &state, oldest);
        drop(state);
        let mut succeeded = true;
        let mut bytes = 0;
        for compare in txn.compares {
            match self.holds(compare, current, &pinned, &mut bytes)? {
                _ if bytes > MAX_COMPARED_BYTES => return Ok(Ok(Err(Error::TooManyOps))),
                Ok(true) => {}
                Ok(false) => {
                    succeeded = false;
                    break;
                }
                Err(damaged) => return Ok(Err(damaged)),
            }
        }
        let ranges = if succeeded { &txn.success } else { &txn.failure };
        if let Err(error) = self.check_ranges(ranges, current, compacted, &pinned)? {
            return Ok(Ok(Err(error)));
        }
        let replies = ranges.iter().map(|range| {
            let revision = if range.revision > 0 { range.revision } else { current };
            Ok(OpReply::Range(self.select(range, pinned.state()?, revision, current)?))
        });
        let replies = replies.collect::<Result<_, StateReplaced>>()?;
        Ok(Ok(Ok(TxnReply { revision: current, succeeded, replies, is_too_large: false })))
    }

    /// Whether the ranges may be carried out: their revisions are readable, and they do not cost too much.
    fn check_ranges(
        &self,
        ranges: &[&pb::RangeRequest],
        current: i64,
        compacted: i64,
        pinned: &PinnedRevision,
    ) -> Result<Result<(), Error>, StateReplaced> {
        let state = pinned.state()?;
        let mut cost = TxnCost::of_operations();
        let mut check = |range: &pb::RangeRequest| {
            check_revision_in_txn(range.revision, current, compacted)?;
            cost.add_range(&state.index, range)
        };
        Ok(ranges.iter().try_for_each(|range| check(range)))
    }

    /// Whether a compare holds, at revision `at`, for all keys it names. `pinned` keeps that revision. Adds the bytes
    /// of the values that it reads to `bytes`, and stops, with any outcome, when these are too many.
    fn holds(
        &self,
        compare: &pb::Compare,
        at: i64,
        pinned: &PinnedRevision,
        bytes: &mut u64,
    ) -> Attempt<bool> {
        let at = Revision { main: at, sub: u32::MAX };
        let prepared = PreparedCompare::new(compare);
        if compare.range_end.is_empty() {
            let state = pinned.state()?;
            let version = state.index.record(&compare.key).and_then(|record| record.live_until(at));
            drop(state);
            let Some(version) = version else { return Ok(Ok(prepared.holds_for_none())) };
            let named = |damaged: Damaged| damaged.among(std::iter::once((&*compare.key, version.value)));
            return Ok(self.holds_for(&prepared, &version, bytes).map_err(named));
        }
        let mut any = false;
        let mut start = Some(IndexKey::new(&compare.key));
        while let Some(from) = start {
            let mut versions = Vec::new();
            let mut range = bounds(&compare.key, &compare.range_end);
            range.start = from.as_slice();
            let state = pinned.state()?;
            start = walk_chunk(&state.index, &range, self.shared.limits.chunk_keys, |_, record, _| {
                versions.extend(record.live_until(at));
                ControlFlow::Continue(())
            });
            drop(state);
            any |= !versions.is_empty();
            for version in &versions {
                match self.holds_for(&prepared, version, bytes) {
                    Ok(true) if *bytes <= MAX_COMPARED_BYTES => {}
                    other => return Ok(other),
                }
            }
        }
        Ok(Ok(any || prepared.holds_for_none()))
    }

    fn holds_for(
        &self,
        compare: &PreparedCompare<'_>,
        version: &Version,
        bytes: &mut u64,
    ) -> Result<bool, Damaged> {
        compare.holds_for(version, |value| {
            *bytes += u64::from(value.len);
            read(&*self.shared.values, value)
        })
    }
}
