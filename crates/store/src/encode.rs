//! `RangeResponse` on the wire, written straight from the index and the values.
//!
//! The length of everything is known before any value is read. So a response is laid out first, with a [`ValueSlot`] for
//! each value, and then the slots are filled: a value is copied once, from where it lies to where it is sent from.
//! It comes in [`Pieces`] of bounded size, which can be sent, and freed, while the next is made. A large value is not
//! copied at all: it is a piece of its own.
//!
//! ```text
//! | header | kv | kv | ... |   | kv | ... | kv up to its value |   | the value |   | rest of the kv | more | count |
//!   piece                        piece                               piece           piece
//! ```
//!
//! The tests hold the pieces, put together, equal to the generated types byte for byte.

#[cfg(test)]
mod tests;

use api::etcdserverpb as pb;
use bytes::{BufMut, Bytes};

use crate::index::Version;
use crate::range::Findings;
use crate::types::{Access, Damaged, KvRef, ValueRef, ValueSlot, Values};
use crate::wire::{bytes_len, number_len, put_bytes, put_number, put_prefix, record_len};

/// Bytes of a piece, about: large enough that what a piece costs is nothing by the byte, small enough to stay in the
/// cache between being filled and being sent.
const PIECE_BYTES: usize = 128 << 10;

/// Values from this size on are pieces of their own.
const LARGE_VALUE_BYTES: u32 = 16 << 10;

/// Fields of `RangeResponse`.
const HEADER: u32 = 1;
const KVS: u32 = 2;
const MORE: u32 = 3;
const COUNT: u32 = 4;

/// Where an encoded response goes, piece by piece.
pub trait Pieces {
    /// Is told once, before the first piece, how many bytes all of them have.
    fn begin(&mut self, bytes: usize);

    /// Takes the next piece.
    fn push(&mut self, piece: Bytes);
}

impl Pieces for Vec<Bytes> {
    fn begin(&mut self, _: usize) {}

    fn push(&mut self, piece: Bytes) {
        Vec::push(self, piece);
    }
}

/// One `KeyValue` of a response. A value that is left out is an empty one.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    key: &'a [u8],
    create_revision: i64,
    mod_revision: i64,
    version: i64,
    lease: i64,
    value: ValueRef,
}

impl<'a> Item<'a> {
    /// A version as the index has it; with `keys_only`, without value and lease.
    fn of(key: &'a [u8], version: &Version, keys_only: bool) -> Item<'a> {
        Item {
            key,
            create_revision: version.create,
            mod_revision: version.revision.main,
            version: version.version,
            lease: if keys_only { 0 } else { version.lease },
            value: if keys_only { ValueRef::default() } else { version.value },
        }
    }

    fn numbers(&self) -> [(u32, u64); 3] {
        [(2, self.create_revision as u64), (3, self.mod_revision as u64), (4, self.version as u64)]
    }

    /// Length of the message.
    fn len(&self) -> usize {
        let numbers_len: usize =
            self.numbers().iter().map(|(field, number)| number_len(*field, *number)).sum();
        bytes_len(1, self.key.len()) + numbers_len + bytes_len(5, self.value.len as usize) + self.back_len()
    }

    /// Length of the field of a response.
    fn field_len(&self) -> usize {
        record_len(KVS, self.len())
    }

    fn back_len(&self) -> usize {
        number_len(6, self.lease as u64)
    }

    /// Writes everything before the value's bytes. `len` is that of the message.
    fn put_front(&self, out: &mut impl BufMut, len: usize) {
        put_prefix(out, KVS, len);
        put_bytes(out, 1, self.key);
        self.numbers().iter().for_each(|(field, number)| put_number(out, *field, *number));
        if self.value.len > 0 {
            put_prefix(out, 5, self.value.len as usize);
        }
    }

    /// Writes what comes after the value's bytes.
    fn put_back(&self, out: &mut impl BufMut) {
        put_number(out, 6, self.lease as u64);
    }

    fn is_large(&self) -> bool {
        self.value.len >= LARGE_VALUE_BYTES
    }
}

/// What a response shows, in its order.
pub(crate) trait Items {
    fn count(&self) -> usize;

