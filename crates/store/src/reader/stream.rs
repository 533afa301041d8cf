//! A range answered in pieces, all at one revision; put together they are the answer to the plain range.
//!
//! As in etcd, the header, `more` and `count` come with the last piece, and requests that sort or filter are
//! refused: their answer is not known before the whole range has been looked at.

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::range_request::{SortOrder, SortTarget};

use bytes::Bytes;

use super::Reader;
use crate::encode::{Encoder, Fields, Listed, items_len};
use crate::range::count::Count;
use crate::range::{RangeReply, Selection, Shape, bounds, check_revision, lone};
use crate::state::Pin;
use crate::types::{Access, Damaged, KvRef, Revision, Values};

/// See the module.
pub struct RangeStream {
    reader: Reader,
    shape: Shape,
    /// Revision of the header: the newest when the stream began.
    revision: i64,
    /// The part still to be walked; `None` for a single key.
    selection: Option<Selection>,
    /// Nothing is left to be walked.
    complete: bool,
    /// Found and not yet handed out, in key order.
    found: std::collections::VecDeque<KvRef>,
    /// Keys that the limit still allows.
    left: usize,
    count: i64,
    ended: bool,
    _pin: Pin,
}

/// A piece of a streamed range.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamChunk {
    /// The keys. `revision`, `more` and `count` are set in the last piece only.
    pub reply: RangeReply,
    /// Whether this is the last piece: the one whose response has a header.
    pub last: bool,
}

impl StreamChunk {
    /// The piece as an encoded `RangeStreamResponse`, itself in pieces. `header` completes a header of which the
    /// revision is given.
    ///
    /// # Errors
    /// [`Damaged`] when a value cannot be read; repair it and call again.
    pub fn encode(
        &self,
        header: impl FnOnce(i64) -> pb::ResponseHeader,
        values: &dyn Values,
    ) -> Result<Vec<Bytes>, Damaged> {
        let reply = &self.reply;
        let items = Listed { kvs: &reply.kvs, keys_only: reply.keys_only };
        let front = if self.last { Fields::header(&header(reply.revision)) } else { Fields::NONE };
        let end = Fields::end(reply.more, reply.count);
        let items_bytes = items_len(&items);
        let front = front.enclosed(front.as_slice().len() + items_bytes + end.as_slice().len());
        let mut pieces = Vec::new();
        let mut encoder = Encoder::begin(front, items_bytes, &end, (values, Access::Scan), &mut pieces);
        encoder.add(&items, Some(end))?;
        Ok(pieces)
    }
}

impl RangeStream {
    pub(super) fn new(reader: &Reader, request: &pb::RangeRequest) -> Result<RangeStream, Error> {
        check_order(request)?;
        let shape = Shape::of(&pb::RangeRequest { sort_target: SortTarget::Key as i32, ..request.clone() });
        let state = reader.shared.state.read();
        let main = check_revision(request.revision, state.revision, state.compacted)?;
        let at = Revision { main, sub: u32::MAX };
        let pin = reader.shared.pin(main);
        let mut stream = RangeStream {
            reader: reader.clone(),
            shape,
            revision: state.revision,
            selection: None,
            complete: true,
            found: Default::default(),
            left: shape.limit(),
            count: 0,
            ended: false,
            _pin: pin,
        };
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = lone(&state.index, &request.key, at, &shape, &mut kvs);
            stream.found = kvs.into();
            stream.count = count as i64;
            return Ok(stream);
        }
        let bounds = bounds(&request.key, &request.range_end);
        let mut count = Count::new(&state.index, &bounds, main, state.revision);
        stream.selection = Some(Selection::new(&bounds, at, shape, Vec::new()));
        stream.complete = shape.count_only;
        drop(state);
        let steps = reader.shared.limits.count_steps;
        let total = loop {
            if let Some(total) = count.advance(&reader.shared.state.read().index, steps) {
                break total;
            }
        };
        stream.count = total as i64;
        Ok(stream)
    }

    /// The next piece, of at most `max_keys` keys and, past the first, `max_bytes` of keys and values. `None`
    /// after the last. There is always a last one, be it empty.
    pub fn next_chunk(&mut self, max_keys: usize, max_bytes: usize) -> Option<StreamChunk> {
        if self.ended {
            return None;
        }
        let max_keys = max_keys.clamp(1, self.left.max(1));
        self.fill(max_keys);
        let mut reply = RangeReply { keys_only: self.shape.keys_only, ..RangeReply::default() };
        let mut bytes = 0;
        while let Some(kv) = self.found.front().filter(|_| self.left > 0 && reply.kvs.len() < max_keys) {
            let value_bytes = if self.shape.keys_only { 0 } else { kv.value.len as usize };
            bytes += kv.key.len() + value_bytes;
            if bytes > max_bytes && !reply.kvs.is_empty() {
                break;
            }
            reply.kvs.extend(self.found.pop_front());
            self.left -= 1;
        }
        if self.shape.keys_only {
            reply.kvs.iter_mut().for_each(|kv| kv.lease = 0);
        }
        self.ended = self.left == 0 || (self.complete && self.found.is_empty());
        if self.ended {
            (reply.revision, reply.count) = (self.revision, self.count);
            reply.more = !self.found.is_empty();
        }
        Some(StreamChunk { reply, last: self.ended })
    }

    /// Walks on until more than `keys` are found, or all are.
    fn fill(&mut self, keys: usize) {
        let Some(selection) = &mut self.selection else { return };
        while !self.complete && self.found.len() <= keys {
            let state = self.reader.shared.state.read();
            self.complete =
                selection.advance(&state.index, self.reader.shared.limits.chunk_keys.min(keys + 1));
            drop(state);
            self.found.extend(selection.take());
        }
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
