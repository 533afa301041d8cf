//! `WatchResponse` in its encoding, in two parts: a head of each watcher, and events that many watchers share.
//!
//! In `WatchResponse` the events are the repeated field with the highest number. So a response is the concatenation of
//! its other fields and of one length-delimited record per event:
//!
//! ```text
//! | header | watch_id | created ... |   | event | event | event |
//!   ResponseHead, one per watcher         EncodedEvents, shared; cut between events for fragments
//! ```
//!
//! Written by hand, because a generated message type cannot share its encoded parts. The tests compare it with the
//! generated types, byte for byte.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::types::{Event, EventKind, KvRef};
use crate::values::{Damaged, ValueRef, Values};
use crate::wire::{bytes_len, number_len, put_bytes, put_number, put_prefix, record_len};

/// An encoded `WatchResponse`: `head`, followed by `events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedResponse {
    /// The watcher that it is for; -1 for none.
    pub watch_id: i64,
    /// All fields but the events.
    pub head: Bytes,
    /// The encoded events, shared with other watchers; empty for answers and progress.
    pub events: Bytes,
}

impl EncodedResponse {
    /// Length of the message in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a response always has a header")]
    pub fn len(&self) -> usize {
        self.head.len() + self.events.len()
    }

    /// The message as one buffer, copied.
    pub fn to_bytes(&self) -> Bytes {
        [self.head.as_ref(), self.events.as_ref()].concat().into()
    }
}

/// Encoded events, and the positions between them.
#[derive(Clone)]
pub(super) struct EncodedEvents {
    bytes: Bytes,
    /// The end of each event's record in `bytes`.
    ends: Arc<[usize]>,
}

impl EncodedEvents {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of the events `from..to`.
    pub(super) fn slice(&self, from: usize, to: usize) -> Bytes {
        self.bytes.slice(self.end_of(from)..self.end_of(to))
    }

    /// Bytes that the events `from..to` take.
    pub(super) fn size(&self, from: usize, to: usize) -> usize {
        self.end_of(to) - self.end_of(from)
    }

    fn end_of(&self, count: usize) -> usize {
        if count == 0 { 0 } else { self.ends[count - 1] }
    }
}

/// The cluster's part of a response header.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseIdentity {
    pub(super) cluster_id: u64,
    pub(super) member_id: u64,
}

/// All fields of a response but its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResponseHead {
    pub(super) revision: i64,
    pub(super) watch_id: i64,
    pub(super) created: bool,
    pub(super) canceled: bool,
    pub(super) compact_revision: i64,
    pub(super) cancel_reason: Cow<'static, str>,
    pub(super) fragment: bool,
}

impl ResponseHead {
    /// Encodes the head at the end of `chunk` and splits it off. Heads are small and many, so those of a stream share
    /// allocations; `expected` tells how many are likely to follow.
    pub(super) fn encode(
        &self,
        identity: ResponseIdentity,
        raft_term: u64,
        chunk: &mut BytesMut,
        expected: usize,
    ) -> Bytes {
        /// Heads for which memory is allocated at once: enough to make its cost negligible, little for a stream to
        /// keep.
        const MAX_EXPECTED: usize = 40;
        /// The longest numbers, with tags and lengths.
        const MAX_NUMBERS_BYTES: usize = 96;
        let header =
            [(1, identity.cluster_id), (2, identity.member_id), (3, self.revision as u64), (4, raft_term)];
        let header_len = header.iter().map(|(field, number)| number_len(*field, *number)).sum::<usize>();
        let longest = MAX_NUMBERS_BYTES + self.cancel_reason.len();
        if chunk.capacity() < longest {
            *chunk = BytesMut::with_capacity(longest * expected.clamp(1, MAX_EXPECTED));
        }
        put_prefix(chunk, 1, header_len);
        header.iter().for_each(|(field, number)| put_number(chunk, *field, *number));
        put_number(chunk, 2, self.watch_id as u64);
        put_number(chunk, 3, self.created.into());
        put_number(chunk, 4, self.canceled.into());
        put_number(chunk, 5, self.compact_revision as u64);
        put_bytes(chunk, 6, self.cancel_reason.as_bytes());
        put_number(chunk, 7, self.fragment.into());
        chunk.split().freeze()
    }
}

