//! Leaves: slots in key order, searched by hints.
//!
//! A key lies in its record, which is a cache miss away, and a binary search would look at six of them. So a
//! leaf keeps of each key the four bytes behind the prefix that all its keys share. Hints order keys as the
//! keys do, except that equal hints say nothing: only then records are looked at.

use std::ops::Range;

use super::{FANOUT, Keys};

/// See the module.
pub(super) struct Leaf {
    slots: [u32; FANOUT],
    hints: [u32; FANOUT],
    live: u64,
    /// Bytes that all keys share, perhaps not all of them.
    prefix: u16,
    len: u8,
}

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf { slots: [0; FANOUT], hints: [0; FANOUT], live: 0, prefix: 0, len: 0 }
    }
}

/// The bytes of `key` behind `prefix` as a number; what is not there counts as zero.
fn hint(key: &[u8], prefix: usize) -> u32 {
    let rest = &key[prefix.min(key.len())..];
    match rest.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => rest.iter().enumerate().fold(0, |hint, (at, byte)| hint | u32::from(*byte) << (24 - 8 * at)),
    }
}

/// How many bytes two keys share at the front, as far as a leaf can say.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take(usize::from(u16::MAX)).take_while(|(a, b)| a == b).count()
}

impl Leaf {
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

    /// Live keys among the first `at`.
    pub(super) fn live_before(&self, at: usize) -> u64 {
        u64::from((self.live & low_bits(at)).count_ones())
    }

    /// The place of `key`, or where it would be.
    pub(super) fn search(&self, keys: &impl Keys, key: &[u8]) -> Result<usize, usize> {
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

    /// The keys with this hint.
    fn alike(&self, hint: u32) -> Range<usize> {
        let hints = &self.hints[..self.len()];
        let start = hints.partition_point(|other| *other < hint);
        let len = hints[start..].iter().take_while(|other| **other == hint).count();
        start..start + len
    }

    pub(super) fn insert(&mut self, keys: &impl Keys, at: usize, slot: u32, live: bool) {
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

    /// Shortens the prefix, if need be, to one that the key of `slot` has too.
    fn admit(&mut self, keys: &impl Keys, slot: u32) {
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

    /// Makes the prefix as long as the keys allow.
    fn settle(&mut self, keys: &impl Keys) {
        if let [first, .., last] = *self.slots() {
            self.rehint(keys, shared(keys.key(first), keys.key(last)));
        }
    }

    fn rehint(&mut self, keys: &impl Keys, prefix: usize) {
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

    /// Cuts the leaf at `at` and returns the upper part.
    pub(super) fn split_off(&mut self, keys: &impl Keys, at: usize) -> Leaf {
        let len = self.len();
        let mut upper = Leaf::default();
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

    pub(super) fn append(&mut self, keys: &impl Keys, upper: &Leaf) {
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

    /// A full leaf of slots that come in order.
    pub(super) fn built(keys: &impl Keys, slots: &[u32], live: &impl Fn(u32) -> bool) -> Leaf {
        let mut leaf = Leaf { len: slots.len() as u8, ..Leaf::default() };
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

    /// Checks what the module's head says, and that no live bit lies past the end.
    #[cfg(test)]
    pub(super) fn check(&self, keys: &impl Keys) {
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
