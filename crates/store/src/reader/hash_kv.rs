//! HashKV: etcd's own checksum over all versions, so that members, real etcd and exported files can be
//! compared.
//!
//! It begins with the bucket's name, "key"; then come the [versions](crate::version_hash) in the order of
//! revisions. Of what lies at or below the compact revision, only versions that are still the newest at the
//! asked revision count, unless no key lives then; tombstones of the compact revision never count.
//!
//! Three of etcd's habits are kept because clients can see them. A negative revision is answered as it was
//! asked, and covers nothing. At the compact revision itself, the answer is the one
//! [noted](crate::purge::CompactionHash) while that compaction was carried out: it still covers what the
//! compaction put out of reach, and names the compact revision before it. That note lasts until the process
//! ends.

use api::Error;

use super::Reader;
use super::versions::{Old, VersionWalk};
use crate::index::tree::Bounds;
use crate::range::check_revision;
use crate::range::count::Count;
use crate::state::{NEVER_COMPACTED, State};
use crate::version_hash::VersionHash;

/// Versions hashed in one step, about.
const STEP_VERSIONS: usize = 256;

/// A HashKV being computed.
pub struct HashKv {
    walk: VersionWalk,
    hash: VersionHash,
    /// What comes behind the versions of the walk.
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
    /// Starts to hash all versions up to `revision`; 0 is the newest.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn hash_kv(&self, revision: i64) -> Result<HashKv, Error> {
        let state = self.shared.state.read();
        let (header_revision, compacted) = (state.revision, state.compacted);
        let pin = self.shared.pin(compacted);
        let hashing = |walk, rest, revision, compacted| {
            let hash = VersionHash::of(b"key");
            Ok(HashKv { walk, hash, rest, header_revision, revision, compacted })
        };
        let nothing = VersionHash::default();
        if revision < 0 {
            drop(state);
            let walk = VersionWalk::new(self, NEVER_COMPACTED, revision, Old::Live, pin);
            return hashing(walk, nothing, revision, compacted);
        }
        let asked = revision;
        let revision = check_revision(asked, header_revision, compacted)?;
        if let Some((before, rest)) = noted(&state, asked) {
            drop(state);
            let walk = VersionWalk::new(self, before, before, Old::LiveAt(revision), pin);
            return hashing(walk, rest, revision, before);
        }
        let mut count = Count::new(&state.index, &Bounds::ALL, revision, header_revision);
        drop(state);
        let steps = self.shared.limits.count_steps;
        let live = loop {
            if let Some(live) = count.advance(&self.shared.state.read().index, steps) {
                break live;
            }
        };
        let old = if live == 0 { Old::Live } else { Old::LiveAt(revision) };
        let walk = VersionWalk::new(self, compacted, revision, old, pin);
        hashing(walk, nothing, revision, compacted)
    }
}

/// The compact revision before `asked` and the hash of what lies between the two, if that was noted.
fn noted(state: &State, asked: i64) -> Option<(i64, VersionHash)> {
    let note = state.compaction_hash.as_ref()?;
    (asked > 0 && note.until == asked && state.purged == asked).then_some((note.after, note.hash))
}

impl HashKv {
    /// Hashes some more versions; `None` while there are more.
    pub fn step(&mut self) -> Option<HashKvReply> {
        let hash = &mut self.hash;
        if self.walk.visit_chunk(STEP_VERSIONS, |key, version| hash.push(key, version)) {
            return None;
        }
        self.hash.append(std::mem::take(&mut self.rest));
        Some(HashKvReply {
            hash: self.hash.crc(),
            hash_revision: self.revision,
            compact_revision: self.compacted,
            revision: self.header_revision,
        })
    }
}
