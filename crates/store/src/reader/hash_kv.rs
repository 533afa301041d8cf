//! HashKV: etcd's own checksum over all versions, so that members, etcd and exported files can be compared.
//!
//! It hashes the bucket's name, "key", then the [versions](crate::hash) in the order of revisions. Of those at or below
//! the compact revision, only versions that are still the newest at the requested revision count, unless no key is live
//! then; tombstones of the compact revision never count.
//!
//! Three habits of etcd are kept because clients can observe them. A negative revision is answered with itself, and
//! covers nothing. At the revisions of the last ten compactions, the answer is the hash that was
//! [made](crate::state::CompactionHash) while that compaction was carried out: it still covers the versions that the
//! compaction hid, and names the compact revision before. Those hashes are kept until the process ends.

use api::Error;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
use super::versions::{CompactedVersions, VersionWalk};
use crate::hash::VersionHash;
use crate::index::KeyBounds;
use crate::range::{RangeCount, check_revision};
use crate::state::{CompactionHash, KeptHash, NEVER_COMPACTED, StateReplaced, StoreState};

/// Versions hashed in one step, in one hold of the lock.
const MAX_STEP_VERSIONS: usize = 256;

/// A HashKV in progress.
pub struct HashKvScan {
    /// The requested revision.
    asked: i64,
    work: ScanWork,
    header_revision: i64,
    revision: i64,
    compacted: i64,
}

/// What is left to do for an answer.
enum ScanWork {
    /// Nothing: it is a hash that was kept.
    Kept { reader: Reader, hash: u32 },
    /// The versions of a walk are hashed, then what follows them.
    Walk { walk: Box<VersionWalk>, hash: VersionHash, rest: VersionHash },
}

/// The answer to a HashKV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKvReply {
    /// The hash.
    pub hash: u32,
    /// The revision it covers.
    pub hash_revision: i64,
    /// The compact revision, -1 if there is none.
    pub compact_revision: i64,
    /// The newest revision when it began, for the header.
    pub revision: i64,
}

impl Reader {
    /// Begins to hash all versions up to `revision`; 0 means the newest.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn hash_kv(&self, revision: i64) -> Result<HashKvScan, Error> {
        from_the_beginning(|| self.begin_hash_kv(revision))
    }

    /// The hashes of the newest compactions, the newest first.
    pub fn kept_hashes(&self) -> Vec<KeptHash> {
        self.shared.kept_hashes.lock().newest_first()
    }

    fn begin_hash_kv(&self, asked: i64) -> Result<Result<HashKvScan, Error>, StateReplaced> {
        // As in etcd before it is looked at whether the revision is compacted. etcd answers the newest revision with
        // the hash of a compaction at 0, if it keeps one; that is not repeated.
        if let Some(kept) = self.shared.kept_hashes.lock().at(asked).filter(|_| asked > 0) {
            return Ok(Ok(self.kept_answer(asked, kept)));
        }
        let state = self.shared.state.read();
        let (header_revision, compacted) = (state.revision, state.compacted);
        let hashing = |walk, rest, revision, compacted| {
            let work = ScanWork::Walk { walk: Box::new(walk), hash: VersionHash::of(b"key"), rest };
            Ok(Ok(HashKvScan { asked, work, header_revision, revision, compacted }))
        };
        let nothing = VersionHash::default();
        if let Some(purged) = purged_hash(&state).filter(|purged| asked > 0 && purged.until == asked) {
            let pinned = PinnedRevision::new(&self.shared, &state, purged.until);
            drop(state);
            return hashing(walk_kept(self, &purged, pinned), purged.hash, asked, purged.after);
        }
        let pinned = PinnedRevision::new(&self.shared, &state, compacted);
        if asked < 0 {
            drop(state);
            let walk = VersionWalk::new(self, NEVER_COMPACTED, asked, CompactedVersions::Live, pinned);
            return hashing(walk, nothing, asked, compacted);
        }
        let revision = match check_revision(asked, header_revision, compacted) {
            Ok(revision) => revision,
            Err(error) => return Ok(Err(error)),
        };
        let mut count = RangeCount::new(&state.index, &KeyBounds::ALL, revision);
        drop(state);
        let steps = self.shared.limits.count_steps;
        let live = loop {
            if let Some(live) = count.advance(&pinned.same_state()?.index, steps) {
                break live;
            }
        };
        let old = if live == 0 { CompactedVersions::Live } else { CompactedVersions::LiveAt(revision) };
        let walk = VersionWalk::new(self, compacted, revision, old, pinned);
        hashing(walk, nothing, revision, compacted)
    }

    fn kept_answer(&self, asked: i64, kept: KeptHash) -> HashKvScan {
        HashKvScan {
            asked,
            work: ScanWork::Kept { reader: self.clone(), hash: kept.hash },
            header_revision: self.current_revision(),
            revision: kept.revision,
            compacted: kept.compact_revision,
        }
    }
}

