//! The types that cross the store's boundary: revisions, versions of keys, events, ranges of keys.

use bytes::Bytes;

use crate::values::ValueRef;

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

/// Index and term of the entry that was applied last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppliedId {
    /// Index in the log.
    pub index: u64,
    /// Term the entry was proposed in.
    pub term: u64,
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
    /// Reference to the value; empty for a tombstone.
    pub value: ValueRef,
}

/// What one change did to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key was written; the event's `kv` is the new version.
    Put,
    /// The key was deleted; the event's `kv` has only the key and the revision of the deletion.
    Delete,
}

/// One change of one key, as watchers receive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Put or delete.
    pub kind: EventKind,
    /// The key after the change. For a deletion: key and mod revision, everything else zero.
    pub kv: KvRef,
    /// The version the change replaced, if the key lived and that version is still retained.
    pub prev: Option<KvRef>,
}

/// A half-open range of keys in the form of the API. An empty `end` means the single key `start`; `end` = `\0` means
/// all keys from `start` on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// First key.
    pub start: Bytes,
    /// First key after the range, or one of the two special values above.
    pub end: Bytes,
}
