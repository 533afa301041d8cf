//! What a walk does with the versions it finds: keep them, or only their lengths.

use bytes::Bytes;

use crate::index::Version;
use crate::types::KvRef;

/// Receives the versions that a selection finds, in the order of its walk.
pub(crate) trait RangeSink {
    /// Takes a version.
    fn push(&mut self, key: &[u8], version: &Version);

    /// The number of versions taken since the last [`clear`](Self::clear).
    fn len(&self) -> usize;

    /// Forgets the versions taken, but keeps the memory.
    fn clear(&mut self);
}

impl RangeSink for Vec<KvRef> {
    fn push(&mut self, key: &[u8], version: &Version) {
        Vec::push(self, kv_ref(Bytes::copy_from_slice(key), version));
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn clear(&mut self) {
        Vec::clear(self);
    }
}

/// A version of `key` in the form that leaves the store.
pub(crate) fn kv_ref(key: Bytes, version: &Version) -> KvRef {
    KvRef {
        key,
        create_revision: version.create,
        mod_revision: version.revision,
        version: version.version,
        lease: version.lease,
        value: version.value,
    }
}
