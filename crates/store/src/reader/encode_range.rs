//! Ranges answered with the encoded `RangeResponse`.
//!
//! The length of a response precedes its first byte, so the keys are walked first and their values are read after. A
//! very long range in key order is walked twice, chunk by chunk, first to measure it and then to encode it, so that
//! its memory does not grow with the number of keys. A range in another order must be collected first:
//!
//! ```text
//! up to `found_keys`, in key order   walk -> FoundVersions -> encode
//! more, in key order                 walk -> FoundLengths (measure) ; walk again, chunk by chunk -> encode each chunk
//! sorted                             walk -> RangeReply -> sort -> encode
//! ```

use api::Error;
use api::etcdserverpb as pb;
use parking_lot::RwLockReadGuard;

use super::handle::Reader;
use crate::index::KeyBounds;
use crate::range::encode::{EncodedFields, FoundLengths, FoundVersions, RangeEncoder, ReplyKeyValues};
use crate::range::{
    ChunkSink, RangeCount, RangePlan, RangeReply, RangeSelection, RangeSink, bounds, check_revision,
    select_key,
};
use crate::resolve;
use crate::state::{StoreCounters, StoreState};
use crate::types::Revision;
use crate::values::{Access, Damaged};

/// Most keys of a range whose values the value cache keeps: as many as it holds, of the usual sizes. A longer range
/// would evict its own beginning.
pub(super) const MAX_CACHED_KEYS: usize = 20_000;

/// How the values of this many keys are read.
fn access(keys: usize) -> Access {
    if keys <= MAX_CACHED_KEYS { Access::Query } else { Access::Scan }
}

impl Reader {
    /// Answers a range with the encoded `RangeResponse`, as chunks that follow each other. `header` completes the
    /// header, given its revision. The caller holds a pin of the log.
    ///
    /// # Errors
    /// Outer: [`Damaged`] when a value cannot be read, possibly after some chunks. Repair it and call again: with the
    /// same revision and header, the concatenated chunks are the same bytes. Inner: [`Error::FutureRevision`] and
    /// [`Error::Compacted`], before the first chunk.
    pub fn encode_range(
        &self,
        request: &pb::RangeRequest,
        header: impl FnOnce(i64) -> pb::ResponseHeader,
        into: &mut dyn ChunkSink,
    ) -> Result<Result<(), Error>, Damaged> {
        let state = self.shared.state.read();
        let current = state.revision;
        let revision = match check_revision(request.revision, current, state.compacted) {
            Ok(revision) => revision,
            Err(error) => return Ok(Err(error)),
        };
        let front = EncodedFields::header(&header(current));
        let plan = RangePlan::of(request);
        if !plan.is_in_key_order() {
            let reply = self.select(request, state, revision, current);
            return self.encode_sorted(reply, front, into).map(Ok);
        }
        StoreCounters::add(&self.shared.counters.ranges, 1);
        let at = Revision { main: revision, sub: u32::MAX };
        if request.range_end.is_empty() {
            let mut found = FoundVersions::new(plan.keys_only);
            let count = select_key(&state.index, &request.key, at, &plan, &mut found);
            drop(state);
            let how = (&*self.shared.values, Access::Query);
            return RangeEncoder::whole(front, &found, EncodedFields::end(false, count as i64), how, into)
                .map(Ok);
        }
        self.encode_in_key_order(&bounds(&request.key, &request.range_end), plan, state, at, (front, into))
            .map(Ok)
    }

    /// Walks a range in key order and encodes what it finds.
    fn encode_in_key_order(
        &self,
        bounds: &KeyBounds<'_>,
        plan: RangePlan,
        state: RwLockReadGuard<'_, StoreState>,
        at: Revision,
        (front, into): (EncodedFields, &mut dyn ChunkSink),
    ) -> Result<(), Damaged> {
        let limits = &self.shared.limits;
        let mut count = RangeCount::new(&state.index, bounds, at.main);
        let mut total = count.advance(&state.index, limits.count_steps);
        let mut selection = RangeSelection::new(bounds, at, plan, FoundVersions::new(plan.keys_only));
        let mut complete = plan.count_only || selection.advance(&state.index, limits.chunk_keys);
        let _pin = (total.is_none() || !complete).then(|| self.shared.pin(at.main));
        drop(state);
        while total.is_none() {
            total = count.advance(&self.shared.state.read().index, limits.count_steps);
        }
        let total = total.unwrap_or(0);
        while !complete && selection.found.len() < limits.found_keys {
            complete = selection.advance(&self.shared.state.read().index, limits.chunk_keys);
        }
        let wanted = plan.limit();
        let how = (&*self.shared.values, access(wanted.min(total as usize)));
        if !complete {
            let lengths = self.measure(bounds, plan, at);
            let end = EncodedFields::end(lengths.len() > wanted, total as i64);
            let encoder = RangeEncoder::begin(front, lengths.of_first(wanted), &end, how, into);
            return self.encode_rest(selection, wanted, end, encoder);
        }
        let more = selection.found.len() > wanted;
        selection.found.truncate(wanted);
        RangeEncoder::whole(front, &selection.found, EncodedFields::end(more, total as i64), how, into)
    }

    /// Encodes what was found so far, then continues the walk and encodes each chunk of it.
    fn encode_rest(
        &self,
        mut selection: RangeSelection<FoundVersions>,
        mut left: usize,
        end: EncodedFields,
        mut encoder: RangeEncoder<'_>,
    ) -> Result<(), Damaged> {
        let mut complete = false;
        loop {
            selection.found.truncate(left);
            left -= selection.found.len();
            encoder.add(&selection.found, complete.then_some(end))?;
            if complete {
                return Ok(());
            }
            selection.clear();
            complete = selection.advance(&self.shared.state.read().index, self.shared.limits.chunk_keys);
        }
    }

    /// Walks a range for the lengths of its key-values.
    fn measure(&self, bounds: &KeyBounds<'_>, plan: RangePlan, at: Revision) -> FoundLengths {
        let mut selection = RangeSelection::new(bounds, at, plan, FoundLengths::new(plan.keys_only));
        while !selection.advance(&self.shared.state.read().index, self.shared.limits.chunk_keys) {}
        selection.found
    }

    /// Encodes a reply whose keys were collected and sorted.
    fn encode_sorted(
        &self,
        mut reply: RangeReply,
        front: EncodedFields,
        into: &mut dyn ChunkSink,
    ) -> Result<(), Damaged> {
        let values = &*self.shared.values;
        resolve::sort_by_value(&mut reply, values)?;
        let items = ReplyKeyValues { kvs: &reply.kvs, keys_only: reply.keys_only };
        let end = EncodedFields::end(reply.more, reply.count);
        RangeEncoder::whole(front, &items, end, (values, access(reply.kvs.len())), into)
    }
}