/// The hash of the changes of the compaction that was purged last, if what it kept is still there.
fn purged_hash(state: &StoreState) -> Option<CompactionHash> {
    state.purged_hash.filter(|hash| hash.until == state.purged)
}

/// The versions up to the compaction before that are seen at a compaction. Nothing beyond it is purged.
fn walk_kept(reader: &Reader, purged: &CompactionHash, pinned: PinnedRevision) -> VersionWalk {
    let seen = CompactedVersions::LiveAt(purged.until);
    VersionWalk::new(reader, purged.after, purged.after, seen, pinned)
}

impl HashKvScan {
    /// Hashes some more versions, or looks for them, in one hold of the lock. Returns the answer once all are hashed.
    /// If a snapshot replaced the state meanwhile, everything is hashed again, in the new state.
    ///
    /// # Errors
    /// [`Error::Compacted`] when the new state was compacted beyond the revision.
    pub fn step(&mut self) -> Result<Option<HashKvReply>, Error> {
        match self.work.advance() {
            Ok(Some(hash)) => Ok(Some(HashKvReply {
                hash,
                hash_revision: self.revision,
                compact_revision: self.compacted,
                revision: self.header_revision,
            })),
            Ok(None) => Ok(None),
            Err(StateReplaced) => {
                *self = self.work.reader().hash_kv(self.asked)?;
                Ok(None)
            }
        }
    }
}

impl ScanWork {
    /// Hashes some more versions, or looks for them, in one hold of the lock. Returns the hash once all are hashed.
    fn advance(&mut self) -> Result<Option<u32>, StateReplaced> {
        match self {
            ScanWork::Kept { hash, .. } => Ok(Some(*hash)),
            ScanWork::Walk { walk, hash, rest } => {
                if walk.step(MAX_STEP_VERSIONS, &mut |key, version| hash.push(key, version))? {
                    return Ok(None);
                }
                hash.append(std::mem::take(rest));
                Ok(Some(hash.crc()))
            }
        }
    }

    fn reader(&self) -> &Reader {
        match self {
            ScanWork::Kept { reader, .. } => reader,
            ScanWork::Walk { walk, .. } => walk.reader(),
        }
    }
}

/// The hash of a compaction in progress: of the versions that it kept. Nothing more is purged while this lives.
pub struct CompactionHashScan {
    work: ScanWork,
    revision: i64,
    compact_revision: i64,
}

impl Reader {
    /// See [`Store::begin_compaction_hash`](crate::Store::begin_compaction_hash).
    pub(crate) fn begin_compaction_hash(&self, max_versions: u64) -> Option<CompactionHashScan> {
        let state = self.shared.state.read();
        let purged = purged_hash(&state)?;
        // The next compaction waits to be purged: its owner would give the hash up.
        if state.compacted > purged.until {
            return None;
        }
        if purged.unchanged_versions(state.index.live_keys()) > max_versions {
            return None;
        }
        let pinned = PinnedRevision::new(&self.shared, &state, purged.until);
        drop(state);
        let walk = Box::new(walk_kept(self, &purged, pinned));
        let work = ScanWork::Walk { walk, hash: VersionHash::of(b"key"), rest: purged.hash };
        Some(CompactionHashScan { work, revision: purged.until, compact_revision: purged.after })
    }
}

impl CompactionHashScan {
    /// The revision of the compaction.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Hashes about `max` versions more, or looks for them at about as many keys. Returns the hash once all are
    /// hashed.
    ///
    /// # Errors
    /// [`StateReplaced`]: there is no hash of this compaction any more.
    pub fn advance(&mut self, max: usize) -> Result<Option<KeptHash>, StateReplaced> {
        for _ in 0..max.div_ceil(MAX_STEP_VERSIONS) {
            if let Some(hash) = self.work.advance()? {
                let (revision, compact_revision) = (self.revision, self.compact_revision);
                return Ok(Some(KeptHash { hash, revision, compact_revision }));
            }
        }
        Ok(None)
    }
}
