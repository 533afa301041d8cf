//! Ranges answered with references, and counts.

use api::Error;
use api::etcdserverpb as pb;
use parking_lot::RwLockReadGuard;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
use crate::range::{
    RangeCount, RangePlan, RangeReply, RangeSelection, RangeSink, bounds, check_revision, select_key,
};
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
        let selected = self.select_within(request, state, (revision, header), usize::MAX)?;
        Ok(selected.expect("no range examines as many keys as this"))
    }

    /// As [`Reader::select`]; `None` when about `max_steps` keys and changes were examined and more are left.
    pub(super) fn select_within(
        &self,
        request: &pb::RangeRequest,
        state: RwLockReadGuard<'_, StoreState>,
        (revision, header): (i64, i64),
        max_steps: usize,
    ) -> Result<Option<RangeReply>, StateReplaced> {
        let plan = RangePlan::of(request);
        let limits = &self.shared.limits;
        let at = Revision { main: revision, sub: u32::MAX };
        let served = |reply| {
            StoreCounters::add(&self.shared.counters.ranges, 1);
            Ok(Some(reply))
        };
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = select_key(&state.index, &request.key, at, &plan, &mut kvs);
            return served(plan.finish(kvs, header, count));
        }
        let bounds = bounds(&request.key, &request.range_end);
        let mut count = RangeCount::with_known(&state.index, &bounds, revision, &self.shared.known_counts);
        let total = count.advance(&state.index, limits.count_steps.min(max_steps));
        let is_long = |total: u64| !plan.count_only && plan.visits().min(total) >= max_steps as u64;
        if max_steps < usize::MAX && total.is_none_or(is_long) {
            return Ok(None);
        }
        let mut selection = RangeSelection::new(&bounds, at, plan, Vec::new());
        let mut complete = plan.count_only || selection.advance(&state.index, limits.chunk_keys);
        if complete && let Some(total) = total {
            return served(self.finish_page(selection, plan, (revision, header), total));
        }
        let pinned = PinnedRevision::new(&self.shared, &state, revision);
        drop(state);
        let mut examined = limits.chunk_keys;
        while !complete {
            if examined >= max_steps {
                return Ok(None);
            }
            complete = selection.advance(&pinned.state()?.index, limits.chunk_keys);
            examined += limits.chunk_keys;
        }
        let total = total.map_or_else(|| pinned.count(count, &bounds), Ok)?;
        served(self.finish_page(selection, plan, (revision, header), total))
    }

    /// Completes the reply to a range at `revision`; `header` is the revision of the reply.
    fn finish_page(
        &self,
        mut selection: RangeSelection,
        plan: RangePlan,
        (revision, header): (i64, i64),
        total: u64,
    ) -> RangeReply {
        let reply = plan.finish(selection.take(), header, total);
        if let Some(last) = reply.kvs.last().filter(|_| reply.more && plan.is_in_key_order()) {
            self.note_rest(&selection, revision, &last.key, total - reply.kvs.len() as u64);
        }
        reply
    }

    /// Notes for the next page of a list that `keys` keys are left behind the key `last`.
    pub(super) fn note_rest<F: RangeSink>(
        &self,
        selection: &RangeSelection<F>,
        revision: i64,
        last: &[u8],
        keys: u64,
    ) {
        if selection.finds_all() {
            self.shared.known_counts.note(revision, selection.rest_behind(last), keys);
        }
    }
}
