//! The types that cross the store's boundary: where a value lives, one version of a key, an event.
//!
//! A value is never held here. The store keeps a [`ValueRef`] and whoever needs the bytes resolves it through
//! [`Values`], after the index lock is released.

use std::sync::Arc;

use bytes::Bytes;

/// A revision: the `main` number of the transaction and the `sub` number of the change within it.
///
/// `main` is what the API calls a revision; it starts at 1 for the empty store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// The transaction's revision.
    pub main: i64,
    /// The change's position inside the transaction, from 0.
    pub sub: u32,
}

/// Names the bytes of one value: where they lie, how long they are and what they must hash to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueRef {
    /// Opaque to the store; the log knows it as file and offset.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
    /// CRC-32C of the value's bytes, checked by every read.
    pub checksum: u32,
}

/// One version of one key, without its value's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvRef {
    /// The key.
    pub key: Bytes,
    /// `main` of the revision that created this generation of the key.
    pub create_revision: i64,
    /// The revision of this version.
    pub mod_revision: Revision,
    /// Version within the generation, from 1.
    pub version: i64,
    /// Lease the version is attached to, 0 for none.
    pub lease: i64,
    /// Where the value is.
    pub value: ValueRef,
}

/// What one change did to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key was written; the event's `kv` is the new version.
    Put,
    /// The key was deleted; the event's `kv` has the key and the revision of the delete alone.
    Delete,
}

/// One change of one key, as watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Put or delete.
    pub kind: EventKind,
    /// The key after the change (for a delete: key and mod revision, the rest zero).
    pub kv: KvRef,
    /// The version the change replaced, if the key lived and that version is still retained.
    pub prev: Option<KvRef>,
}

/// A value could not be read back intact; it must be fetched from a peer before it can be served.
#[derive(Clone, Debug, thiserror::Error)]
#[error("value at place {address:#x} ({len} bytes) is damaged: {reason}")]
pub struct Damaged {
    /// The reference's place.
    pub address: u64,
    /// The reference's length.
    pub len: u32,
    /// What was found: checksum mismatch, short read, read error.
    pub reason: Arc<str>,
}

/// A value that is wanted, and the room its bytes are to fill exactly.
#[derive(Debug)]
pub struct ValueSlot<'a> {
    /// The value; never an empty one.
    pub value: ValueRef,
    /// As many bytes as the value has.
    pub into: &'a mut [u8],
}

/// How values are read, which decides whether they are worth keeping in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For an answer of bounded length, which may well be asked for again.
    Query,
    /// For a part of a long list.
    Scan,
}

/// Where values live. `member` implements it over the log; tests implement it over a map.
///
/// An empty value has no place: its reference is [`ValueRef::default`], and nothing here is called for it.
pub trait Values: Send + Sync {
    /// Reads and checks one value.
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged>;

    /// Reads and checks several values, in the order asked; neighbours may be read together.
    fn read_many(&self, values: &[ValueRef]) -> Result<Vec<Bytes>, Damaged> {
        values.iter().map(|value| self.read(value)).collect()
    }

    /// Reads and checks several values to where they are wanted. The order of `slots` may change, and neighbours may be
    /// read together.
    fn read_into(&self, slots: &mut [ValueSlot<'_>], _: Access) -> Result<(), Damaged> {
        slots.iter_mut().try_for_each(|slot| {
            slot.into.copy_from_slice(&self.read(&slot.value)?);
            Ok(())
        })
    }

    /// The index took a reference to this value (also again, for a version that keeps an older one's value).
    fn retain(&self, value: &ValueRef);

    /// The index took references to all these values: it was restored.
    fn retain_all(&self, values: &mut dyn Iterator<Item = ValueRef>) {
        values.for_each(|value| self.retain(&value));
    }

    /// The index dropped a reference that it had retained.
    fn release(&self, value: &ValueRef);
}

/// A half-open range of keys, as requests name it: `end` empty = the one key, `end` = `\0` = all keys from
/// `start`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// First key.
    pub start: Bytes,
    /// First key past the range; see the type for the two special values.
    pub end: Bytes,
}

/// Reading the past: what a watcher that starts or falls behind catches up from. The MVCC reader implements
/// it.
pub trait History: Send + Sync {
    /// The newest applied revision.
    fn current_revision(&self) -> i64;

    /// The revision history was compacted at; 0 when it never was. Reading *at* it is allowed.
    fn compact_revision(&self) -> i64;

    /// Events in `range` with `from <= main`, in (main, sub) order, whole transactions only, until about
    /// `max_events` were collected (at least one transaction's worth when there is any) or `max_steps`
    /// revisions were looked at. Returns the events and the first main revision that was *not* looked at.
    ///
    /// # Errors
    /// [`Compacted`] when `from` is below the compact revision.
    fn events(
        &self,
        range: &KeyRange,
        from: i64,
        max_events: usize,
        max_steps: usize,
    ) -> Result<(Vec<Event>, i64), Compacted>;
}

/// The asked revision has been compacted; `at` is the compact revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("required revision has been compacted at {at}")]
pub struct Compacted {
    /// The store's compact revision.
    pub at: i64,
}
