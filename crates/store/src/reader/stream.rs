//! A range answered as a stream of responses (`RangeStream`), all at one revision. Merged, they are the answer to the
//! plain range.
//!
//! As in etcd, the header, `more` and `count` are in the last response, and requests that sort or filter are refused:
//! their answer is not known before the whole range was examined. But etcd accepts a sort target without a sort order,
//! which sorts a plain range ascending. Such a stream is collected first and sorted as the plain range is, so that the
//! two are equal; etcd itself sorts each of its responses alone, and loses keys between them.

use std::collections::VecDeque;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::range_request::{SortOrder, SortTarget};
use bytes::Bytes;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
use crate::range::encode::{EncodedFields, RangeEncoder, ReplyKeyValues, items_len};
use crate::range::{RangeCount, RangePlan, RangeReply, RangeSelection, bounds, check_revision, select_key};
use crate::resolve;
use crate::state::StateReplaced;
use crate::types::{KvRef, Revision};
use crate::values::{Access, Damaged, Values};

/// A streamed range in progress; its revision is pinned.
pub struct RangeStream {
    reader: Reader,
    plan: RangePlan,
    /// Revision of the header: the newest when the stream began.
    revision: i64,
    /// The part that is still to be walked; `None` for a single key.
    selection: Option<RangeSelection>,
    /// Whether the walk is complete.
    complete: bool,
    /// The answer to a range with a sort target, until it is sorted.
    unsorted: Option<RangeReply>,
    /// Keys that were found and not returned yet, in the order of the answer.
    found: VecDeque<KvRef>,
    /// Whether the limit cut off keys that are not among those found.
    cut: bool,
    /// Keys that the limit still allows.
    left: usize,
    count: i64,
    ended: bool,
    pinned: PinnedRevision,
}

/// One response of a streamed range.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamChunk {
    /// The keys. `revision`, `more` and `count` are set only in the last response.
    pub reply: RangeReply,
    /// Whether this is the last response, the one with a header.
    pub last: bool,
}

