//! Transactions, in three passes as in etcd. A transaction that passed the second cannot fail in the third.
//!
//! ```text
//! txn { if version(a) > 0 then [ put b, txn { if version(b) > 0 then [put c] else [delete d] }, get b ] else [...] }
//!       with a present and b absent, at revision 8
//!
//! 1. choose    compares of this and all nested transactions, before anything is written: then / else
//! 2. check     the operations of the chosen branches: leases exist, revisions are readable
//! 3. execute   put b -> 9.0   delete d -> 9.1   get b sees 9.0; the reply's revision is 9
//! ```
//!
//! The nested compare sees the state before the transaction, so `b` is absent for it although `put b` precedes it.

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use super::batch::{BatchApply, RevisionCursor};
use crate::command::{OpReply, TxnReply};
use crate::range::{
    RangeCount, RangePlan, RangeReply, RangeSelection, bounds, check_revision_in_txn, select_key,
};
use crate::types::Revision;

/// The branch that a transaction takes, and those of the transactions nested in it, in order.
struct ChosenBranch {
    succeeded: bool,
    nested: Vec<ChosenBranch>,
}

impl ChosenBranch {
    fn ops<'r>(&self, request: &'r pb::TxnRequest) -> &'r [pb::RequestOp] {
        if self.succeeded { &request.success } else { &request.failure }
    }
}

/// The transactions among `ops`.
fn nested(ops: &[pb::RequestOp]) -> impl Iterator<Item = &pb::TxnRequest> {
    ops.iter().filter_map(|op| match &op.request {
        Some(Request::RequestTxn(request)) => Some(request),
        _ => None,
    })
}

impl BatchApply<'_> {
    /// Carries out a transaction.
    pub(super) fn txn(&mut self, request: &pb::TxnRequest) -> Result<TxnReply, Error> {
        self.counts.txns += 1;
        let branch = self.choose(request);
        self.check_ops(request, &branch)?;
        let mut changes = self.begin();
        let mut reply = self.execute(request, &branch, &mut changes);
        reply.revision = self.end(&changes);
        Ok(reply)
    }

    /// The first pass: evaluates all compares.
    fn choose(&self, request: &pb::TxnRequest) -> ChosenBranch {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        let mut branch = ChosenBranch { succeeded, nested: Vec::new() };
        branch.nested = nested(branch.ops(request)).map(|request| self.choose(request)).collect();
        branch
    }

    /// The second pass: checks the operations of the chosen branches.
    fn check_ops(&self, request: &pb::TxnRequest, branch: &ChosenBranch) -> Result<(), Error> {
        let mut branches = branch.nested.iter();
        for op in branch.ops(request) {
            match &op.request {
                Some(Request::RequestRange(request)) => {
                    check_revision_in_txn(request.revision, self.state.revision, self.state.compacted)?;
                }
                Some(Request::RequestPut(request)) => self.check_put(request)?,
                Some(Request::RequestTxn(request)) => self.check_ops(request, next(&mut branches))?,
                Some(Request::RequestDeleteRange(_)) | None => {}
            }
        }
        Ok(())
    }

    /// The third pass: carries out the operations.
    fn execute(
        &mut self,
        request: &pb::TxnRequest,
        branch: &ChosenBranch,
        changes: &mut RevisionCursor,
    ) -> TxnReply {
        let mut branches = branch.nested.iter();
        let replies = branch.ops(request).iter().map(|op| match &op.request {
            Some(Request::RequestRange(request)) => OpReply::Range(self.range(request, changes)),
            Some(Request::RequestPut(request)) => OpReply::Put(self.execute_put(request, changes)),
            Some(Request::RequestDeleteRange(request)) => {
                OpReply::DeleteRange(self.execute_delete(request, changes))
            }
            Some(Request::RequestTxn(request)) => {
                OpReply::Txn(self.execute(request, next(&mut branches), changes))
            }
            None => OpReply::Nothing,
        });
        let replies = replies.collect();
        TxnReply { revision: 0, succeeded: branch.succeeded, replies }
    }

    /// A range, which sees what the transaction has written so far. Skipped if no caller of this process waits for it.
    fn range(&mut self, request: &pb::RangeRequest, changes: &RevisionCursor) -> RangeReply {
        let visible = changes.visible();
        if !self.has_caller {
            return RangeReply { revision: visible, ..RangeReply::default() };
        }
        self.counts.ranges += 1;
        let plan = RangePlan::of(request);
        let main = if request.revision > 0 { request.revision } else { visible };
        let at = Revision { main, sub: u32::MAX };
        let index = &self.state.index;
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = select_key(index, &request.key, at, &plan, &mut kvs);
            return plan.finish(kvs, visible, count);
        }
        let bounds = bounds(&request.key, &request.range_end);
        let count = RangeCount::new(index, &bounds, main, visible).advance(index, usize::MAX);
        let count = count.expect("a count without a limit is complete at once");
        let mut selection = RangeSelection::new(&bounds, at, plan, Vec::new());
        if !plan.count_only {
            let complete = selection.advance(index, usize::MAX);
            debug_assert!(complete);
        }
        plan.finish(selection.found, visible, count)
    }
}

fn next<'b>(branches: &mut std::slice::Iter<'b, ChosenBranch>) -> &'b ChosenBranch {
    branches.next().expect("each nested transaction of the branch was chosen")
}
