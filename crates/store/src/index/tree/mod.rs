//! A counted B+ tree of slots, in the order of the keys that the slots stand for.
//!
//! Leaves hold slots of 4 bytes, with 4 bytes of each key for a [hint](leaf) and one bit that says whether
//! the key is live; inner nodes hold for each child how many live keys lie under it. So "how many live keys
//! are below K" is one descent: the sum of the counts to the left on the way down, and one population count
//! in the leaf.
//!
//! Nodes lie in slabs and name each other by number, which keeps the tree in safe Rust without a pointer to
//! chase for ownership. The tree holds no keys except shortened separators; comparisons ask [`Keys`].
//!
//! Invariants, checked by `check` in the tests:
//! - keys in a leaf ascend; separator `i` is above all keys under child `i`, and not above any under child `i
//!   + 1`;
//! - the count kept for a child is the number of live bits under it;
//! - all leaves have the same depth. A leaf may be empty only when it has no sibling to merge with.

mod build;
mod insert;
mod leaf;
mod remove;
mod seek;
mod walk;

#[cfg(test)]
mod tests;

use super::{Key, Slab};
use leaf::Leaf;

/// Slots in a leaf and children of an inner node: the width of the bitmap of live keys.
pub(crate) const FANOUT: usize = 64;

/// Nodes emptier than this look for a sibling to merge with.
const MERGE_BELOW: usize = FANOUT / 4;

/// Two siblings merge only when this is enough for both: a merged node must not be split by the next
/// insertion.
const MAX_MERGED: usize = FANOUT * 3 / 4;

/// More levels than four thousand million keys can make, given that splits leave halves.
const MAX_HEIGHT: usize = 10;

/// The keys that slots stand for.
pub(crate) trait Keys {
    /// The key of `slot`.
    fn key(&self, slot: u32) -> &[u8];
}

/// A half-open range of keys with its end resolved: `None` is "no end".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds<'a> {
    /// The first key of the range.
    pub start: &'a [u8],
    /// The first key past the range.
    pub end: Option<&'a [u8]>,
}

impl Bounds<'_> {
    /// All keys.
    pub(crate) const ALL: Bounds<'static> = Bounds { start: &[], end: None };
}

#[derive(Default)]
struct Inner {
    /// Nodes of the level below: leaves at the lowest inner level.
    children: Vec<u32>,
    /// Live keys under each child.
    counts: Vec<u64>,
    /// One less than children.
    separators: Vec<Key>,
}

impl Inner {
    fn live_count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// See the module.
pub(crate) struct Tree {
    leaves: Slab<Leaf>,
    inners: Slab<Inner>,
    root: u32,
    /// Inner levels above the leaves.
    height: usize,
    live: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        let mut leaves = Slab::default();
        let root = leaves.insert(Leaf::default());
        Tree { leaves, inners: Slab::default(), root, height: 0, live: 0 }
    }
}

/// Where a key is, or would be: the way down from the root.
#[derive(Clone)]
pub(crate) struct Path {
    /// Whether the sought key is at this place.
    pub(crate) found: bool,
    steps: [Step; MAX_HEIGHT],
    leaf: u32,
    at: usize,
}

#[derive(Clone, Copy, Default)]
struct Step {
    inner: u32,
    child: usize,
}

impl Tree {
    /// Live keys.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// The slot of the key that was found at `path`.
    pub(crate) fn slot_at(&self, path: &Path) -> u32 {
        self.leaves.get(path.leaf).slots()[path.at]
    }

    /// Notes that the key at `path` came to life or died; it must have been otherwise.
    pub(crate) fn set_live(&mut self, path: &Path, live: bool) {
        let leaf = self.leaves.get_mut(path.leaf);
        assert!(leaf.is_live(path.at) != live, "a key is born or dies, it cannot stay as it is");
        leaf.flip(path.at);
        let change = if live { 1 } else { -1 };
        self.adjust(path, change);
    }

    /// Adds `change` to all counts that cover the leaf of `path`.
    fn adjust(&mut self, path: &Path, change: i64) {
        for step in &path.steps[..self.height] {
            let count = &mut self.inners.get_mut(step.inner).counts[step.child];
            *count = count.checked_add_signed(change).expect("counts cover what is below");
        }
        self.live = self.live.checked_add_signed(change).expect("counts cover what is below");
    }

    /// Bytes of memory taken by the nodes.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        let mut bytes = self.leaves.resident_bytes() + self.inners.resident_bytes();
        let mut level = if self.height > 0 { vec![self.root] } else { Vec::new() };
        for below in (0..self.height).rev() {
            let inners = level.iter().map(|inner| self.inners.get(*inner));
            bytes += inners
                .clone()
                .map(|inner| {
                    inner.children.capacity() * size_of::<u32>()
                        + inner.counts.capacity() * size_of::<u64>()
                        + inner.separators.capacity() * size_of::<Key>()
                })
                .sum::<usize>();
            let children = inners.flat_map(|inner| inner.children.clone()).collect();
            level = if below > 0 { children } else { Vec::new() };
        }
        bytes
    }
}
