//! Leaves: slots in key order, with their keys and with what is live.

use std::cmp::Ordering;

use super::gathered_keys::GatheredKeys;
use super::leaf_keys::{KeyCursor, LeafKeys, insert_bit, low_bits, remove_bit, split_bits};
use super::node::FANOUT;
use crate::index::key_bytes::KeyBytes;

/// Up to [`FANOUT`] slots.
pub(super) struct LeafNode {
    slots: [u32; FANOUT],
    /// A bit for each slot whose key is live.
    live: u64,
    keys: LeafKeys,
}

impl Default for LeafNode {
    fn default() -> LeafNode {
        LeafNode { slots: [0; FANOUT], live: 0, keys: LeafKeys::default() }
    }
}

/// Memory of a full leaf for each key, besides the bytes of the keys.
pub(super) const LEAF_BYTES: usize = size_of::<LeafNode>();

const _: () = assert!(LEAF_BYTES <= 656, "a full leaf takes little more than ten bytes a key");

impl LeafNode {
    /// A leaf of these keys, all live, whose slots ascend from `slot` on.
    pub(super) fn of(keys: &GatheredKeys, slot: u32) -> LeafNode {
        let mut slots = [0; FANOUT];
        slots[..keys.len()].iter_mut().zip(slot..).for_each(|(at, slot)| *at = slot);
        LeafNode { slots, live: low_bits(keys.len()), keys: LeafKeys::of(keys) }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn slots(&self) -> &[u32] {
        &self.slots[..self.len()]
    }

    /// The key at `at`.
    pub(super) fn key(&self, at: usize) -> KeyBytes<'_> {
        self.keys.get(at)
    }

    /// The keys from position `at` on.
    pub(super) fn cursor(&self, at: usize) -> KeyCursor<'_> {
        self.keys.cursor(at)
    }

    /// Compares the key at `at` with another.
    pub(super) fn compare(&self, at: usize, key: &[u8]) -> Ordering {
        self.keys.compare(at, key)
    }

    /// The length of the key at `at`.
    pub(super) fn key_len(&self, at: usize) -> usize {
        self.keys.key_len(at)
    }

    /// The position of `slot`, which must be here.
    pub(super) fn position_of(&self, slot: u32) -> usize {
        // Compared in groups without a branch between them. Behind the end old slots may stand, but they come later.
        let is_here = |slots: &[u32]| slots.iter().fold(false, |here, other| here | (*other == slot));
        let group = self.slots.chunks(8).position(is_here);
        let start = 8 * group.expect("a valid slot is in the leaf that the tree notes for it");
        let within = self.slots[start..].iter().position(|other| *other == slot);
        start + within.expect("it is in this group")
    }

    pub(super) fn is_live(&self, at: usize) -> bool {
        self.live >> at & 1 == 1
    }

    /// Flips whether the key at `at` is live.
    pub(super) fn flip(&mut self, at: usize) {
        self.live ^= 1 << at;
    }

    pub(super) fn live_count(&self) -> u64 {
        u64::from(self.live.count_ones())
    }

    /// The position of the first live key at `at` or after.
    pub(super) fn first_live_from(&self, at: usize) -> Option<usize> {
        let live = self.live & !low_bits(at);
        (live != 0).then(|| live.trailing_zeros() as usize)
    }

    /// Live keys among the first `at`.
    pub(super) fn live_before(&self, at: usize) -> u64 {
        u64::from((self.live & low_bits(at)).count_ones())
    }

    /// The position of `key`, or where it would be inserted.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.keys.search(key)
    }

    pub(super) fn insert(&mut self, at: usize, key: &[u8], slot: u32, live: bool) {
        let len = self.len();
        self.slots.copy_within(at..len, at + 1);
        self.slots[at] = slot;
        insert_bit(&mut self.live, at, live);
        self.keys.insert(at, key);
    }

    pub(super) fn remove(&mut self, at: usize) {
        let len = self.len();
        self.slots.copy_within(at + 1..len, at);
        remove_bit(&mut self.live, at);
        self.keys.remove(at);
    }

    /// Splits the leaf at `at` and returns the upper part.
    pub(super) fn split_off(&mut self, at: usize) -> LeafNode {
        let mut upper = LeafNode::default();
        let len = self.len();
        upper.slots[..len - at].copy_from_slice(&self.slots[at..len]);
        upper.live = split_bits(&mut self.live, at);
        upper.keys = self.keys.split_off(at);
        upper
    }

    /// Adds the entries of the next leaf.
    pub(super) fn append(&mut self, upper: LeafNode) {
        let len = self.len();
        self.slots[len..len + upper.len()].copy_from_slice(upper.slots());
        if len < FANOUT {
            self.live |= upper.live << len;
        }
        self.keys.append(upper.keys);
    }

    /// Bytes of memory taken besides this value.
    pub(super) fn heap_bytes(&self) -> usize {
        self.keys.heap_bytes()
    }

    /// Checks the keys, and that no live bit is set after the end.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.live & !low_bits(self.len()), 0);
        self.keys.check();
    }
}