impl Reader {
    /// Begins a streamed range; see [`RangeStream`].
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`], [`Error::StreamSortUnsupported`],
    /// [`Error::StreamFilterUnsupported`]
    pub fn range_stream(&self, request: &pb::RangeRequest) -> Result<RangeStream, Error> {
        let stream = self.range_stream_within(request, usize::MAX)?;
        Ok(stream.expect("no range examines as many keys as this"))
    }

    /// As [`Reader::range_stream`]; `None` when about `max_steps` keys and changes were examined and the first response
    /// is not known yet, because the range must be counted at an old revision, or sorted.
    ///
    /// # Errors
    /// As [`Reader::range_stream`].
    pub fn range_stream_within(
        &self,
        request: &pb::RangeRequest,
        max_steps: usize,
    ) -> Result<Option<RangeStream>, Error> {
        check_order(request)?;
        from_the_beginning(|| RangeStream::new(self, request, max_steps))
    }
}

impl StreamChunk {
    /// Encodes the response as a `RangeStreamResponse`, in chunks. `header` completes a header, given its revision.
    ///
    /// # Errors
    /// [`Damaged`] when a value cannot be read; repair it and call again.
    pub fn encode(
        &self,
        header: impl FnOnce(i64) -> pb::ResponseHeader,
        values: &dyn Values,
    ) -> Result<Vec<Bytes>, Damaged> {
        let reply = &self.reply;
        let items = ReplyKeyValues { kvs: &reply.kvs, keys_only: reply.keys_only };
        let front =
            if self.last { EncodedFields::header(&header(reply.revision)) } else { EncodedFields::NONE };
        let end = EncodedFields::end(reply.more, reply.count);
        let items_bytes = items_len(&items);
        let front = front.enclosed(front.as_slice().len() + items_bytes + end.as_slice().len());
        let mut chunks = Vec::new();
        let mut encoder = RangeEncoder::begin(front, items_bytes, &end, (values, Access::Scan), &mut chunks);
        encoder.add(&items, Some(end))?;
        Ok(chunks)
    }
}

impl RangeStream {
    fn new(
        reader: &Reader,
        request: &pb::RangeRequest,
        max_steps: usize,
    ) -> Result<Result<Option<RangeStream>, Error>, StateReplaced> {
        let plan = RangePlan::of(request);
        let state = reader.shared.state.read();
        let main = match check_revision(request.revision, state.revision, state.compacted) {
            Ok(main) => main,
            Err(error) => return Ok(Err(error)),
        };
        let at = Revision { main, sub: u32::MAX };
        let pinned = PinnedRevision::new(&reader.shared, &state, main);
        let mut stream = RangeStream {
            reader: reader.clone(),
            plan,
            revision: state.revision,
            selection: None,
            complete: true,
            unsorted: None,
            found: Default::default(),
            cut: false,
            left: plan.limit(),
            count: 0,
            ended: false,
            pinned,
        };
        if !plan.is_in_key_order() {
            stream.unsorted = reader.select_within(request, state, (main, stream.revision), max_steps)?;
            let is_known = stream.unsorted.is_some();
            return Ok(Ok(is_known.then_some(stream)));
        }
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = select_key(&state.index, &request.key, at, &plan, &mut kvs);
            stream.found = kvs.into();
            stream.count = count as i64;
            return Ok(Ok(Some(stream)));
        }
        let bounds = bounds(&request.key, &request.range_end);
        let known = &reader.shared.known_counts;
        let mut count = RangeCount::with_known(&state.index, &bounds, main, known);
        let counted = count.advance(&state.index, reader.shared.limits.count_steps.min(max_steps));
        if counted.is_none() && max_steps < usize::MAX {
            return Ok(Ok(None));
        }
        stream.selection = Some(RangeSelection::new(&bounds, at, plan, Vec::new()));
        stream.complete = plan.count_only;
        drop(state);
        let counted = counted.map_or_else(|| stream.pinned.count(count, &bounds), Ok)?;
        stream.count = counted as i64;
        Ok(Ok(Some(stream)))
    }

    /// The next response, with at most `max_keys` keys and, unless it has one key only, `max_bytes` of keys and values.
    /// `None` after the last. There is at least one response, which may have no keys.
    ///
    /// # Errors
    /// Outer: [`Damaged`] when a value by which the range is sorted cannot be read; repair it and call again. Inner:
    /// [`Error::Compacted`] when a snapshot was installed that has been compacted beyond the stream's revision.
    pub fn next_chunk(
        &mut self,
        max_keys: usize,
        max_bytes: usize,
    ) -> Result<Result<Option<StreamChunk>, Error>, Damaged> {
        if self.ended {
            return Ok(Ok(None));
        }
        self.sort()?;
        let max_keys = max_keys.clamp(1, self.left.max(1));
        if self.fill(max_keys).is_err() {
            return Ok(Err(Error::Compacted));
        }
        let mut reply = RangeReply { keys_only: self.plan.keys_only, ..RangeReply::default() };
        let mut bytes = 0;
        while let Some(kv) = self.found.front().filter(|_| self.left > 0 && reply.kvs.len() < max_keys) {
            let value_bytes = if self.plan.keys_only { 0 } else { kv.value.len as usize };
            bytes += kv.key.len() + value_bytes;
            if bytes > max_bytes && !reply.kvs.is_empty() {
                break;
            }
            reply.kvs.extend(self.found.pop_front());
            self.left -= 1;
        }
        // What was sorted has its leases as a plain range has them.
        if self.plan.keys_only && self.plan.is_in_key_order() {
            reply.kvs.iter_mut().for_each(|kv| kv.lease = 0);
        }
        self.ended = self.left == 0 || (self.complete && self.found.is_empty());
        if self.ended {
            (reply.revision, reply.count) = (self.revision, self.count);
            reply.more = self.cut || !self.found.is_empty();
        }
        Ok(Ok(Some(StreamChunk { reply, last: self.ended })))
    }

    /// Sorts a range with a sort target, once.
    fn sort(&mut self) -> Result<(), Damaged> {
        let Some(unsorted) = &mut self.unsorted else { return Ok(()) };
        resolve::sort(unsorted, &*self.reader.shared.values)?;
        let RangeReply { kvs, more, count, .. } = self.unsorted.take().unwrap_or_default();
        (self.found, self.cut, self.count) = (kvs.into(), more, count);
        Ok(())
    }

    /// Continues the walk until more than `keys` keys are found, or all are.
    fn fill(&mut self, keys: usize) -> Result<(), StateReplaced> {
        let Some(selection) = &mut self.selection else { return Ok(()) };
        while !self.complete && self.found.len() <= keys {
            let state = self.pinned.state()?;
            self.complete =
                selection.advance(&state.index, self.reader.shared.limits.chunk_keys.min(keys + 1));
            drop(state);
            self.found.extend(selection.take());
        }
        Ok(())
    }
}

fn check_order(request: &pb::RangeRequest) -> Result<(), Error> {
    let by_key =
        request.sort_target == SortTarget::Key as i32 && request.sort_order == SortOrder::Ascend as i32;
    if request.sort_order != SortOrder::None as i32 && !by_key {
        return Err(Error::StreamSortUnsupported);
    }
    let revisions = [request.min_mod_revision, request.max_mod_revision];
    let creates = [request.min_create_revision, request.max_create_revision];
    if revisions != [0; 2] || creates != [0; 2] {
        return Err(Error::StreamFilterUnsupported);
    }
    Ok(())
}
