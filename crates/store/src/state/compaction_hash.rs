//! The hashes of compactions, which HashKV at their revisions answers with.
//!
//! etcd answers HashKV *at* the compact revision C with a hash that still covers what the compaction at C hid, and
//! remembers it for its last ten compactions. It covers two kinds of versions, and comes in two steps:
//!
//! ```text
//! compacted at 40, now at 90
//!   purging walks 41 .. 90                    hash of the changes, as it drops what they supersede
//!   purged up to 90: the changes are hashed   a walk hashes the versions up to 40 that 90 still sees
//!   both together                             the hash of the compaction, kept for HashKV at 90
//! ```
//!
//! The second step walks the whole index, once for each million versions that it hashes. So background jobs take it,
//! while nothing more is purged ([`Store::begin_compaction_hash`](crate::Store::begin_compaction_hash)). A HashKV
//! that comes earlier takes it by itself. If the next purge comes first, because nothing waits for the job, the hash
//! is given up. The caller also gives it up when the next compaction waits, and does not begin it when it would
//! take several walks: freeing space matters more than a hash that may never be requested.

use crate::hash::VersionHash;
use crate::index::KeyIndex;
use crate::types::Revision;

/// Compactions whose hashes are kept, as in etcd (`hashStorageMaxSize`).
pub const MAX_KEPT_HASHES: usize = 10;

/// The hash of a compaction: what HashKV at its revision answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptHash {
    /// The hash.
    pub hash: u32,
    /// The revision that was compacted.
    pub revision: i64,
    /// The compact revision before, -1 if there was none.
    pub compact_revision: i64,
}

/// The hashes of the newest compactions. They outlive a state that a snapshot replaces, and end with the process.
#[derive(Debug, Default)]
pub(crate) struct KeptHashes {
    /// By revision, ascending.
    hashes: Vec<KeptHash>,
}

impl KeptHashes {
    /// Keeps the hash of a compaction, and forgets the oldest if there are more than [`MAX_KEPT_HASHES`].
    pub(crate) fn keep(&mut self, hash: KeptHash) {
        self.hashes.retain(|kept| kept.revision != hash.revision);
        self.hashes.push(hash);
        self.hashes.sort_by_key(|kept| kept.revision);
        if self.hashes.len() > MAX_KEPT_HASHES {
            self.hashes.remove(0);
        }
    }

    /// The hash of the compaction at `revision`.
    pub(crate) fn at(&self, revision: i64) -> Option<KeptHash> {
        self.hashes.iter().copied().find(|kept| kept.revision == revision)
    }

    /// All of them, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<KeptHash> {
        self.hashes.iter().rev().copied().collect()
    }
}

/// The hash of all changes in `after < main <= until`, in the order of revisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionHash {
    /// The compact revision before.
    pub(crate) after: i64,
    /// The compact revision.
    pub(crate) until: i64,
    /// Complete when purging has reached `until`.
    pub(crate) hash: VersionHash,
    /// Changes in `hash`.
    changes: u64,
}

impl CompactionHash {
    /// Begins the hash of a compaction at `until`. As in etcd there is none while the compaction before, at `after`, is
    /// still being carried out, that is, while `purged` is below it.
    pub(crate) fn begin(purged: i64, after: i64, until: i64) -> Option<CompactionHash> {
        assert!(purged <= after && after < until, "purged <= compacted < the new compact revision");
        (purged == after).then_some(CompactionHash { after, until, hash: VersionHash::default(), changes: 0 })
    }

    /// Adds the version that `revision` gave to the key in `slot`. Returns whether that version is still there: a
    /// restored revision log may lack it, and then there is no hash.
    pub(crate) fn add(&mut self, index: &KeyIndex, revision: Revision, slot: Option<u32>) -> bool {
        match slot.and_then(|slot| Some((slot, index.at_slot(slot).version_exactly(revision)?.0))) {
            Some((slot, version)) => {
                self.hash.push(&index.key(slot), &version);
                self.changes += 1;
                true
            }
            None => false,
        }
    }

    /// An estimate of the versions that the second step hashes, from the number of live keys. Each change accounts for
    /// one key at most, so the estimate is low if keys were changed several times or deleted since.
    pub(crate) fn unchanged_versions(&self, live_keys: u64) -> u64 {
        live_keys.saturating_sub(self.changes)
    }
}
