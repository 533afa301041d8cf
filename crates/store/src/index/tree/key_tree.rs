//! The tree: nodes by number, a root, and the paths that lead to a key.

use super::leaf::LeafNode;
use super::node::{InnerNode, MAX_INNER_BYTES};
use crate::index::key::IndexKey;
use crate::index::slab::Slab;

/// More levels than 2^32 keys need, given that a split leaves halves.
pub(super) const MAX_HEIGHT: usize = 10;

/// Nodes refer to each other by their number in a slab.
pub(crate) struct KeyTree {
    pub(super) leaves: Slab<LeafNode>,
    pub(super) inners: Slab<InnerNode>,
    pub(super) root: u32,
    /// Inner levels above the leaves.
    pub(super) height: usize,
    /// Live keys in the whole tree.
    pub(super) live: u64,
    /// Bytes of memory that the separators take besides their place in the nodes.
    pub(super) separator_heap_bytes: usize,
}

impl Default for KeyTree {
    fn default() -> KeyTree {
        let mut leaves = Slab::default();
        let root = leaves.insert(LeafNode::default());
        KeyTree { leaves, inners: Slab::default(), root, height: 0, live: 0, separator_heap_bytes: 0 }
    }
}

/// The position of a key, or where it would be inserted: the way down from the root.
#[derive(Clone)]
pub(crate) struct TreePath {
    /// Whether the key is there.
    pub(crate) found: bool,
    pub(super) steps: [PathStep; MAX_HEIGHT],
    pub(super) leaf: u32,
    /// The position in the leaf.
    pub(super) at: usize,
}

#[derive(Clone, Copy, Default)]
pub(super) struct PathStep {
    pub(super) inner: u32,
    pub(super) child: usize,
}

impl KeyTree {
    /// The number of live keys.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// The slot of the key that was found at `path`.
    pub(crate) fn slot_at(&self, path: &TreePath) -> u32 {
        self.leaves.get(path.leaf).slots()[path.at]
    }

    /// Sets whether the key at `path` is live; this must be a change.
    pub(crate) fn set_live(&mut self, path: &TreePath, live: bool) {
        let leaf = self.leaves.get_mut(path.leaf);
        assert!(leaf.is_live(path.at) != live, "a key is set live or dead only when that changes");
        leaf.flip(path.at);
        let change = if live { 1 } else { -1 };
        self.adjust(path, change);
    }

    /// Adds `change` to all counts that cover the leaf of `path`.
    pub(super) fn adjust(&mut self, path: &TreePath, change: i64) {
        for step in &path.steps[..self.height] {
            let count = &mut self.inners.get_mut(step.inner).counts[step.child];
            *count = count.checked_add_signed(change).expect("a count includes every live key below");
        }
        self.live = self.live.checked_add_signed(change).expect("a count includes every live key below");
    }

    /// [Accounted](crate::memory) bytes of the nodes.
    pub(crate) fn accounted_bytes(&self) -> usize {
        let inners = self.inners.used_bytes() / size_of::<InnerNode>();
        self.leaves.used_bytes() + inners * MAX_INNER_BYTES + self.separator_heap_bytes
    }

    /// The same by a walk over the tree.
    pub(crate) fn walk_accounted_bytes(&self) -> usize {
        let mut bytes = 0;
        let mut level = vec![self.root];
        for _ in 0..self.height {
            bytes += level.len() * MAX_INNER_BYTES;
            let inners = || level.iter().map(|inner| self.inners.get(*inner));
            let separators = inners().flat_map(|inner| &inner.separators);
            bytes += separators.map(IndexKey::heap_bytes).sum::<usize>();
            level = inners().flat_map(|inner| inner.children.iter().copied()).collect();
        }
        bytes + level.len() * size_of::<LeafNode>()
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
                        + inner.separators.capacity() * size_of::<crate::index::IndexKey>()
                })
                .sum::<usize>();
            let children = inners.flat_map(|inner| inner.children.clone()).collect();
            level = if below > 0 { children } else { Vec::new() };
        }
        bytes
    }
}
