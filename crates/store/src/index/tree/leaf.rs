//! Leaves: slots in key order, searched by hints.
//!
//! A key is in its record, a cache miss away, and a binary search over 64 slots would read six records. So a leaf
//! stores the length of a prefix that all its keys share, and for each key a *hint*: the four bytes after that prefix,
//! as a big-endian number. Hints order keys as the keys do, except that equal hints decide nothing; only then records
//! are read.
//!
//! ```text
//! keys     /reg/pods/a1   /reg/pods/a2   /reg/pods/b    prefix 10 ("/reg/pods/")
//! hints    61 31 00 00    61 32 00 00    62 00 00 00
//! live     1              0              1              bits 0b101
//!
//! search /reg/pods/a2: compare the prefix with the first key, hint 61 32 00 00 -> slot 1, one record read to confirm
//! ```

use std::ops::Range;

use super::node::{FANOUT, SlotKeys};

/// Up to [`FANOUT`] slots.
pub(super) struct LeafNode {
    slots: [u32; FANOUT],
    hints: [u32; FANOUT],
    /// A bit for each slot whose key is live.
    live: u64,
    /// Leading bytes that all keys share; the keys may share more.
    prefix: u16,
    len: u8,
}

impl Default for LeafNode {
    fn default() -> LeafNode {
        LeafNode { slots: [0; FANOUT], hints: [0; FANOUT], live: 0, prefix: 0, len: 0 }
    }
}

/// The four bytes of `key` after `prefix`, as a number; missing bytes count as zero.
fn hint(key: &[u8], prefix: usize) -> u32 {
    let rest = &key[prefix.min(key.len())..];
    match rest.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => rest.iter().enumerate().fold(0, |hint, (at, byte)| hint | u32::from(*byte) << (24 - 8 * at)),
    }
}

/// How many leading bytes two keys share, up to what a leaf can store.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take(usize::from(u16::MAX)).take_while(|(a, b)| a == b).count()
}

impl LeafNode {
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn slots(&self) -> &[u32] {
        &self.slots[..self.len()]
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
    pub(super) fn search(&self, keys: &impl SlotKeys, key: &[u8]) -> Result<usize, usize> {
        let Some(first) = self.slots().first() else { return Err(0) };
        let prefix = usize::from(self.prefix);
        if prefix > 0 {
            let common = &keys.key(*first)[..prefix];
            let head = &key[..prefix.min(key.len())];
            if head != common {
                return Err(if head < common { 0 } else { self.len() });
            }
        }
        let alike = self.alike(hint(key, prefix));
        let start = alike.start;
        let within = self.slots[alike].binary_search_by(|slot| keys.key(*slot).cmp(key));
        within.map(|at| start + at).map_err(|at| start + at)
    }

    /// The positions of the keys with this hint.
    fn alike(&self, hint: u32) -> Range<usize> {
        let hints = &self.hints[..self.len()];
        let start = hints.partition_point(|other| *other < hint);
        let len = hints[start..].iter().take_while(|other| **other == hint).count();
        start..start + len
    }

    pub(super) fn insert(&mut self, keys: &impl SlotKeys, at: usize, slot: u32, live: bool) {
        self.admit(keys, slot);
        let len = self.len();
        self.slots.copy_within(at..len, at + 1);
        self.hints.copy_within(at..len, at + 1);
        self.slots[at] = slot;
        self.hints[at] = hint(keys.key(slot), usize::from(self.prefix));
        let above = self.live & !low_bits(at);
        self.live = (self.live & low_bits(at)) | above << 1 | u64::from(live) << at;
        self.len += 1;
    }

    /// Shortens the prefix, if necessary, to one that the key of `slot` shares.
    fn admit(&mut self, keys: &impl SlotKeys, slot: u32) {
        let key = keys.key(slot);
        let Some(first) = self.slots().first() else {
            self.prefix = shared(key, key) as u16;
            return;
        };
        let prefix = shared(&keys.key(*first)[..usize::from(self.prefix)], key);
        if prefix < usize::from(self.prefix) {
            self.rehint(keys, prefix);
        }
    }

    /// Extends the prefix as far as the keys allow.
    fn settle(&mut self, keys: &impl SlotKeys) {
        if let [first, .., last] = *self.slots() {
            self.rehint(keys, shared(keys.key(first), keys.key(last)));
        }
    }

    fn rehint(&mut self, keys: &impl SlotKeys, prefix: usize) {
        self.prefix = prefix as u16;
        for (hinted, slot) in self.hints.iter_mut().zip(&self.slots[..usize::from(self.len)]) {
            *hinted = hint(keys.key(*slot), prefix);
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        let len = self.len();
        self.slots.copy_within(at + 1..len, at);
        self.hints.copy_within(at + 1..len, at);
        let above = self.live & !low_bits(at + 1);
        self.live = (self.live & low_bits(at)) | above >> 1;
        self.len -= 1;
    }

    /// Splits the leaf at `at` and returns the upper part.
    pub(super) fn split_off(&mut self, keys: &impl SlotKeys, at: usize) -> LeafNode {
        let len = self.len();
        let mut upper = LeafNode::default();
        upper.slots[..len - at].copy_from_slice(&self.slots[at..len]);
        upper.hints[..len - at].copy_from_slice(&self.hints[at..len]);
        upper.len = (len - at) as u8;
        upper.prefix = self.prefix;
        if at < FANOUT {
            upper.live = self.live >> at;
        }
        self.live &= low_bits(at);
        self.len = at as u8;
        self.settle(keys);
        upper.settle(keys);
        upper
    }

    pub(super) fn append(&mut self, keys: &impl SlotKeys, upper: &LeafNode) {
        let len = self.len();
        self.slots[len..len + upper.len()].copy_from_slice(upper.slots());
        if len < FANOUT {
            self.live |= upper.live << len;
        }
        self.len += upper.len;
        self.prefix = 0;
        self.rehint(keys, 0);
        self.settle(keys);
    }

    /// A leaf of slots in key order.
    pub(super) fn built(keys: &impl SlotKeys, slots: &[u32], live: &impl Fn(u32) -> bool) -> LeafNode {
        let mut leaf = LeafNode { len: slots.len() as u8, ..LeafNode::default() };
        for (at, slot) in slots.iter().enumerate() {
            leaf.slots[at] = *slot;
            leaf.live |= u64::from(live(*slot)) << at;
        }
        match slots {
            [_] => leaf.rehint(keys, 0),
            _ => leaf.settle(keys),
        }
        leaf
    }

    /// Checks prefix and hints, and that no live bit is set after the end.
    #[cfg(test)]
    pub(super) fn check(&self, keys: &impl SlotKeys) {
        assert_eq!(self.live & !low_bits(self.len()), 0);
        let prefix = usize::from(self.prefix);
        for (slot, hinted) in self.slots().iter().zip(&self.hints) {
            assert_eq!(keys.key(*slot)[..prefix], keys.key(self.slots[0])[..prefix]);
            assert_eq!(*hinted, hint(keys.key(*slot), prefix));
        }
    }
}

/// The lowest `count` bits set.
fn low_bits(count: usize) -> u64 {
    if count >= FANOUT { u64::MAX } else { (1 << count) - 1 }
}
