//! The frames of keys: which versions of a key a checkpoint holds, and how many keys fit into a frame.

use std::ops::ControlFlow;

use super::codec::{put_key, put_number, put_version};
use crate::index::{IndexKey, KeyRecord, Version};
use crate::types::Revision;

/// A frame of keys that is being filled.
pub(super) struct KeysChunk {
    pub(super) body: Vec<u8>,
    /// The key before, whose prefix the next key may share.
    pub(super) before: IndexKey,
    /// Versions above this revision are wanted; a base has `i64::MIN`.
    pub(super) above: i64,
    /// Versions after this revision are not wanted.
    pub(super) until: Revision,
    pub(super) max_bytes: usize,
    /// Keys in the frame.
    pub(super) keys: u64,
}

impl KeysChunk {
    /// Whether the frame has reached its size.
    pub(super) fn is_full(&self) -> bool {
        self.body.len() >= self.max_bytes
    }

    /// Adds the wanted versions of a key. Breaks if the frame is full; the walk then returns to this key.
    pub(super) fn add(&mut self, key: &[u8], record: &KeyRecord) -> ControlFlow<()> {
        if self.is_full() {
            return ControlFlow::Break(());
        }
        let wanted =
            |version: &Version| version.revision.main > self.above.max(0) && version.revision <= self.until;
        let count = record.versions().filter(wanted).count();
        if count == 0 {
            return ControlFlow::Continue(());
        }
        assert!(self.keys == 0 || self.before.as_slice() < key, "keys ascend in a frame");
        put_key(&mut self.body, self.before.as_slice(), key);
        // Purging drops the oldest versions first. If it passed the baseline, these are all versions of the key.
        let whole = count == record.versions().filter(|version| version.revision <= self.until).count();
        put_number(&mut self.body, (count as u64) << 1 | u64::from(whole));
        for version in record.versions().filter(wanted) {
            put_version(&mut self.body, &version);
        }
        self.before = IndexKey::new(key);
        self.keys += 1;
        ControlFlow::Continue(())
    }
}
