//! The keys of a leaf: a prefix that all of them share, then of each what follows.
//!
//! Neighbours in key order have long beginnings in common. The leaf stores the beginning that all its keys share once.
//! The four bytes after it are the *hint* of a key, a big-endian number. Hints order keys as the keys do, except that
//! equal hints decide nothing; so a search reads them first, one after the other in memory. What is left of a key is
//! its *suffix*. The suffixes lie behind the prefix in one block, in key order and without gaps:
//!
//! ```text
//! keys     /reg/pods/a1   /reg/pods/a2-web   /reg/pods/b     prefix 10 ("/reg/pods/")
//! hints    61 31 00 00    61 32 2d 77        62 00 00 00
//! rests    2              6                  1               bytes of each key after the prefix
//! block    /reg/pods/ eb                                     the prefix, then the only suffix, "eb" of "a2-web"
//!
//! search /reg/pods/a2-web: compare the prefix, then the hint 61 32 2d 77 -> position 1, then its suffix to confirm
//! ```
//!
//! So a key of eight bytes among its like takes five bytes here. A key of more than [`MAX_SHORT_BYTES`] has a block of
//! its own with all its bytes: another prefix does not change it, and the suffixes of a leaf, which an insertion may
//! move, stay below 16 KiB.

use std::cmp::Ordering;
use std::ops::Range;

use super::gathered_keys::GatheredKeys;
use super::node::FANOUT;
use crate::index::key_bytes::{HINT_BYTES, JoinedKey, KeyBytes, MAX_SHORT_BYTES};
use crate::memory::block_bytes;

/// Up to [`FANOUT`] keys by position, in strictly ascending order.
pub(super) struct LeafKeys {
    hints: [u32; FANOUT],
    /// Bytes of each key after the prefix; 0 for a long one.
    rests: [u8; FANOUT],
    /// A bit for each key that is long: it has a block of its own.
    long: u64,
    /// The long keys, in key order.
    long_keys: Vec<Box<[u8]>>,
    /// The prefix, then the suffixes.
    block: Vec<u8>,
    /// Leading bytes that all keys share; the keys may share more.
    prefix: u8,
    len: u8,
}

impl Default for LeafKeys {
    fn default() -> LeafKeys {
        LeafKeys {
            hints: [0; FANOUT],
            rests: [0; FANOUT],
            long: 0,
            long_keys: Vec::new(),
            block: Vec::new(),
            prefix: 0,
            len: 0,
        }
    }
}

/// Keys in order, each put together in the place of the one before.
pub(super) struct KeyCursor<'a> {
    keys: &'a LeafKeys,
    at: usize,
    /// Where the next suffix begins in the block.
    next_suffix: usize,
    key: JoinedKey,
}

impl KeyCursor<'_> {
    /// The next key, which must exist.
    #[inline]
    pub(super) fn next(&mut self) -> &[u8] {
        let (keys, at) = (self.keys, self.at);
        self.at += 1;
        if keys.is_long(at) {
            return &keys.long_keys[keys.long_before(at)];
        }
        let (prefix, end) = (usize::from(keys.prefix), self.next_suffix + keys.suffix_len(at));
        let suffix = &keys.block[self.next_suffix..end];
        self.next_suffix = end;
        self.key.follow(prefix, keys.hints[at], suffix, prefix + usize::from(keys.rests[at]));
        self.key.as_slice()
    }
}

/// The four bytes of `key` after `prefix`, as a number; missing bytes count as zero.
fn hint(key: &[u8], prefix: usize) -> u32 {
    let rest = &key[prefix.min(key.len())..];
    match rest.first_chunk::<HINT_BYTES>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => rest.iter().enumerate().fold(0, |hint, (at, byte)| hint | u32::from(*byte) << (24 - 8 * at)),
    }
}

/// How many leading bytes two keys share, up to the longest prefix.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take(MAX_SHORT_BYTES).take_while(|(a, b)| a == b).count()
}

/// The lowest `count` bits set.
pub(super) fn low_bits(count: usize) -> u64 {
    if count >= FANOUT { u64::MAX } else { (1 << count) - 1 }
}

