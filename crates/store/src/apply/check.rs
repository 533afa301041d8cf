//! The second pass of a transaction: checks the operations of the branches that are taken, and what they cost, and lays
//! them out as steps for the third.
//!
//! A request may have very many operations, so the pass can be interrupted between any two. Nothing is changed until
//! all are checked.

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use super::batch::BatchApply;
use super::compare::CompareWork;
use super::cost::{TxnCost, live_keys};
use super::txn::TxnStep;
use crate::range::check_revision_in_txn;

/// The second pass in progress.
pub(super) struct CheckWork {
    /// The operations that are left, of the transactions that contain the present one, the outermost first.
    open: Vec<std::vec::IntoIter<pb::RequestOp>>,
    /// Which branches are taken by the transactions that are still to come.
    taken: std::vec::IntoIter<bool>,
    steps: Vec<TxnStep>,
    cost: TxnCost,
    /// Visits that do not count against the slice, as far as they are left.
    free_visits: usize,
}

impl CheckWork {
    /// Begins after the first pass.
    pub(super) fn new(compared: CompareWork) -> CheckWork {
        let (request, taken, free_visits) = compared.into_taken();
        let (taken, cost) = (taken.into_iter(), TxnCost::of_operations());
        let mut work = CheckWork { open: Vec::new(), taken, steps: Vec::new(), cost, free_visits };
        work.open(request);
        work
    }

    /// The steps of the third pass.
    pub(super) fn into_steps(self) -> Vec<TxnStep> {
        self.steps
    }

    fn open(&mut self, request: pb::TxnRequest) {
        let succeeded = self.taken.next().expect("the first pass chose a branch of each transaction");
        self.steps.push(TxnStep::Begin(succeeded));
        let ops = if succeeded { request.success } else { request.failure };
        self.open.push(ops.into_iter());
    }
}

impl BatchApply<'_> {
    /// Checks operations until all are checked or the slice is full. Returns whether all are.
    ///
    /// # Errors
    /// Why the transaction is refused.
    pub(super) fn go_on_checking(&mut self, work: &mut CheckWork) -> Result<bool, Error> {
        while let Some(ops) = work.open.last_mut() {
            if self.left_visits(work.free_visits) == 0 {
                return Ok(false);
            }
            let Some(op) = ops.next() else {
                work.open.pop();
                work.steps.push(TxnStep::End);
                continue;
            };
            self.spend_visits(&mut work.free_visits, 1);
            self.check_op(op.request, work)?;
        }
        Ok(true)
    }

    fn check_op(&self, request: Option<Request>, work: &mut CheckWork) -> Result<(), Error> {
        let (cost, index) = (&mut work.cost, &self.state.index);
        work.steps.push(match request {
            Some(Request::RequestRange(request)) => {
                check_revision_in_txn(request.revision, self.state.revision, self.state.compacted)?;
                cost.add_range(index, &request)?;
                TxnStep::Range(request)
            }
            Some(Request::RequestPut(request)) => {
                self.check_put(&request)?;
                cost.add(0)?;
                TxnStep::Put(request)
            }
            Some(Request::RequestTxn(request)) => {
                cost.add(0)?;
                work.open(request);
                return Ok(());
            }
            Some(Request::RequestDeleteRange(request)) => {
                cost.add(live_keys(index, &request.key, &request.range_end))?;
                TxnStep::Delete(request)
            }
            None => {
                cost.add(0)?;
                TxnStep::Nothing
            }
        });
        Ok(())
    }
}
