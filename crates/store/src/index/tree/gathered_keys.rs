//! Keys that come in order, gathered for a leaf.

use super::node::FANOUT;

/// Up to a leaf of keys in ascending order.
#[derive(Default)]
pub(crate) struct GatheredKeys {
    /// All keys, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl GatheredKeys {
    /// Adds a key, which must be above the others. There must be room.
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == FANOUT
    }

    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.len().checked_sub(1).map(|last| self.get(last))
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
