//! Ranges answered in the bytes of their response.
//!
//! A range in key order is walked, read and encoded chunk by chunk: beside the response itself, nothing grows with
//! the number of keys. What is sorted by something else has to be collected first.

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use parking_lot::RwLockReadGuard;

use super::Reader;
use crate::encode::{Encoder, Fields, Found, Listed};
use crate::range::count::Count;
use crate::range::{Findings, RangeReply, Selection, Shape, bounds, check_revision, lone};
use crate::resolve;
use crate::state::{Counters, State};
use crate::types::{Access, Damaged, Revision};

/// Most keys of a list whose values are kept in memory for the next one: of the usual sizes, as many as
/// the memory for it holds. A longer list would push out its own beginning.
pub(super) const KEPT_KEYS_MAX: usize = 20_000;

/// How to read the values of so many keys.
fn access(keys: usize) -> Access {
    if keys <= KEPT_KEYS_MAX { Access::Query } else { Access::Scan }
}

impl Reader {
    /// Answers a range with the encoded `RangeResponse`, in pieces to be sent one behind the other. `header`
    /// completes the header of which the revision is given. Whoever calls holds the log's pin.
    ///
    /// # Errors
    /// [`Damaged`] when a value cannot be read; heal it and call again. Within, [`Error::FutureRevision`] and
    /// [`Error::Compacted`].
    pub fn list(
        &self,
        request: &pb::RangeRequest,
        header: impl FnOnce(i64) -> pb::ResponseHeader,
    ) -> Result<Result<Vec<Bytes>, Error>, Damaged> {
        let state = self.shared.state.read();
        let current = state.revision;
        let revision = match check_revision(request.revision, current, state.compacted) {
            Ok(revision) => revision,
            Err(error) => return Ok(Err(error)),
        };
        let shape = Shape::of(request);
        if !shape.is_in_key_order() {
            let reply = self.select(request, state, revision, current);
            return self.encode_sorted(reply, &Fields::header(&header(current))).map(Ok);
        }
        Counters::add(&self.shared.counters.ranges, 1);
        let front = Fields::header(&header(current));
        let mut encoder = Encoder::new(front, &*self.shared.values, Access::Query);
        let at = Revision { main: revision, sub: u32::MAX };
        if request.range_end.is_empty() {
            let mut found = Found::new(shape.keys_only);
            let count = lone(&state.index, &request.key, at, &shape, &mut found);
            drop(state);
            encoder.add(&found, Some(Fields::end(false, count as i64)))?;
        } else {
            self.encode_range(request, shape, state, at, &mut encoder)?;
        }
        Ok(Ok(encoder.into_pieces()))
    }

    /// Walks a range in key order and encodes what it finds.
    fn encode_range(
        &self,
        request: &pb::RangeRequest,
        shape: Shape,
        state: RwLockReadGuard<'_, State>,
        at: Revision,
        encoder: &mut Encoder<'_>,
    ) -> Result<(), Damaged> {
        let limits = &self.shared.limits;
        let bounds = bounds(&request.key, &request.range_end);
        let mut count = Count::new(&state.index, &bounds, at.main, state.revision);
        let mut total = count.advance(&state.index, limits.count_steps);
        let mut selection = Selection::new(&bounds, at, shape, Found::new(shape.keys_only));
        let mut complete = shape.count_only || selection.advance(&state.index, limits.chunk_keys);
        let _pin = (total.is_none() || !complete).then(|| self.shared.pin(at.main));
        drop(state);
        while total.is_none() {
            total = count.advance(&self.shared.state.read().index, limits.count_steps);
        }
        let total = total.unwrap_or(0);
        let mut left = shape.limit();
        encoder.read_as(access(left.min(total as usize)));
        loop {
            let more = selection.found.len() > left;
            selection.found.truncate(left);
            left -= selection.found.len();
            encoder.add(&selection.found, complete.then(|| Fields::end(more, total as i64)))?;
            if complete {
                return Ok(());
            }
            selection.clear();
            complete = selection.advance(&self.shared.state.read().index, limits.chunk_keys);
        }
    }

    fn encode_sorted(&self, mut reply: RangeReply, header: &Fields) -> Result<Vec<Bytes>, Damaged> {
        let values = &*self.shared.values;
        resolve::settle(&mut reply, values)?;
        let items = Listed { kvs: &reply.kvs, keys_only: reply.keys_only };
        let mut encoder = Encoder::new(*header, values, access(reply.kvs.len()));
        encoder.add(&items, Some(Fields::end(reply.more, reply.count)))?;
        Ok(encoder.into_pieces())
    }
}
