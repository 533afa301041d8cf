//! The hash of the changes between two compactions, which HashKV at the compact revision needs.
//!
//! etcd answers HashKV *at* the compact revision C with a hash that still covers what the compaction at C hid. Those
//! versions are purged here, so their hash is computed while purging walks over them, and kept until the next
//! compaction. See [`crate::reader`] for the answer.

use crate::hash::VersionHash;
use crate::index::KeyIndex;
use crate::types::Revision;

/// The hash of all changes in `after < main <= until`, in the order of revisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionHash {
    /// The compact revision before.
    pub(crate) after: i64,
    /// The compact revision.
    pub(crate) until: i64,
    /// Complete when purging has reached `until`.
    pub(crate) hash: VersionHash,
}

impl CompactionHash {
    /// Begins the hash of a compaction at `until`. As in etcd there is none while the compaction before, at `after`, is
    /// still being carried out, that is, while `purged` is below it.
    pub(crate) fn begin(purged: i64, after: i64, until: i64) -> Option<CompactionHash> {
        assert!(purged <= after && after < until, "purged <= compacted < the new compact revision");
        (purged == after).then_some(CompactionHash { after, until, hash: VersionHash::default() })
    }

    /// Adds the version that `revision` gave to the key in `slot`. Returns whether that version is still there: a
    /// restored revision log may lack it, and then there is no hash.
    pub(crate) fn add(&mut self, index: &KeyIndex, revision: Revision, slot: Option<u32>) -> bool {
        match slot.and_then(|slot| Some((slot, index.at_slot(slot).version_exactly(revision)?.0))) {
            Some((slot, version)) => {
                self.hash.push(&index.key(slot), &version);
                true
            }
            None => false,
        }
    }
}
