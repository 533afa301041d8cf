//! Transactions, in three passes as etcd has them: compare (all nested transactions too, before anything is
//! written), check, execute. What passed the check cannot fail.

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use super::{Batch, Changes};
use crate::command::{OpReply, TxnReply};
use crate::range::count::Count;
use crate::range::{RangeReply, Selection, Shape, bounds, check_revision_in_txn, lone};
use crate::types::Revision;

/// Which branch a transaction takes, and each nested one in that branch, in order.
struct Branch {
    succeeded: bool,
    nested: Vec<Branch>,
}

impl Branch {
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

impl Batch<'_> {
    pub(super) fn txn(&mut self, request: &pb::TxnRequest) -> Result<TxnReply, Error> {
        self.counts.txns += 1;
        let branch = self.choose(request);
        self.check_ops(request, &branch)?;
        let mut changes = self.begin();
        let mut reply = self.execute(request, &branch, &mut changes);
        reply.revision = self.end(&changes);
        Ok(reply)
    }

    fn choose(&self, request: &pb::TxnRequest) -> Branch {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        let mut branch = Branch { succeeded, nested: Vec::new() };
        branch.nested = nested(branch.ops(request)).map(|request| self.choose(request)).collect();
        branch
    }

    fn check_ops(&self, request: &pb::TxnRequest, branch: &Branch) -> Result<(), Error> {
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

    fn execute(&mut self, request: &pb::TxnRequest, branch: &Branch, changes: &mut Changes) -> TxnReply {
        let mut branches = branch.nested.iter();
        let replies = branch.ops(request).iter().map(|op| match &op.request {
            Some(Request::RequestRange(request)) => OpReply::Range(self.range(request, changes)),
            Some(Request::RequestPut(request)) => OpReply::Put(self.write(request, changes)),
            Some(Request::RequestDeleteRange(request)) => OpReply::DeleteRange(self.erase(request, changes)),
            Some(Request::RequestTxn(request)) => {
                OpReply::Txn(self.execute(request, next(&mut branches), changes))
            }
            None => OpReply::Nothing,
        });
        let replies = replies.collect();
        TxnReply { revision: 0, succeeded: branch.succeeded, replies }
    }

    /// A range that sees what the transaction wrote so far.
    fn range(&mut self, request: &pb::RangeRequest, changes: &Changes) -> RangeReply {
        let visible = changes.visible();
        if !self.answered {
            return RangeReply { revision: visible, ..RangeReply::default() };
        }
        self.counts.ranges += 1;
        let shape = Shape::of(request);
        let main = if request.revision > 0 { request.revision } else { visible };
        let at = Revision { main, sub: u32::MAX };
        let index = &self.state.index;
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = lone(index, &request.key, at, &shape, &mut kvs);
            return shape.finish(kvs, visible, count);
        }
        let bounds = bounds(&request.key, &request.range_end);
        let count = Count::new(index, &bounds, main, visible).advance(index, usize::MAX);
        let count = count.expect("a count without a limit is complete at once");
        let mut selection = Selection::new(&bounds, at, shape, Vec::new());
        if !shape.count_only {
            let complete = selection.advance(index, usize::MAX);
            debug_assert!(complete);
        }
        shape.finish(selection.found, visible, count)
    }
}

fn next<'b>(branches: &mut std::slice::Iter<'b, Branch>) -> &'b Branch {
    branches.next().expect("each nested transaction of the branch was compared")
}
