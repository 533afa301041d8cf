//! The encoder: lays out a chunk, has the values read into it, and hands it on.

use bytes::{BufMut, Bytes};

use super::fields::{EncodedFields, KVS};
use super::key_value::{KeyValueSource, items_len};
use crate::values::{Access, Damaged, ValueSlot, Values};
use crate::wire::record_len;

/// Approximate size of a chunk: large enough that the cost of a chunk is negligible by the byte, small enough to stay
/// in the cache between being filled and being sent.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// Receives an encoded response, chunk by chunk.
pub trait ChunkSink {
    /// Called once, before the first chunk, with the length of the whole response in bytes.
    fn begin(&mut self, bytes: usize);

    /// Whether the next chunk, of so many bytes, is to be made.
    fn next(&mut self, _bytes: usize) -> NextChunk {
        NextChunk::Make
    }

    /// Takes the next chunk. All chunks together, with those that were skipped, have the announced length.
    fn push(&mut self, chunk: Bytes);
}

/// What becomes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextChunk {
    /// It is made, and pushed.
    Make,
    /// It is not made: the receiver has it already.
    Skip,
    /// Neither it nor another is made.
    Stop,
}

impl ChunkSink for Vec<Bytes> {
    fn begin(&mut self, _: usize) {}

    fn push(&mut self, chunk: Bytes) {
        Vec::push(self, chunk);
    }
}

/// Writes a response, chunk by chunk.
pub(crate) struct RangeEncoder<'v> {
    values: &'v dyn Values,
    access: Access,
    into: &'v mut dyn ChunkSink,
    /// What the next chunk begins with: the response's first fields, or the rest of a large key-value.
    front: EncodedFields,
    /// Lengths of the messages in the chunk that is laid out.
    lens: Vec<usize>,
    has_stopped: bool,
    /// What became of the first chunk.
    first: Option<NextChunk>,
}

/// The part of `items` that makes one chunk.
struct ChunkLayout {
    from: usize,
    to: usize,
    bytes: usize,
    /// Whether the last one's value becomes the next chunk.
    ends_large: bool,
}

impl<'v> RangeEncoder<'v> {
    /// Begins a response: `front`, then key-values of `items_bytes` in all, then `end`.
    pub(crate) fn begin(
        front: EncodedFields,
        items_bytes: usize,
        end: &EncodedFields,
        (values, access): (&'v dyn Values, Access),
        into: &'v mut dyn ChunkSink,
    ) -> RangeEncoder<'v> {
        into.begin(front.as_slice().len() + items_bytes + end.as_slice().len());
        RangeEncoder { values, access, into, front, lens: Vec::new(), has_stopped: false, first: None }
    }

    /// Whether the receiver wants no more.
    pub(crate) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Whether the first chunk was made, by which a range counts as answered. A response that is made again from within
    /// its first chunk counts twice.
    pub(crate) fn has_made_first(&self) -> bool {
        self.first == Some(NextChunk::Make)
    }

    /// Whether a chunk of so many bytes is made.
    fn makes(&mut self, bytes: usize) -> bool {
        let next = if self.has_stopped { NextChunk::Stop } else { self.into.next(bytes) };
        self.first.get_or_insert(next);
        self.has_stopped = next == NextChunk::Stop;
        next == NextChunk::Make
    }

    /// Writes a whole response. Returns whether its first chunk was made.
    ///
    /// # Errors
    /// As [`RangeEncoder::add`].
    pub(crate) fn whole(
        front: EncodedFields,
        items: &impl KeyValueSource,
        end: EncodedFields,
        how: (&'v dyn Values, Access),
        into: &'v mut dyn ChunkSink,
    ) -> Result<bool, Damaged> {
        let mut encoder = RangeEncoder::begin(front, items_len(items), &end, how, into);
        encoder.add(items, Some(end))?;
        Ok(encoder.has_made_first())
    }

    /// Writes items; if they are the last, `end` follows them.
    ///
    /// # Errors
    /// [`Damaged`] when a value cannot be read. The rest of the response is not written.
    pub(crate) fn add(
        &mut self,
        items: &impl KeyValueSource,
        end: Option<EncodedFields>,
    ) -> Result<(), Damaged> {
        let count = items.count();
        let (mut from, mut unwritten) = (0, end);
        while from < count && !self.has_stopped {
            let layout = self.measure(items, from);
            from = layout.to;
            let is_last = from == count && !layout.ends_large;
            let end = if is_last { unwritten.take() } else { None };
            self.write(items, &layout, &end.unwrap_or(EncodedFields::NONE))?;
            if layout.ends_large {
                let large = items.item(layout.to - 1);
                let named = |damaged: Damaged| damaged.among(std::iter::once((large.key, large.value)));
                if self.makes(large.value.len as usize) {
                    self.into.push(self.values.read(&large.value).map_err(named)?);
                }
                self.front = EncodedFields::of(|out| large.put_back(out));
            }
        }
        if let Some(end) = unwritten {
            let rest = [self.front.as_slice(), end.as_slice()].concat();
            if self.makes(rest.len()) {
                self.into.push(rest.into());
            }
        }
        Ok(())
    }

    /// Determines how many of the items from `from` on make the next chunk.
    fn measure(&mut self, items: &impl KeyValueSource, from: usize) -> ChunkLayout {
        self.lens.clear();
        let mut layout =
            ChunkLayout { from, to: from, bytes: self.front.as_slice().len(), ends_large: false };
        while layout.to < items.count() && layout.bytes < CHUNK_BYTES && !layout.ends_large {
            let item = items.item(layout.to);
            let len = item.len();
            self.lens.push(len);
            layout.bytes += record_len(KVS, len);
            layout.to += 1;
            if item.is_large() {
                layout.bytes -= item.value.len as usize + item.back_len();
                layout.ends_large = true;
            }
        }
        layout
    }

    fn write(
        &mut self,
        items: &impl KeyValueSource,
        layout: &ChunkLayout,
        end: &EncodedFields,
    ) -> Result<(), Damaged> {
        if !self.makes(layout.bytes + end.as_slice().len()) {
            self.front = EncodedFields::NONE;
            return Ok(());
        }
        let mut chunk = vec![0; layout.bytes + end.as_slice().len()];
        let mut out = chunk.as_mut_slice();
        let mut slots = Vec::with_capacity(layout.to - layout.from);
        out.put_slice(self.front.as_slice());
        self.front = EncodedFields::NONE;
        for (at, len) in (layout.from..layout.to).zip(&self.lens) {
            let item = items.item(at);
            item.put_front(&mut out, *len);
            if layout.ends_large && at + 1 == layout.to {
                break;
            }
            if item.value.len > 0 {
                let (into, rest) = std::mem::take(&mut out).split_at_mut(item.value.len as usize);
                slots.push(ValueSlot { value: item.value, into });
                out = rest;
            }
            item.put_back(&mut out);
        }
        out.put_slice(end.as_slice());
        assert!(out.is_empty(), "a chunk is as long as was measured");
        let written = (layout.from..layout.to).map(|at| items.item(at)).map(|item| (item.key, item.value));
        self.values.read_into(&mut slots, self.access).map_err(|damaged| damaged.among(written))?;
        self.into.push(chunk.into());
        Ok(())
    }
}