/// How many events from the front make a response of about `max_bytes`: whole revisions, at least one.
pub(super) fn fitting<'e>(events: impl Iterator<Item = &'e Event>, prev_kv: bool, max_bytes: usize) -> usize {
    let (mut bytes, mut seen, mut whole, mut revision) = (0, 0, 0, None);
    for event in events {
        if revision.is_some_and(|last| last != event.kv.mod_revision.main) {
            whole = seen;
        }
        bytes += weight(event, prev_kv);
        if bytes > max_bytes && whole > 0 {
            return whole;
        }
        revision = Some(event.kv.mod_revision.main);
        seen += 1;
    }
    seen
}

/// The approximate length of an encoded event, known without its values.
pub(super) fn weight(event: &Event, prev_kv: bool) -> usize {
    /// Revisions, version, lease, tags and lengths of one `KeyValue`.
    const NUMBERS_BYTES: usize = 40;
    let of = |kv: &KvRef| kv.key.len() + kv.value.len as usize + NUMBERS_BYTES;
    of(&event.kv) + event.prev.as_ref().filter(|_| prev_kv).map_or(0, of)
}

/// Encodes events, reading the values they name.
///
/// # Errors
/// [`Damaged`] for the first value that could not be read intact.
pub(super) fn events<'e>(
    events: impl Iterator<Item = &'e Event> + Clone,
    prev_kv: bool,
    values: &dyn Values,
) -> Result<EncodedEvents, Damaged> {
    let prev = |event: &'e Event| event.prev.as_ref().filter(|_| prev_kv);
    let kvs = events.clone().flat_map(|event| [Some(&event.kv), prev(event)]).flatten();
    let wanted: Vec<ValueRef> = kvs.clone().map(|kv| kv.value).filter(|value| value.len > 0).collect();
    let named = |damaged: Damaged| damaged.among(kvs.map(|kv| (&*kv.key, kv.value)));
    let mut read = values.read_many(&wanted).map_err(named)?.into_iter();
    let mut value_of =
        |kv: &KvRef| if kv.value.len > 0 { read.next().unwrap_or_default() } else { Bytes::new() };

    let weight = events.clone().map(|event| weight(event, prev_kv)).sum();
    let mut bytes = BytesMut::with_capacity(weight);
    let mut ends = Vec::new();
    for event in events {
        let kv = (&event.kv, value_of(&event.kv));
        let prev = prev(event).map(|kv| (kv, value_of(kv)));
        put_event(&mut bytes, &event.kind, kv, prev);
        ends.push(bytes.len());
    }
    Ok(EncodedEvents { bytes: bytes.freeze(), ends: ends.into() })
}

fn put_event(out: &mut BytesMut, kind: &EventKind, kv: (&KvRef, Bytes), prev: Option<(&KvRef, Bytes)>) {
    let kind = match kind {
        EventKind::Put => 0,
        EventKind::Delete => 1,
    };
    let kv_len = kv_len(kv.0, &kv.1);
    let prev_len = prev.as_ref().map(|(kv, value)| self::kv_len(kv, value));
    let len = number_len(1, kind) + record_len(2, kv_len) + prev_len.map_or(0, |len| record_len(3, len));
    put_prefix(out, 11, len);
    put_number(out, 1, kind);
    put_prefix(out, 2, kv_len);
    put_kv(out, kv.0, &kv.1);
    if let (Some((kv, value)), Some(len)) = (prev, prev_len) {
        put_prefix(out, 3, len);
        put_kv(out, kv, &value);
    }
}

fn kv_numbers(kv: &KvRef) -> ([(u32, u64); 3], u64) {
    let numbers = [(2, kv.create_revision), (3, kv.mod_revision.main), (4, kv.version)];
    (numbers.map(|(field, number)| (field, number as u64)), kv.lease as u64)
}

fn kv_len(kv: &KvRef, value: &Bytes) -> usize {
    let (numbers, lease) = kv_numbers(kv);
    let numbers_len: usize = numbers.iter().map(|(field, number)| number_len(*field, *number)).sum();
    bytes_len(1, kv.key.len()) + numbers_len + bytes_len(5, value.len()) + number_len(6, lease)
}

fn put_kv(out: &mut BytesMut, kv: &KvRef, value: &Bytes) {
    let (numbers, lease) = kv_numbers(kv);
    put_bytes(out, 1, &kv.key);
    numbers.iter().for_each(|(field, number)| put_number(out, *field, *number));
    put_bytes(out, 5, value);
    put_number(out, 6, lease);
}