/// Inserts a bit at `at`, below the bits from there on.
pub(super) fn insert_bit(bits: &mut u64, at: usize, bit: bool) {
    let above = *bits & !low_bits(at);
    *bits = (*bits & low_bits(at)) | above << 1 | u64::from(bit) << at;
}

/// Removes the bit at `at`; those above it move down.
pub(super) fn remove_bit(bits: &mut u64, at: usize) {
    let above = *bits & !low_bits(at + 1);
    *bits = (*bits & low_bits(at)) | above >> 1;
}

/// Splits off the bits from `at` on.
pub(super) fn split_bits(bits: &mut u64, at: usize) -> u64 {
    let upper = if at < FANOUT { *bits >> at } else { 0 };
    *bits &= low_bits(at);
    upper
}

impl LeafKeys {
    /// These keys with the longest prefix, in a block without room to spare.
    pub(super) fn of(keys: &GatheredKeys) -> LeafKeys {
        let mut leaf = LeafKeys::default();
        let Some(last) = keys.len().checked_sub(1) else { return leaf };
        let prefix = shared(keys.get(0), keys.get(last));
        let suffix = |key: &[u8]| match key.len() > MAX_SHORT_BYTES {
            true => 0,
            false => key.len().saturating_sub(prefix + HINT_BYTES),
        };
        let suffixes = (0..keys.len()).map(|at| suffix(keys.get(at))).sum::<usize>();
        leaf.block.reserve_exact(prefix + suffixes);
        leaf.block.extend_from_slice(&keys.get(0)[..prefix]);
        for at in 0..keys.len() {
            let key = keys.get(at);
            leaf.hints[at] = hint(key, prefix);
            if key.len() > MAX_SHORT_BYTES {
                leaf.long |= 1 << at;
                leaf.long_keys.push(key.into());
            } else {
                leaf.rests[at] = (key.len() - prefix) as u8;
                leaf.block.extend_from_slice(key.get(prefix + HINT_BYTES..).unwrap_or_default());
            }
        }
        (leaf.prefix, leaf.len) = (prefix as u8, keys.len() as u8);
        leaf
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn prefix(&self) -> &[u8] {
        &self.block[..usize::from(self.prefix)]
    }

    fn is_long(&self, at: usize) -> bool {
        self.long >> at & 1 == 1
    }

    /// How many long keys are below position `at`.
    fn long_before(&self, at: usize) -> usize {
        (self.long & low_bits(at)).count_ones() as usize
    }

    /// Where the suffixes from position `at` on begin in the block.
    fn suffix_start(&self, at: usize) -> usize {
        let mut suffixes = 0;
        // Over all positions, so that the compiler makes it a few instructions without a branch.
        for (position, rest) in self.rests.iter().enumerate() {
            let suffix = u16::from(rest.saturating_sub(HINT_BYTES as u8));
            suffixes += if position < at { suffix } else { 0 };
        }
        usize::from(self.prefix) + usize::from(suffixes)
    }

    fn suffix_len(&self, at: usize) -> usize {
        usize::from(self.rests[at]).saturating_sub(HINT_BYTES)
    }

    /// The suffix of a short key.
    #[inline]
    fn suffix(&self, at: usize) -> &[u8] {
        match self.suffix_len(at) {
            0 => &[],
            len => &self.block[self.suffix_start(at)..][..len],
        }
    }

    /// The key at `at`.
    pub(super) fn get(&self, at: usize) -> KeyBytes<'_> {
        if self.is_long(at) {
            return KeyBytes::whole(&self.long_keys[self.long_before(at)]);
        }
        let mut key = JoinedKey::of_prefix(self.prefix());
        key.follow(usize::from(self.prefix), self.hints[at], self.suffix(at), self.key_len(at));
        KeyBytes::joined(key)
    }

