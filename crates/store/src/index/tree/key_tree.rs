//! The tree: nodes by number, a root, and the paths that lead to a key.

use super::leaf::LeafNode;
use super::node::{InnerNode, KeyBounds, MAX_INNER_BYTES};
use crate::index::key::IndexKey;
use crate::index::key_bytes::KeyBytes;
use crate::index::slab::{ChunkedList, Slab};

/// More levels than 2^32 keys need, given that a split leaves halves.
pub(super) const MAX_HEIGHT: usize = 10;

/// The leaf of a slot that has no key; no slab has so many items.
pub(super) const NO_LEAF: u32 = u32::MAX;

/// Nodes refer to each other by their number in a slab.
pub(crate) struct KeyTree {
    /// The leaf of each slot, [`NO_LEAF`] for one that is free.
    leaf_of: ChunkedList<u32>,
    /// Keys, live or not.
    pub(super) keys: usize,
    /// Bytes of memory that the keys take besides their place in the leaves.
    pub(super) key_heap_bytes: usize,
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
        KeyTree {
            leaf_of: ChunkedList::default(),
            keys: 0,
            key_heap_bytes: 0,
            leaves,
            inners: Slab::default(),
            root,
            height: 0,
            live: 0,
            separator_heap_bytes: 0,
        }
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

    /// The key of `slot`, which must be valid.
    pub(crate) fn key(&self, slot: u32) -> KeyBytes<'_> {
        let leaf = self.leaf_of(slot);
        leaf.key(leaf.position_of(slot))
    }

    /// Whether `slot` has a key.
    pub(crate) fn is_valid(&self, slot: u32) -> bool {
        (slot as usize) < self.leaf_of.len() && *self.leaf_of.get(slot as usize) != NO_LEAF
    }

    /// The length of the key of `slot`, which must be valid.
    pub(crate) fn key_len(&self, slot: u32) -> usize {
        let leaf = self.leaf_of(slot);
        leaf.key_len(leaf.position_of(slot))
    }

    /// Whether the key of `slot`, which must be valid, is in `bounds`.
    pub(crate) fn is_in(&self, slot: u32, bounds: &KeyBounds<'_>) -> bool {
        let leaf = self.leaf_of(slot);
        let at = leaf.position_of(slot);
        leaf.compare(at, bounds.start).is_ge() && bounds.end.is_none_or(|end| leaf.compare(at, end).is_lt())
    }

    fn leaf_of(&self, slot: u32) -> &LeafNode {
        self.leaves.get(*self.leaf_of.get(slot as usize))
    }

    /// Notes the leaf of a slot.
    pub(super) fn note_leaf(&mut self, slot: u32, leaf: u32) {
        while self.leaf_of.len() <= slot as usize {
            self.leaf_of.push(NO_LEAF);
        }
        *self.leaf_of.get_mut(slot as usize) = leaf;
    }

    /// Notes the leaf of all slots in it, after they moved there.
    pub(super) fn note_leaves(&mut self, leaf: u32) {
        for at in 0..self.leaves.get(leaf).len() {
            self.note_leaf(self.leaves.get(leaf).slots()[at], leaf);
        }
    }

    /// Whether `path` is behind the last key.
    pub(crate) fn is_end(&self, path: &TreePath) -> bool {
        let is_last = |step: &PathStep| step.child + 1 == self.inners.get(step.inner).children.len();
        path.at == self.leaves.get(path.leaf).len() && path.steps[..self.height].iter().all(is_last)
    }

    /// The slot of the key that was found at `path`.
    pub(crate) fn slot_at(&self, path: &TreePath) -> u32 {
        self.leaves.get(path.leaf).slots()[path.at]
    }

    /// Sets `path` to the path of the key of `slot`, which must be valid. What it was before is a path that was found
    /// since keys were inserted or removed last: the keys of a leaf share the way down.
    pub(crate) fn move_to<'p>(&self, slot: u32, path: &'p mut Option<TreePath>) -> &'p TreePath {
        let leaf = *self.leaf_of.get(slot as usize);
        let path = path.get_or_insert_with(|| self.seek(&self.key(slot)));
        if path.leaf == leaf {
            (path.at, path.found) = (self.leaves.get(leaf).position_of(slot), true);
        } else {
            *path = self.seek(&self.key(slot));
        }
        path
    }

    /// The key that was found at `path`.
    pub(crate) fn key_at(&self, path: &TreePath) -> KeyBytes<'_> {
        self.leaves.get(path.leaf).key(path.at)
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
        let nodes = self.leaves.used_bytes() + inners * MAX_INNER_BYTES + self.separator_heap_bytes;
        nodes + self.key_heap_bytes + self.keys * size_of::<u32>()
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
        let leaf_bytes =
            |leaf: &LeafNode| size_of::<LeafNode>() + leaf.heap_bytes() + leaf.len() * size_of::<u32>();
        bytes + level.iter().map(|leaf| leaf_bytes(self.leaves.get(*leaf))).sum::<usize>()
    }

    /// Sets which keys are live, and recomputes the counts.
    pub(crate) fn set_all_live(&mut self, is_live: &impl Fn(u32) -> bool) {
        self.live = self.set_live_below(self.root, self.height, is_live);
    }

    fn set_live_below(&mut self, node: u32, height: usize, is_live: &impl Fn(u32) -> bool) -> u64 {
        if height == 0 {
            let leaf = self.leaves.get_mut(node);
            for at in 0..leaf.len() {
                if leaf.is_live(at) != is_live(leaf.slots()[at]) {
                    leaf.flip(at);
                }
            }
            return leaf.live_count();
        }
        let mut live = 0;
        for child in 0..self.inners.get(node).children.len() {
            let below = self.inners.get(node).children[child];
            let count = self.set_live_below(below, height - 1, is_live);
            self.inners.get_mut(node).counts[child] = count;
            live += count;
        }
        live
    }

    /// Bytes of memory taken by the nodes.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        let mut bytes = self.leaves.resident_bytes() + self.inners.resident_bytes();
        bytes += self.leaf_of.resident_bytes() + self.key_heap_bytes;
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
