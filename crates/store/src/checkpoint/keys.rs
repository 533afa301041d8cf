//! The frames of keys: which versions of a key a checkpoint holds, and how many keys fit into a frame.
//!
//! A frame is filled in one or more holds of the lock. The entry of a key begins with the number of its versions, so a
//! key belongs to one frame; but one with a long history is copied in several holds:
//!
//! ```text
//! hold 1   a: 2 versions    b: 5,000 versions, 998 of them copied
//! hold 2                    b: the next 1,000
//! ...                       b: the rest    c: 1 version
//! ```
//!
//! The number of wanted versions does not change in between: later ones have a higher revision, and nothing is purged.

use std::ops::ControlFlow;

use super::codec::{put_key, put_number, put_version};
use crate::index::{IndexKey, KeyIndex, KeyRecord};
use crate::types::Revision;

/// Versions copied in one hold of the lock: some tens of microseconds.
pub(super) const MAX_HELD_VERSIONS: usize = 1_000;

/// Bytes of the keys of a frame, each with all its bytes, after which the frame is full. Keys that share a long
/// beginning take few bytes in a frame, and many where it is read.
pub(super) const MAX_FRAME_KEY_BYTES: usize = 1 << 20;

/// A frame of keys that is being filled.
pub(super) struct KeysChunk {
    pub(super) body: Vec<u8>,
    /// The key before, whose prefix the next key may share.
    before: IndexKey,
    /// Versions above this revision are wanted; a base has `i64::MIN`.
    above: i64,
    /// Versions after this revision are not wanted.
    until: Revision,
    max_bytes: usize,
    /// Keys in the frame.
    pub(super) keys: u64,
    /// Bytes of the keys in the frame.
    key_bytes: usize,
    /// The last key, if versions of it are missing: its newest one so far.
    unfinished: Option<Revision>,
    /// Versions that may still be copied in this hold of the lock.
    held_left: usize,
}

impl KeysChunk {
    /// An empty frame.
    pub(super) fn new(above: i64, until: Revision, max_bytes: usize) -> KeysChunk {
        KeysChunk {
            body: Vec::with_capacity(max_bytes + 1024),
            before: IndexKey::default(),
            above,
            until,
            max_bytes,
            keys: 0,
            key_bytes: 0,
            unfinished: None,
            held_left: MAX_HELD_VERSIONS,
        }
    }

    /// Whether the frame has reached its size.
    fn is_full(&self) -> bool {
        self.body.len() >= self.max_bytes || self.key_bytes >= MAX_FRAME_KEY_BYTES
    }

    /// Whether versions of the last key are missing.
    pub(super) fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Begins another hold of the lock.
    pub(super) fn begin_hold(&mut self) {
        self.held_left = MAX_HELD_VERSIONS;
    }

    /// Goes on with the last key in another hold of the lock.
    pub(super) fn go_on(&mut self, index: &KeyIndex) {
        self.begin_hold();
        if let Some(after) = self.unfinished {
            let record = index.record(self.before.as_slice()).expect("what is not purged keeps its key");
            self.add_versions(record, after);
        }
    }

    /// Adds the wanted versions of a key. Breaks if the frame is full, or the lock was held for long; the walk then
    /// returns to this key.
    pub(super) fn add(&mut self, key: &[u8], record: &KeyRecord) -> ControlFlow<()> {
        if self.is_full() || self.held_left == 0 || self.is_unfinished() {
            return ControlFlow::Break(());
        }
        let above = Revision { main: self.above.max(0), sub: u32::MAX };
        let until = record.versions_until(self.until);
        let count = until - record.versions_until(above).min(until);
        if count == 0 {
            self.held_left -= 1;
            return ControlFlow::Continue(());
        }
        assert!(self.keys == 0 || self.before.as_slice() < key, "keys ascend in a frame");
        put_key(&mut self.body, self.before.as_slice(), key);
        // Purging drops the oldest versions first. If it passed the baseline, these are all versions of the key.
        let whole = count == until;
        put_number(&mut self.body, (count as u64) << 1 | u64::from(whole));
        self.before = IndexKey::new(key);
        self.keys += 1;
        self.key_bytes += key.len();
        self.add_versions(record, above);
        ControlFlow::Continue(())
    }

    /// Adds the versions of the last key that follow `after`, as many as this hold of the lock may copy.
    fn add_versions(&mut self, record: &KeyRecord, after: Revision) {
        let (seen, until) = (record.versions_until(after), record.versions_until(self.until));
        let added = (until - seen).min(self.held_left);
        let mut newest = after;
        for version in record.versions().skip(seen).take(added) {
            put_version(&mut self.body, &version);
            newest = version.revision;
        }
        self.held_left -= added;
        self.unfinished = (seen + added < until).then_some(newest);
    }
}
