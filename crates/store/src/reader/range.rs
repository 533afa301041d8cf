//! Ranges answered with references, and counts.

use api::Error;
use api::etcdserverpb as pb;
use parking_lot::RwLockReadGuard;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
use crate::range::{RangeCount, RangePlan, RangeReply, RangeSelection, bounds, check_revision, select_key};
use crate::state::{StateReplaced, StoreCounters, StoreState};
use crate::types::Revision;

impl Reader {
    /// Selects keys, with every option of the request.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn range(&self, request: &pb::RangeRequest) -> Result<RangeReply, Error> {
        from_the_beginning(|| {
            let state = self.shared.state.read();
            let current = state.revision;
            match check_revision(request.revision, current, state.compacted) {
                Ok(revision) => self.select(request, state, revision, current).map(Ok),
                Err(error) => Ok(Err(error)),
            }
        })
    }

    /// The number of keys in a range, regardless of its limit. Does not count as a served range.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn count(&self, request: &pb::RangeRequest) -> Result<i64, Error> {
        let bounds = bounds(&request.key, &request.range_end);
        from_the_beginning(|| {
            let state = self.shared.state.read();
            let revision = match check_revision(request.revision, state.revision, state.compacted) {
                Ok(revision) => revision,
                Err(error) => return Ok(Err(error)),
            };
            let mut count = RangeCount::new(&state.index, &bounds, revision);
            if let Some(total) = count.advance(&state.index, self.shared.limits.count_steps) {
                return Ok(Ok(total as i64));
            }
            let pinned = PinnedRevision::new(&self.shared, &state, revision);
            drop(state);
            pinned.count(count, &bounds).map(|total| Ok(total as i64))
        })
    }

    /// Carries out a range at `revision`, which must be readable; `header` is the revision of the reply.
    ///
    /// # Errors
    /// [`StateReplaced`] when a snapshot took the revision away meanwhile.
    pub(super) fn select(
        &self,
        request: &pb::RangeRequest,
        state: RwLockReadGuard<'_, StoreState>,
        revision: i64,
        header: i64,
    ) -> Result<RangeReply, StateReplaced> {
        StoreCounters::add(&self.shared.counters.ranges, 1);
        let plan = RangePlan::of(request);
        let limits = &self.shared.limits;
        let at = Revision { main: revision, sub: u32::MAX };
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = select_key(&state.index, &request.key, at, &plan, &mut kvs);
            return Ok(plan.finish(kvs, header, count));
        }
        let bounds = bounds(&request.key, &request.range_end);
        let mut count = RangeCount::new(&state.index, &bounds, revision);
        let total = count.advance(&state.index, limits.count_steps);
        let mut selection = RangeSelection::new(&bounds, at, plan, Vec::new());
        let mut complete = plan.count_only || selection.advance(&state.index, limits.chunk_keys);
        if complete && let Some(total) = total {
            return Ok(plan.finish(selection.found, header, total));
        }
        let pinned = PinnedRevision::new(&self.shared, &state, revision);
        drop(state);
        while !complete {
            complete = selection.advance(&pinned.state()?.index, limits.chunk_keys);
        }
        let total = total.map_or_else(|| pinned.count(count, &bounds), Ok)?;
        Ok(plan.finish(selection.found, header, total))
    }
}