    fn item(&self, at: usize) -> Item<'_>;
}

/// Versions as they were found in the index, without an allocation for each.
#[derive(Default)]
pub(crate) struct Found {
    keys: Vec<u8>,
    /// Each with where its key ends in `keys`.
    versions: Vec<(usize, Version)>,
    keys_only: bool,
}

impl Found {
    /// Nothing yet; with `keys_only`, values and leases will be left out.
    pub(crate) fn new(keys_only: bool) -> Found {
        Found { keys_only, ..Found::default() }
    }

    /// Keeps the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.versions.truncate(count);
    }

    /// Forgets everything but the room it took.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.versions.clear();
    }
}

impl Findings for Found {
    #[inline]
    fn push(&mut self, key: &[u8], version: &Version) {
        self.keys.extend_from_slice(key);
        self.versions.push((self.keys.len(), *version));
    }

    fn len(&self) -> usize {
        self.versions.len()
    }
}

impl Items for Found {
    fn count(&self) -> usize {
        self.versions.len()
    }

    fn item(&self, at: usize) -> Item<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.versions[before].0);
        let (end, version) = &self.versions[at];
        Item::of(&self.keys[start..*end], version, self.keys_only)
    }
}

/// The lengths of versions, when there are too many to keep them.
pub(crate) struct Lengths {
    keys_only: bool,
    count: usize,
    bytes: usize,
    /// That of the last one.
    last: usize,
}

impl Lengths {
    /// Of nothing yet; with `keys_only`, values and leases will be left out.
    pub(crate) fn new(keys_only: bool) -> Lengths {
        Lengths { keys_only, count: 0, bytes: 0, last: 0 }
    }

    /// Bytes that the first `count` take in a response; beyond them there is at most one.
    pub(crate) fn of_first(&self, count: usize) -> usize {
        self.bytes - if self.count > count { self.last } else { 0 }
    }
}

impl Findings for Lengths {
    #[inline]
    fn push(&mut self, key: &[u8], version: &Version) {
        self.last = Item::of(key, version, self.keys_only).field_len();
        self.count += 1;
        self.bytes += self.last;
    }

    fn len(&self) -> usize {
        self.count
    }
}

/// Versions of a reply that has been made; leases are as the reply says.
pub(crate) struct Listed<'a> {
    pub(crate) kvs: &'a [KvRef],
    pub(crate) keys_only: bool,
}

impl Items for Listed<'_> {
    fn count(&self) -> usize {
        self.kvs.len()
    }

    fn item(&self, at: usize) -> Item<'_> {
        let kv = &self.kvs[at];
        Item {
            key: &kv.key,
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision.main,
            version: kv.version,
            lease: kv.lease,
            value: if self.keys_only { ValueRef::default() } else { kv.value },
        }
    }
}

/// A few encoded fields.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    bytes: [u8; Fields::MAX_BYTES],
    len: usize,
}

impl Fields {
    /// The prefix of an enclosing message, and a header whose numbers are at their longest.
    const MAX_BYTES: usize = 64;

    pub(crate) const NONE: Fields = Fields { bytes: [0; Fields::MAX_BYTES], len: 0 };

    fn of(write: impl FnOnce(&mut &mut [u8])) -> Fields {
        let mut fields = Fields::NONE;
        let mut room = &mut fields.bytes[..];
        write(&mut room);
        fields.len = Fields::MAX_BYTES - room.len();
        fields
    }

    /// The field before the keys.
    pub(crate) fn header(header: &pb::ResponseHeader) -> Fields {
        let numbers = [
            (1, header.cluster_id),
            (2, header.member_id),
            (3, header.revision as u64),
            (4, header.raft_term),
        ];
        let len = numbers.iter().map(|(field, number)| number_len(*field, *number)).sum();
        Fields::of(|out| {
            put_prefix(out, HEADER, len);
            numbers.iter().for_each(|(field, number)| put_number(out, *field, *number));
        })
    }

    /// The fields behind the keys.
    pub(crate) fn end(more: bool, count: i64) -> Fields {
        Fields::of(|out| {
            put_number(out, MORE, more.into());
            put_number(out, COUNT, count as u64);
        })
    }

