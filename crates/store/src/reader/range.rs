//! Ranges answered with references, and counts.

use api::Error;
use api::etcdserverpb as pb;
use parking_lot::RwLockReadGuard;

use super::handle::Reader;
use crate::range::{RangeCount, RangePlan, RangeReply, RangeSelection, bounds, check_revision, select_key};
use crate::state::{StoreCounters, StoreState};
use crate::types::Revision;

impl Reader {
    /// Selects keys, with every option of the request.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn range(&self, request: &pb::RangeRequest) -> Result<RangeReply, Error> {
        let state = self.shared.state.read();
        let current = state.revision;
        let revision = check_revision(request.revision, current, state.compacted)?;
        Ok(self.select(request, state, revision, current))
    }

    /// The number of keys in a range, regardless of its limit. Does not count as a served range.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn count(&self, request: &pb::RangeRequest) -> Result<i64, Error> {
        let state = self.shared.state.read();
        let revision = check_revision(request.revision, state.revision, state.compacted)?;
        let bounds = bounds(&request.key, &request.range_end);
        let mut count = RangeCount::new(&state.index, &bounds, revision);
        let mut total = count.advance(&state.index, self.shared.limits.count_steps);
        let _pin = total.is_none().then(|| self.shared.pin(revision));
        drop(state);
        while total.is_none() {
            total = count.advance(&self.shared.state.read().index, self.shared.limits.count_steps);
        }
        Ok(total.unwrap_or(0) as i64)
    }

    /// Carries out a range at `revision`, which must be readable; `header` is the revision of the reply.
    pub(super) fn select(
        &self,
        request: &pb::RangeRequest,
        state: RwLockReadGuard<'_, StoreState>,
        revision: i64,
        header: i64,
    ) -> RangeReply {
        StoreCounters::add(&self.shared.counters.ranges, 1);
        let plan = RangePlan::of(request);
        let limits = &self.shared.limits;
        let at = Revision { main: revision, sub: u32::MAX };
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = select_key(&state.index, &request.key, at, &plan, &mut kvs);
            return plan.finish(kvs, header, count);
        }
        let bounds = bounds(&request.key, &request.range_end);
        let mut count = RangeCount::new(&state.index, &bounds, revision);
        let mut total = count.advance(&state.index, limits.count_steps);
        let mut selection = RangeSelection::new(&bounds, at, plan, Vec::new());
        let mut complete = plan.count_only || selection.advance(&state.index, limits.chunk_keys);
        let _pin = (total.is_none() || !complete).then(|| self.shared.pin(revision));
        drop(state);
        while !complete {
            complete = selection.advance(&self.shared.state.read().index, limits.chunk_keys);
        }
        while total.is_none() {
            total = count.advance(&self.shared.state.read().index, limits.count_steps);
        }
        plan.finish(selection.found, header, total.unwrap_or(0))
    }
}
