//! Transactions, in three passes as in etcd. A transaction that passed the second cannot fail in the third.
//!
//! ```text
//! txn { if version(a) > 0 then [ put b, txn { if version(b) > 0 then [put c] else [delete d] }, get b ] else [...] }
//!       with a present and b absent, at revision 8
//!
//! 1. compare   compares of this and all nested transactions, before anything is written: then / else
//! 2. check     the operations of the chosen branches: leases exist, revisions are readable, the cost is allowed
//! 3. execute   put b -> 9.0   delete d -> 9.1   get b sees 9.0; the reply's revision is 9
//! ```
//!
//! The nested compare sees the state before the transaction, so `b` is absent for it although `put b` precedes it.
//!
//! Each pass can be interrupted anywhere. The first is in [`compare`](super::compare), the second in
//! [`check`](super::check). The third is here; the second has laid the operations out as a list of *steps*, in the
//! order of their execution.
//!
//! ```text
//! begin(then) | put b | begin(else) | delete d | end | get b | end
//! ```

use api::etcdserverpb as pb;

use super::batch::{BatchApply, RevisionCursor};
use super::cost::MAX_TXN_KEYS;
use super::kv::DeleteWork;
use crate::command::{OpReply, TxnReply};
use crate::range::{RangeCount, RangePlan, RangeReply, RangeSelection, bounds, select_key};
use crate::types::Revision;

/// Keys that the ranges of a transaction may examine on the member that answers it. Only reads of the past and keys
/// that are deleted and not purged yet can make it more than [`MAX_TXN_KEYS`].
const MAX_EXAMINED_KEYS: u64 = 16 * MAX_TXN_KEYS;

/// A step of the third pass.
pub(super) enum TxnStep {
    /// A transaction begins, with this branch.
    Begin(bool),
    /// The transaction that began last ends.
    End,
    Range(pb::RangeRequest),
    Put(pb::PutRequest),
    Delete(pb::DeleteRangeRequest),
    Nothing,
}

/// A transaction in progress.
pub(super) struct TxnWork {
    steps: std::vec::IntoIter<TxnStep>,
    /// The operation in progress.
    op: Option<OpWork>,
    /// The transactions that have begun and not ended, the outermost first.
    open: Vec<TxnReply>,
    changes: RevisionCursor,
    reads: KeysRead,
}

/// Keys that the ranges of a transaction found, and examined.
#[derive(Default)]
struct KeysRead {
    found: u64,
    examined: u64,
}

enum OpWork {
    Delete(DeleteWork),
    Range(Box<RangeWork>),
}

/// A range in progress.
struct RangeWork {
    plan: RangePlan,
    visible: i64,
    count: RangeCount,
    total: Option<u64>,
    selection: RangeSelection,
    is_complete: bool,
}

