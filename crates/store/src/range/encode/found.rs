//! Sources of key-values: versions found in the index, or only their lengths; and those of a finished reply.

use super::key_value::{KeyValueFields, KeyValueSource};
use crate::index::Version;
use crate::range::sink::RangeSink;
use crate::types::KvRef;
use crate::values::ValueRef;

/// Versions found in the index, without an allocation for each.
#[derive(Default)]
pub(crate) struct FoundVersions {
    keys: Vec<u8>,
    /// Each with the end of its key in `keys`.
    versions: Vec<(usize, Version)>,
    keys_only: bool,
}

impl FoundVersions {
    /// No versions; with `keys_only`, values and leases will be omitted.
    pub(crate) fn new(keys_only: bool) -> FoundVersions {
        FoundVersions { keys_only, ..FoundVersions::default() }
    }

    /// The last key, if there is any.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        let last = self.versions.len().checked_sub(1)?;
        let start = last.checked_sub(1).map_or(0, |before| self.versions[before].0);
        Some(&self.keys[start..self.versions[last].0])
    }

    /// Keeps the first `count` versions.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.versions.truncate(count);
    }
}

impl RangeSink for FoundVersions {
    #[inline]
    fn push(&mut self, key: &[u8], version: &Version) {
        self.keys.extend_from_slice(key);
        self.versions.push((self.keys.len(), *version));
    }

    fn len(&self) -> usize {
        self.versions.len()
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.versions.clear();
    }
}

impl KeyValueSource for FoundVersions {
    fn count(&self) -> usize {
        self.versions.len()
    }

    fn item(&self, at: usize) -> KeyValueFields<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.versions[before].0);
        let (end, version) = &self.versions[at];
        KeyValueFields::of(&self.keys[start..*end], version, self.keys_only)
    }
}

/// The encoded lengths of versions, for a range with too many to keep them.
pub(crate) struct FoundLengths {
    keys_only: bool,
    count: usize,
    bytes: usize,
    /// Length of the last one.
    last: usize,
}

impl FoundLengths {
    /// No versions; with `keys_only`, values and leases will be omitted.
    pub(crate) fn new(keys_only: bool) -> FoundLengths {
        FoundLengths { keys_only, count: 0, bytes: 0, last: 0 }
    }

    /// Bytes that the first `count` versions take in a response. At most one more was found.
    pub(crate) fn of_first(&self, count: usize) -> usize {
        assert!(self.count <= count.saturating_add(1), "a walk stops one key after the limit");
        self.bytes - if self.count > count { self.last } else { 0 }
    }
}

impl RangeSink for FoundLengths {
    #[inline]
    fn push(&mut self, key: &[u8], version: &Version) {
        self.last = KeyValueFields::of(key, version, self.keys_only).field_len();
        self.count += 1;
        self.bytes += self.last;
    }

    fn len(&self) -> usize {
        self.count
    }

    fn clear(&mut self) {
        *self = FoundLengths::new(self.keys_only);
    }
}

/// The versions of a finished reply.
pub(crate) struct ReplyKeyValues<'a> {
    pub(crate) kvs: &'a [KvRef],
    pub(crate) keys_only: bool,
}

impl KeyValueSource for ReplyKeyValues<'_> {
    fn count(&self) -> usize {
        self.kvs.len()
    }

    fn item(&self, at: usize) -> KeyValueFields<'_> {
        let kv = &self.kvs[at];
        KeyValueFields {
            key: &kv.key,
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision.main,
            version: kv.version,
            lease: kv.lease,
            value: if self.keys_only { ValueRef::default() } else { kv.value },
        }
    }
}
