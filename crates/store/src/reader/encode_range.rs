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
use super::pinned::{PinnedRevision, from_the_beginning};
use crate::index::KeyBounds;
use crate::range::encode::{EncodedFields, FoundLengths, FoundVersions, RangeEncoder, ReplyKeyValues};
use crate::range::{
    ChunkSink, RangeCount, RangePlan, RangeReply, RangeSelection, RangeSink, bounds, check_revision,
    select_key,
};
use crate::resolve;
use crate::state::{StateReplaced, StoreCounters, StoreState};
use crate::types::Revision;
use crate::values::{Access, Damaged};

/// Most keys of a range whose values the value cache keeps: as many as it holds, of the usual sizes. A longer range
/// would evict its own beginning.
pub(super) const MAX_CACHED_KEYS: usize = 20_000;

/// How the values of this many keys are read.
fn access(keys: usize) -> Access {
    if keys <= MAX_CACHED_KEYS { Access::Query } else { Access::Scan }
}

/// A range whose length is known, and of which nothing is encoded yet.
struct FoundRange {
    /// The newest revision, for the header.
    current: i64,
    keys: FoundKeys,
}

enum FoundKeys {
    /// More than the caller wants to wait for.
    TooLong,
    /// Sorted by something else than the key.
    Sorted(RangeReply),
    /// All that are wanted. With the number of keys in the range.
    Whole { found: FoundVersions, more: bool, total: u64 },
    /// Too many to hold.
    Long(Box<LongRange>),
}

/// The beginning of a long range, and what is needed to walk on.
struct LongRange {
    selection: RangeSelection<FoundVersions>,
    lengths: FoundLengths,
    pinned: PinnedRevision,
    total: u64,
}

impl Reader {
    /// Answers a range with the encoded `RangeResponse`, as chunks that follow each other. `header` completes the
    /// header, given its revision. The caller holds a pin of the log.
    ///
    /// # Errors
    /// Outer: [`Damaged`] when a value cannot be read, possibly after some chunks. Repair it and call again: with the
    /// same revision and header, the concatenated chunks are the same bytes. Inner: [`Error::FutureRevision`] and
    /// [`Error::Compacted`], before the first chunk; the latter also after some, when a snapshot is installed during
    /// a long range and has been compacted beyond its revision.
    pub fn encode_range(
        &self,
        request: &pb::RangeRequest,
        header: impl FnOnce(i64) -> pb::ResponseHeader,
        into: &mut dyn ChunkSink,
    ) -> Result<Result<(), Error>, Damaged> {
        let encoded = self.encode_range_within(request, usize::MAX, header, into)?;
        Ok(encoded.map(|encoded| assert!(encoded, "nothing is longer than this")))
    }