impl BatchApply<'_> {
    /// Begins the third pass.
    pub(super) fn begin_steps(&self, steps: Vec<TxnStep>) -> TxnWork {
        let (steps, changes) = (steps.into_iter(), self.begin());
        TxnWork { steps, op: None, open: Vec::new(), changes, reads: KeysRead::default() }
    }

    /// The third pass: carries out steps until the slice is full. Returns the reply once all are done.
    pub(super) fn go_on_with_txn(&mut self, work: &mut TxnWork) -> Option<TxnReply> {
        loop {
            let done = match work.op.take() {
                Some(op) => self.go_on_with_op(op, work)?,
                None if self.left == 0 && work.steps.len() > 0 => return None,
                None => match work.steps.next() {
                    Some(step) => match self.begin_step(step, work) {
                        Some(done) => done,
                        None => continue,
                    },
                    None => unreachable!("the outermost transaction ends with the last step"),
                },
            };
            match work.open.last_mut() {
                Some(open) => open.replies.push(done),
                None => {
                    let OpReply::Txn(reply) = done else { unreachable!("only a transaction is outermost") };
                    let revision = self.end(&work.changes);
                    let is_too_large = work.reads.is_too_large();
                    return Some(TxnReply { revision, is_too_large, ..reply });
                }
            }
        }
    }

    /// Begins a step. Returns the reply if it is done, else there is an operation in progress or a deeper transaction.
    fn begin_step(&mut self, step: TxnStep, work: &mut TxnWork) -> Option<OpReply> {
        match step {
            TxnStep::Begin(succeeded) => {
                work.open.push(TxnReply { succeeded, ..TxnReply::default() });
                return None;
            }
            TxnStep::End => return work.open.pop().map(OpReply::Txn),
            _ => self.spend(1),
        }
        match step {
            TxnStep::Put(request) => Some(OpReply::Put(self.execute_put(&request, &mut work.changes))),
            TxnStep::Delete(request) => {
                self.results.counts.deletes += 1;
                work.op = Some(OpWork::Delete(DeleteWork::new(request)));
                None
            }
            TxnStep::Range(request) => self.begin_range(&request, work),
            _ => Some(OpReply::Nothing),
        }
    }

    /// Goes on with an operation. Returns its reply once it is done.
    fn go_on_with_op(&mut self, mut op: OpWork, work: &mut TxnWork) -> Option<OpReply> {
        let done = match &mut op {
            OpWork::Delete(delete) => {
                self.go_on_deleting(delete, &mut work.changes).map(OpReply::DeleteRange)
            }
            OpWork::Range(range) => self.go_on_selecting(range, work).map(OpReply::Range),
        };
        if done.is_none() {
            work.op = Some(op);
        }
        done
    }

    /// Begins a range, which sees what the transaction has written so far. Skipped if no caller of this process waits
    /// for it, and once the answer is too large.
    fn begin_range(&mut self, request: &pb::RangeRequest, work: &mut TxnWork) -> Option<OpReply> {
        let visible = work.changes.visible();
        if !self.has_caller || work.reads.is_too_large() {
            return Some(OpReply::Range(RangeReply { revision: visible, ..RangeReply::default() }));
        }
        self.results.counts.ranges += 1;
        let plan = RangePlan::of(request);
        let main = if request.revision > 0 { request.revision } else { visible };
        let at = Revision { main, sub: u32::MAX };
        let index = &self.state.index;
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = select_key(index, &request.key, at, &plan, &mut kvs);
            return Some(OpReply::Range(plan.finish(kvs, visible, count)));
        }
        let bounds = bounds(&request.key, &request.range_end);
        work.op = Some(OpWork::Range(Box::new(RangeWork {
            plan,
            visible,
            count: RangeCount::new(index, &bounds, main),
            total: None,
            selection: RangeSelection::new(&bounds, at, plan, Vec::new()),
            is_complete: plan.count_only,
        })));
        None
    }

    /// Counts and selects keys of a range until the slice is full. Returns the reply once the range is complete, or the
    /// answer of the transaction is too large. The member that answers sorts the keys, without the lock.
    fn go_on_selecting(&mut self, range: &mut RangeWork, work: &mut TxnWork) -> Option<RangeReply> {
        let index = &self.state.index;
        while range.total.is_none() || !range.is_complete {
            if self.left == 0 {
                return None;
            }
            let found = range.selection.found.len();
            let examined = if range.total.is_none() {
                range.total = range.count.advance(index, self.left);
                if range.total.is_some() { 0 } else { self.left }
            } else {
                range.is_complete = range.selection.advance(index, self.left);
                if range.is_complete { range.selection.found.len() - found } else { self.left }
            };
            if range.plan.hides_leases() {
                range.selection.found[found..].iter_mut().for_each(|kv| kv.lease = 0);
            }
            self.left -= examined.min(self.left);
            work.reads.examined += examined as u64;
            work.reads.found += (range.selection.found.len() - found) as u64;
            if work.reads.is_too_large() {
                return Some(RangeReply { revision: range.visible, ..RangeReply::default() });
            }
        }
        let found = std::mem::take(&mut range.selection.found);
        Some(range.plan.finish_unsorted(found, range.visible, range.total.unwrap_or(0)))
    }
}

impl KeysRead {
    /// Whether the ranges found or examined more than a transaction may.
    fn is_too_large(&self) -> bool {
        self.found > MAX_TXN_KEYS || self.examined > MAX_EXAMINED_KEYS
    }
}

#[cfg(test)]
mod tests {
    //! How much the ranges of a transaction may read.
    use super::*;
    use crate::apply::ANONYMOUS;
    use crate::apply::batch::BatchResults;
    use crate::apply::fetch::FetchedValues;
    use crate::command::BatchContext;
    use crate::testing::{TestStore, put, range_request};

    #[test]
    fn ranges_find_a_million_keys_and_examine_sixteen() {
        let too_large = |found, examined| KeysRead { found, examined }.is_too_large();
        assert!(!too_large(1_000_000, 16_000_000));
        assert!(too_large(1_000_001, 1_000_001) && too_large(0, 16_000_001));
    }

    /// Sixteen million keys would take a test seconds, so it looks at the sums of a few.
    #[test]
    fn what_ranges_find_and_examine_adds_up_over_ranges_and_slices() {
        let mut bench = TestStore::new();
        bench.apply((0..100).map(|n| put(&format!("k{n:02}"), "v")).collect());
        let revision = bench.reader.current_revision();
        let mut state = bench.reader.shared.state.write();
        let mut apply = BatchApply {
            state: &mut state,
            values: &*bench.values,
            ctx: &BatchContext::at(1, 1),
            fetched: &mut FetchedValues::default(),
            results: &mut BatchResults::default(),
            caller: &ANONYMOUS,
            has_caller: true,
            left: 7,
        };
        let past = pb::RangeRequest { revision: revision - 20, ..range_request("k", "l") };
        let none = pb::RangeRequest { min_mod_revision: revision + 1, ..past.clone() };
        let ranges = [past, none].map(TxnStep::Range);
        let mut work = apply
            .begin_steps([TxnStep::Begin(true)].into_iter().chain(ranges).chain([TxnStep::End]).collect());
        while apply.go_on_with_txn(&mut work).is_none() {
            apply.left = 7;
        }
        assert_eq!(work.reads.found, 80, "in the first");
        let examined = work.reads.examined;
        assert!((200..=240).contains(&examined), "100 keys a range and 20 changes since, not {examined}");
    }
}
