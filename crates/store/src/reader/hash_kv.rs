//! HashKV: etcd's own checksum over all versions, so that members, etcd and exported files can be compared.
//!
//! It hashes the bucket's name, "key", then the [versions](crate::hash) in the order of revisions. Of those at or below
//! the compact revision, only versions that are still the newest at the requested revision count, unless no key is live
//! then; tombstones of the compact revision never count.
//!
//! Three habits of etcd are kept because clients can observe them. A negative revision is answered with itself, and
//! covers nothing. At the compact revision, the answer is the hash that was [kept](crate::state::CompactionHash) while
//! that compaction was carried out: it still covers the versions that the compaction hid, and names the compact
//! revision before. That hash is kept until the process ends.

use api::Error;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
use super::versions::{CompactedVersions, VersionWalk};
use crate::hash::VersionHash;
use crate::index::KeyBounds;
use crate::range::{RangeCount, check_revision};
use crate::state::{NEVER_COMPACTED, StateReplaced, StoreState};

/// Versions hashed in one step.
const MAX_STEP_VERSIONS: usize = 256;

/// A HashKV in progress.
pub struct HashKvScan {
    /// The requested revision.
    asked: i64,
    walk: VersionWalk,
    hash: VersionHash,
    /// The hash of what follows the versions of the walk.
    rest: VersionHash,
    header_revision: i64,
    revision: i64,
    compacted: i64,
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

    fn begin_hash_kv(&self, asked: i64) -> Result<Result<HashKvScan, Error>, StateReplaced> {
        let state = self.shared.state.read();
        let (header_revision, compacted) = (state.revision, state.compacted);
        let pinned = PinnedRevision::new(&self.shared, &state, compacted);
        let hashing = |walk, rest, revision, compacted| {
            let hash = VersionHash::of(b"key");
            Ok(Ok(HashKvScan { asked, walk, hash, rest, header_revision, revision, compacted }))
        };
        let nothing = VersionHash::default();
        if asked < 0 {
            drop(state);
            let walk = VersionWalk::new(self, NEVER_COMPACTED, asked, CompactedVersions::Live, pinned)?;
            return hashing(walk, nothing, asked, compacted);
        }
        let revision = match check_revision(asked, header_revision, compacted) {
            Ok(revision) => revision,
            Err(error) => return Ok(Err(error)),
        };
        if let Some((before, rest)) = kept_hash(&state, asked) {
            drop(state);
            let walk = VersionWalk::new(self, before, before, CompactedVersions::LiveAt(revision), pinned)?;
            return hashing(walk, rest, revision, before);
        }
        let mut count = RangeCount::new(&state.index, &KeyBounds::ALL, revision);
        drop(state);
        let steps = self.shared.limits.count_steps;
        let live = loop {
            if let Some(live) = count.advance(&pinned.same_state()?.index, steps) {
                break live;
            }
        };
        let old = if live == 0 { CompactedVersions::Live } else { CompactedVersions::LiveAt(revision) };
        let walk = VersionWalk::new(self, compacted, revision, old, pinned)?;
        hashing(walk, nothing, revision, compacted)
    }
}

/// The compact revision before `asked`, and the hash of the changes between the two, if it was kept.
fn kept_hash(state: &StoreState, asked: i64) -> Option<(i64, VersionHash)> {
    let note = state.compaction_hash.as_ref()?;
    (asked > 0 && note.until == asked && state.purged == asked).then_some((note.after, note.hash))
}

impl HashKvScan {
    /// Hashes some more versions. Returns the answer once all are hashed. If a snapshot replaced the state meanwhile,
    /// everything is hashed again, in the new state.
    ///
    /// # Errors
    /// [`Error::Compacted`] when the new state was compacted beyond the revision.
    pub fn step(&mut self) -> Result<Option<HashKvReply>, Error> {
        let hash = &mut self.hash;
        match self.walk.visit_chunk(MAX_STEP_VERSIONS, |key, version| hash.push(key, version)) {
            Ok(true) => return Ok(None),
            Ok(false) => {}
            Err(StateReplaced) => {
                *self = self.walk.reader().hash_kv(self.asked)?;
                return Ok(None);
            }
        }
        self.hash.append(std::mem::take(&mut self.rest));
        Ok(Some(HashKvReply {
            hash: self.hash.crc(),
            hash_revision: self.revision,
            compact_revision: self.compacted,
            revision: self.header_revision,
        }))
    }
}