    /// As [`Reader::encode_range`], but gives up before the first chunk when the answer has `max_steps` keys, or
    /// when about so many keys and changes were examined and more are left. Returns whether the range was encoded.
    ///
    /// # Errors
    /// As [`Reader::encode_range`].
    pub fn encode_range_within(
        &self,
        request: &pb::RangeRequest,
        max_steps: usize,
        header: impl FnOnce(i64) -> pb::ResponseHeader,
        into: &mut dyn ChunkSink,
    ) -> Result<Result<bool, Error>, Damaged> {
        let plan = RangePlan::of(request);
        let found = from_the_beginning(|| self.find(request, plan, max_steps));
        let FoundRange { current, keys } = match found {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let front = EncodedFields::header(&header(current));
        let values = &*self.shared.values;
        let wanted = plan.limit();
        match keys {
            FoundKeys::TooLong => Ok(Ok(false)),
            FoundKeys::Sorted(reply) => self.encode_sorted(reply, front, into).map(|()| Ok(true)),
            FoundKeys::Whole { found, more, total } => {
                let how = (values, access(wanted.min(total as usize)));
                let end = EncodedFields::end(more, total as i64);
                let has_made_first = RangeEncoder::whole(front, &found, end, how, into)?;
                Ok(Ok(self.counted(has_made_first)))
            }
            FoundKeys::Long(long) => {
                let how = (values, access(wanted.min(long.total as usize)));
                let end = EncodedFields::end(long.lengths.len() > wanted, long.total as i64);
                let encoder = RangeEncoder::begin(front, long.lengths.of_first(wanted), &end, how, into);
                Ok(self
                    .encode_rest(*long, wanted, end, encoder)?
                    .map(|has_made_first| self.counted(has_made_first)))
            }
        }
    }

    /// Counts the range if the first chunk of its answer was made: not a later part that is made again, nor an attempt.
    fn counted(&self, has_made_first: bool) -> bool {
        if has_made_first {
            StoreCounters::add(&self.shared.counters.ranges, 1);
        }
        true
    }

    /// Finds the keys of a range, or how long they are.
    fn find(
        &self,
        request: &pb::RangeRequest,
        plan: RangePlan,
        max_steps: usize,
    ) -> Result<Result<FoundRange, Error>, StateReplaced> {
        let state = self.shared.state.read();
        let current = state.revision;
        let revision = match check_revision(request.revision, current, state.compacted) {
            Ok(revision) => revision,
            Err(error) => return Ok(Err(error)),
        };
        let found = |keys| Ok(Ok(FoundRange { current, keys }));
        if !plan.is_in_key_order() {
            let selected = self.select_within(request, state, (revision, current), max_steps)?;
            return found(selected.map_or(FoundKeys::TooLong, FoundKeys::Sorted));
        }
        let at = Revision { main: revision, sub: u32::MAX };
        if request.range_end.is_empty() {
            let mut versions = FoundVersions::new(plan.keys_only);
            let total = select_key(&state.index, &request.key, at, &plan, &mut versions);
            return found(FoundKeys::Whole { found: versions, more: false, total });
        }
        let bounds = bounds(&request.key, &request.range_end);
        let found_keys = self.find_in_key_order(&bounds, plan, state, at, max_steps)?;
        found(found_keys)
    }

    /// Walks a range in key order; if it is long, a second time to its end, for the lengths alone.
    fn find_in_key_order(
        &self,
        bounds: &KeyBounds<'_>,
        plan: RangePlan,
        state: RwLockReadGuard<'_, StoreState>,
        at: Revision,
        max_steps: usize,
    ) -> Result<FoundKeys, StateReplaced> {
        let limits = &self.shared.limits;
        let mut count = RangeCount::with_known(&state.index, bounds, at.main, &self.shared.known_counts);
        let total = count.advance(&state.index, limits.count_steps.min(max_steps));
        let answered = |total: u64| if plan.count_only { 0 } else { plan.limit().min(total as usize) };
        if max_steps < usize::MAX && total.is_none_or(|total| answered(total) >= max_steps) {
            return Ok(FoundKeys::TooLong);
        }
        let mut selection = RangeSelection::new(bounds, at, plan, FoundVersions::new(plan.keys_only));
        let mut complete = plan.count_only || selection.advance(&state.index, limits.chunk_keys);
        if complete && let Some(total) = total {
            return Ok(self.whole(selection, plan, at.main, total));
        }
        let pinned = PinnedRevision::new(&self.shared, &state, at.main);
        drop(state);
        let total = total.map_or_else(|| pinned.count(count, bounds), Ok)?;
        let mut examined = limits.chunk_keys;
        while !complete && selection.found.len() < limits.found_keys {
            if examined >= max_steps {
                return Ok(FoundKeys::TooLong);
            }
            complete = selection.advance(&pinned.state()?.index, limits.chunk_keys);
            examined += limits.chunk_keys;
        }
        if complete {
            return Ok(self.whole(selection, plan, at.main, total));
        }
        let mut measured = RangeSelection::new(bounds, at, plan, FoundLengths::new(plan.keys_only));
        while !measured.advance(&pinned.state()?.index, limits.chunk_keys) {}
        Ok(FoundKeys::Long(Box::new(LongRange { selection, lengths: measured.found, pinned, total })))
    }

    /// The keys of a walk that came to its end.
    fn whole(
        &self,
        mut selection: RangeSelection<FoundVersions>,
        plan: RangePlan,
        revision: i64,
        total: u64,
    ) -> FoundKeys {
        let more = selection.found.len() > plan.limit();
        selection.found.truncate(plan.limit());
        if let Some(last) = selection.found.last_key().filter(|_| more) {
            self.note_rest(&selection, revision, last, total - selection.found.len() as u64);
        }
        FoundKeys::Whole { found: selection.found, more, total }
    }

    /// Encodes what was found so far, then continues the walk and encodes each chunk of it. Returns whether the first
    /// chunk was made.
    fn encode_rest(
        &self,
        long: LongRange,
        mut left: usize,
        end: EncodedFields,
        mut encoder: RangeEncoder<'_>,
    ) -> Result<Result<bool, Error>, Damaged> {
        let LongRange { mut selection, pinned, total, .. } = long;
        let mut complete = false;
        let mut after = total;
        loop {
            selection.found.truncate(left);
            left -= selection.found.len();
            after -= selection.found.len() as u64;
            if let Some(last) = selection.found.last_key().filter(|_| left == 0 && after > 0) {
                self.note_rest(&selection, pinned.revision(), last, after);
            }
            encoder.add(&selection.found, complete.then_some(end))?;
            if complete || encoder.has_stopped() {
                return Ok(Ok(encoder.has_made_first()));
            }
            selection.clear();
            let Ok(state) = pinned.state() else { return Ok(Err(Error::Compacted)) };
            complete = selection.advance(&state.index, self.shared.limits.chunk_keys);
        }
    }

    /// Encodes a reply whose keys were collected and sorted.
    fn encode_sorted(
        &self,
        mut reply: RangeReply,
        front: EncodedFields,
        into: &mut dyn ChunkSink,
    ) -> Result<(), Damaged> {
        let values = &*self.shared.values;
        resolve::sort(&mut reply, values)?;
        let items = ReplyKeyValues { kvs: &reply.kvs, keys_only: reply.keys_only };
        let end = EncodedFields::end(reply.more, reply.count);
        RangeEncoder::whole(front, &items, end, (values, access(reply.kvs.len())), into).map(|_| ())
    }
}
