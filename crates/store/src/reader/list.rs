//! Ranges answered in the bytes of their response.
//!
//! The length of a response comes before its first byte, so a range is walked first and its values are read after. A
//! range in key order of very many keys is walked twice, chunk by chunk, to be measured and to be encoded, and nothing
//! in memory grows with the number of keys. What is sorted by something else has to be collected.

use api::Error;
use api::etcdserverpb as pb;
use parking_lot::RwLockReadGuard;

use super::Reader;
use crate::encode::{Encoder, Fields, Found, Lengths, Listed, Pieces};
use crate::index::tree::Bounds;
use crate::range::count::Count;
use crate::range::{Findings, RangeReply, Selection, Shape, bounds, check_revision, lone};
use crate::resolve;
use crate::state::{Counters, State};
use crate::types::{Access, Damaged, Revision};

/// Most keys of a list whose values are kept in memory for the next one: of the usual sizes, as many as
/// the memory for it holds. A longer list would push out its own beginning.
pub(super) const MAX_KEPT_KEYS: usize = 20_000;

/// How to read the values of so many keys.
fn access(keys: usize) -> Access {
    if keys <= MAX_KEPT_KEYS { Access::Query } else { Access::Scan }
}

impl Reader {
    /// Answers a range with the encoded `RangeResponse`, in pieces to be sent one behind the other, as they are made.
    /// `header` completes the header of which the revision is given. Whoever calls holds the log's pin.
    ///
    /// # Errors
    /// [`Damaged`] when a value cannot be read, perhaps behind some of the pieces. Repair it and call again: at the same
    /// revision and with the same header, the pieces put together are the same. Within, [`Error::FutureRevision`] and
    /// [`Error::Compacted`], before anything else.
    pub fn list(
        &self,
        request: &pb::RangeRequest,
        header: impl FnOnce(i64) -> pb::ResponseHeader,
        into: &mut dyn Pieces,
    ) -> Result<Result<(), Error>, Damaged> {
        let state = self.shared.state.read();
        let current = state.revision;
        let revision = match check_revision(request.revision, current, state.compacted) {
            Ok(revision) => revision,
            Err(error) => return Ok(Err(error)),
        };
        let front = Fields::header(&header(current));
        let shape = Shape::of(request);
        if !shape.is_in_key_order() {
            let reply = self.select(request, state, revision, current);
            return self.encode_sorted(reply, front, into).map(Ok);
        }
        Counters::add(&self.shared.counters.ranges, 1);
        let at = Revision { main: revision, sub: u32::MAX };
        if request.range_end.is_empty() {
            let mut found = Found::new(shape.keys_only);
            let count = lone(&state.index, &request.key, at, &shape, &mut found);
            drop(state);
            let how = (&*self.shared.values, Access::Query);
            return Encoder::whole(front, &found, Fields::end(false, count as i64), how, into).map(Ok);
        }
        self.encode_range(&bounds(&request.key, &request.range_end), shape, state, at, (front, into)).map(Ok)
    }

    /// Walks a range in key order and encodes what it finds.
    fn encode_range(
        &self,
        bounds: &Bounds<'_>,
        shape: Shape,
        state: RwLockReadGuard<'_, State>,
        at: Revision,
        (front, into): (Fields, &mut dyn Pieces),
    ) -> Result<(), Damaged> {
        let limits = &self.shared.limits;
        let mut count = Count::new(&state.index, bounds, at.main, state.revision);
        let mut total = count.advance(&state.index, limits.count_steps);
        let mut selection = Selection::new(bounds, at, shape, Found::new(shape.keys_only));
        let mut complete = shape.count_only || selection.advance(&state.index, limits.chunk_keys);
        let _pin = (total.is_none() || !complete).then(|| self.shared.pin(at.main));
        drop(state);
        while total.is_none() {
            total = count.advance(&self.shared.state.read().index, limits.count_steps);
        }
        let total = total.unwrap_or(0);
        while !complete && selection.found.len() < limits.found_keys {
            complete = selection.advance(&self.shared.state.read().index, limits.chunk_keys);
        }
        let wanted = shape.limit();
        let how = (&*self.shared.values, access(wanted.min(total as usize)));
        if !complete {
            let lengths = self.measure(bounds, shape, at);
            let end = Fields::end(lengths.len() > wanted, total as i64);
            let encoder = Encoder::begin(front, lengths.of_first(wanted), &end, how, into);
            return self.encode_on(selection, wanted, end, encoder);
        }
        let more = selection.found.len() > wanted;
        selection.found.truncate(wanted);
        Encoder::whole(front, &selection.found, Fields::end(more, total as i64), how, into)
    }

    /// Encodes what was found so far, walks on to the end of the selection and encodes what it finds.
    fn encode_on(
        &self,
        mut selection: Selection<Found>,
        mut left: usize,
        end: Fields,
        mut encoder: Encoder<'_>,
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

    /// Walks a range for the lengths of what it will show.
    fn measure(&self, bounds: &Bounds<'_>, shape: Shape, at: Revision) -> Lengths {
        let mut selection = Selection::new(bounds, at, shape, Lengths::new(shape.keys_only));
        while !selection.advance(&self.shared.state.read().index, self.shared.limits.chunk_keys) {}
        selection.found
    }

    fn encode_sorted(
        &self,
        mut reply: RangeReply,
        front: Fields,
        into: &mut dyn Pieces,
    ) -> Result<(), Damaged> {
        let values = &*self.shared.values;
        resolve::settle(&mut reply, values)?;
        let items = Listed { kvs: &reply.kvs, keys_only: reply.keys_only };
        let end = Fields::end(reply.more, reply.count);
        Encoder::whole(front, &items, end, (values, access(reply.kvs.len())), into)
    }
}