    /// The keys from position `at` on.
    pub(super) fn cursor(&self, at: usize) -> KeyCursor<'_> {
        let key = JoinedKey::of_prefix(self.prefix());
        KeyCursor { keys: self, at, next_suffix: self.suffix_start(at), key }
    }

    /// Compares the key at `at` with another.
    pub(super) fn compare(&self, at: usize, key: &[u8]) -> Ordering {
        let prefix = self.prefix();
        let head = &key[..prefix.len().min(key.len())];
        prefix
            .cmp(head)
            .then_with(|| self.hints[at].cmp(&hint(key, prefix.len())))
            .then_with(|| self.compare_alike(at, key))
    }

    /// The length of the key at `at`.
    pub(super) fn key_len(&self, at: usize) -> usize {
        match self.is_long(at) {
            true => self.long_keys[self.long_before(at)].len(),
            false => usize::from(self.prefix) + usize::from(self.rests[at]),
        }
    }

    /// The position of `key`, or where it would be inserted.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let head = &key[..prefix.len().min(key.len())];
        if head != prefix {
            return Err(if head < prefix { 0 } else { self.len() });
        }
        let hint = hint(key, prefix.len());
        let alike = self.alike(hint);
        let (mut low, mut high) = (alike.start, alike.end);
        while low < high {
            let middle = low.midpoint(high);
            match self.compare_alike(middle, key) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The positions of the keys with this hint.
    fn alike(&self, hint: u32) -> Range<usize> {
        let hints = &self.hints[..self.len()];
        let start = hints.partition_point(|other| *other < hint);
        let len = hints[start..].iter().take_while(|other| **other == hint).count();
        start..start + len
    }

    /// Compares the key at `at` with one that has the same prefix and hint.
    fn compare_alike(&self, at: usize, key: &[u8]) -> Ordering {
        if self.is_long(at) {
            return (*self.long_keys[self.long_before(at)]).cmp(key);
        }
        let (rest, other) = (usize::from(self.rests[at]), &key[usize::from(self.prefix)..]);
        // Equal hints of which one ends early: the other goes on with zeros, so that the shorter key comes first.
        match rest.min(other.len()) < HINT_BYTES {
            true => rest.cmp(&other.len()),
            false => self.suffix(at).cmp(&other[HINT_BYTES..]),
        }
    }

    /// Inserts `key` at `at`, where [`search`](LeafKeys::search) says. There must be room.
    pub(super) fn insert(&mut self, at: usize, key: &[u8]) {
        if self.len == 0 {
            self.prefix = key.len().min(MAX_SHORT_BYTES) as u8;
            self.block.clear();
            self.block.extend_from_slice(&key[..usize::from(self.prefix)]);
        }
        if !key.starts_with(self.prefix()) {
            self.set_prefix(shared(self.prefix(), key));
        }
        let (len, prefix) = (self.len(), usize::from(self.prefix));
        let is_long = key.len() > MAX_SHORT_BYTES;
        let rest = &key[prefix..];
        if is_long {
            let nth = self.long_before(at);
            self.long_keys.insert(nth, key.into());
        } else if let Some(suffix) = rest.get(HINT_BYTES..) {
            self.insert_suffix(at, suffix);
        }
        insert_bit(&mut self.long, at, is_long);
        self.hints.copy_within(at..len, at + 1);
        self.rests.copy_within(at..len, at + 1);
        self.hints[at] = hint(rest, 0);
        self.rests[at] = if is_long { 0 } else { rest.len() as u8 };
        self.len += 1;
    }

    fn insert_suffix(&mut self, at: usize, suffix: &[u8]) {
        let start = self.suffix_start(at);
        let end = self.block.len();
        if end + suffix.len() > self.block.capacity() {
            // An eighth more: suffixes are many, and moving some more often costs less than the memory that would stand
            // empty.
            self.block.reserve_exact(suffix.len() + (end + suffix.len()) / 8);
        }
        self.block.resize(end + suffix.len(), 0);
        self.block.copy_within(start..end, start + suffix.len());
        self.block[start..start + suffix.len()].copy_from_slice(suffix);
    }

    /// Removes the key at `at`.
    pub(super) fn remove(&mut self, at: usize) {
        let len = self.len();
        if self.is_long(at) {
            let nth = self.long_before(at);
            self.long_keys.remove(nth);
            if self.long_keys.is_empty() {
                self.long_keys = Vec::new();
            }
        } else {
            let start = self.suffix_start(at);
            self.block.drain(start..start + self.suffix_len(at));
        }
        remove_bit(&mut self.long, at);
        self.hints.copy_within(at + 1..len, at);
        self.rests.copy_within(at + 1..len, at);
        self.len -= 1;
        if self.block.len() < self.block.capacity() / 2 {
            self.set_prefix(usize::from(self.prefix));
        }
    }

    /// Extends the prefix as far as the keys allow.
    pub(super) fn settle(&mut self) {
        let prefix = match self.len() {
            0 => 0,
            len => shared(&self.get(0), &self.get(len - 1)),
        };
        self.set_prefix(prefix);
    }

    /// Stores the keys with a prefix of so many bytes, which all must share, in a block without room to spare.
    fn set_prefix(&mut self, prefix: usize) {
        if self.len == 0 {
            *self = LeafKeys::default();
            return;
        }
        let keys = (0..self.len()).filter(|at| !self.is_long(*at));
        let suffixes = keys.map(|at| self.key_len(at).saturating_sub(prefix + HINT_BYTES)).sum::<usize>();
        let mut block = Vec::with_capacity(prefix + suffixes);
        block.extend_from_slice(&self.get(0)[..prefix]);
        let (mut hints, mut rests) = (self.hints, self.rests);
        let mut cursor = self.cursor(0);
        for at in 0..self.len() {
            let key = cursor.next();
            hints[at] = hint(key, prefix);
            if !self.is_long(at) {
                rests[at] = (key.len() - prefix) as u8;
                block.extend_from_slice(key.get(prefix + HINT_BYTES..).unwrap_or_default());
            }
        }
        (self.hints, self.rests, self.block) = (hints, rests, block);
        self.prefix = prefix as u8;
    }

    /// Splits off the keys from `at` on.
    pub(super) fn split_off(&mut self, at: usize) -> LeafKeys {
        let len = self.len();
        let start = self.suffix_start(at);
        let mut upper = LeafKeys {
            long: split_bits(&mut self.long, at),
            block: [self.prefix(), &self.block[start..]].concat(),
            prefix: self.prefix,
            len: (len - at) as u8,
            ..LeafKeys::default()
        };
        upper.hints[..len - at].copy_from_slice(&self.hints[at..len]);
        upper.rests[..len - at].copy_from_slice(&self.rests[at..len]);
        let long = self.long_before(FANOUT);
        upper.long_keys = self.long_keys.split_off(long);
        self.block.truncate(start);
        self.len = at as u8;
        self.settle();
        upper.settle();
        upper
    }

    /// Adds the keys of the next leaf, all above those here.
    pub(super) fn append(&mut self, mut upper: LeafKeys) {
        let (len, more) = (self.len(), upper.len());
        if more == 0 {
            return;
        }
        if len == 0 {
            *self = upper;
            return;
        }
        let prefix = shared(&self.get(0), &upper.get(more - 1));
        self.set_prefix(prefix);
        upper.set_prefix(prefix);
        self.hints[len..len + more].copy_from_slice(&upper.hints[..more]);
        self.rests[len..len + more].copy_from_slice(&upper.rests[..more]);
        self.long |= upper.long << len;
        self.long_keys.append(&mut upper.long_keys);
        self.block.reserve_exact(upper.block.len() - prefix);
        self.block.extend_from_slice(&upper.block[prefix..]);
        self.len += upper.len;
    }

    /// Bytes of memory taken besides this value.
    pub(super) fn heap_bytes(&self) -> usize {
        let long = self.long_keys.iter().map(|key| block_bytes(key.len())).sum::<usize>();
        let list = block_bytes(self.long_keys.capacity() * size_of::<Box<[u8]>>());
        block_bytes(self.block.capacity()) + list + long
    }

    /// Checks that the keys ascend and share the prefix, and that nothing is left after the end.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let (len, prefix) = (self.len(), usize::from(self.prefix));
        assert_eq!(self.long & !low_bits(len), 0);
        assert_eq!(self.long_keys.len(), self.long_before(FANOUT));
        assert_eq!(self.block.len(), self.suffix_start(len));
        for at in 0..len {
            assert_eq!(self.get(at)[..prefix], *self.prefix());
            assert_eq!(self.hints[at], hint(&self.get(at), prefix));
            assert_eq!(self.is_long(at), self.get(at).len() > MAX_SHORT_BYTES);
            assert_eq!(self.key_len(at), self.get(at).len());
            assert!(at == 0 || *self.get(at - 1) < *self.get(at));
            assert_eq!(self.search(&self.get(at)), Ok(at));
        }
    }
}