    /// The same behind the prefix of a message whose only field, number 1, is the whole response of `len` bytes.
    pub(crate) fn enclosed(&self, len: usize) -> Fields {
        Fields::of(|out| {
            put_prefix(out, 1, len);
            out.put_slice(self.as_slice());
        })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Bytes that `items` take in a response.
pub(crate) fn items_len(items: &impl Items) -> usize {
    (0..items.count()).map(|at| items.item(at).field_len()).sum()
}

/// Writes a response, piece by piece.
pub(crate) struct Encoder<'v> {
    values: &'v dyn Values,
    access: Access,
    into: &'v mut dyn Pieces,
    /// What the next piece begins with.
    front: Fields,
    /// Lengths of the messages of the piece being laid out.
    lens: Vec<usize>,
}

/// The part of `items` that makes one piece.
struct Part {
    from: usize,
    to: usize,
    bytes: usize,
    /// Whether the last one's value is left to a piece of its own.
    ends_large: bool,
}

impl<'v> Encoder<'v> {
    /// Begins a response: `front`, then items that take `items_bytes`, then `end`.
    pub(crate) fn begin(
        front: Fields,
        items_bytes: usize,
        end: &Fields,
        (values, access): (&'v dyn Values, Access),
        into: &'v mut dyn Pieces,
    ) -> Encoder<'v> {
        into.begin(front.len + items_bytes + end.len);
        Encoder { values, access, into, front, lens: Vec::new() }
    }

    /// Writes a whole response.
    ///
    /// # Errors
    /// As those of [`Encoder::add`].
    pub(crate) fn whole(
        front: Fields,
        items: &impl Items,
        end: Fields,
        how: (&'v dyn Values, Access),
        into: &'v mut dyn Pieces,
    ) -> Result<(), Damaged> {
        Encoder::begin(front, items_len(items), &end, how, into).add(items, Some(end))
    }

    /// Writes items, and `end` behind them if they are the last.
    ///
    /// # Errors
    /// [`Damaged`] when a value cannot be read; the rest of the response is lost.
    pub(crate) fn add(&mut self, items: &impl Items, end: Option<Fields>) -> Result<(), Damaged> {
        let count = items.count();
        let (mut from, mut unwritten) = (0, end);
        while from < count {
            let part = self.measure(items, from);
            from = part.to;
            let is_last = from == count && !part.ends_large;
            let end = if is_last { unwritten.take() } else { None };
            self.write(items, &part, &end.unwrap_or(Fields::NONE))?;
            if part.ends_large {
                let large = items.item(part.to - 1);
                self.into.push(self.values.read(&large.value)?);
                self.front = Fields::of(|out| large.put_back(out));
            }
        }
        if let Some(end) = unwritten {
            let rest = [self.front.as_slice(), end.as_slice()].concat();
            self.into.push(rest.into());
        }
        Ok(())
    }

    /// How many of the items from `from` on make the next piece.
    fn measure(&mut self, items: &impl Items, from: usize) -> Part {
        self.lens.clear();
        let mut part = Part { from, to: from, bytes: self.front.len, ends_large: false };
        while part.to < items.count() && part.bytes < PIECE_BYTES && !part.ends_large {
            let item = items.item(part.to);
            let len = item.len();
            self.lens.push(len);
            part.bytes += record_len(KVS, len);
            part.to += 1;
            if item.is_large() {
                part.bytes -= item.value.len as usize + item.back_len();
                part.ends_large = true;
            }
        }
        part
    }

    fn write(&mut self, items: &impl Items, part: &Part, end: &Fields) -> Result<(), Damaged> {
        let mut piece = vec![0; part.bytes + end.len];
        let mut out = piece.as_mut_slice();
        let mut slots = Vec::with_capacity(part.to - part.from);
        out.put_slice(self.front.as_slice());
        self.front = Fields::NONE;
        for (at, len) in (part.from..part.to).zip(&self.lens) {
            let item = items.item(at);
            item.put_front(&mut out, *len);
            if part.ends_large && at + 1 == part.to {
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
        assert!(out.is_empty(), "a piece is as long as was measured");
        self.values.read_into(&mut slots, self.access)?;
        self.into.push(piece.into());
        Ok(())
    }
}
