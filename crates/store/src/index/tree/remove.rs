//! Removing a dead key, and merging nodes that have few entries.

use super::key_tree::{KeyTree, NO_LEAF, TreePath};
use super::node::FANOUT;

/// A node with fewer entries is merged with a sibling, if that fits.
const MIN_LEN: usize = FANOUT / 4;

/// Most entries of a merged node: it must not be split again by the next insertion.
const MAX_MERGED_LEN: usize = FANOUT * 3 / 4;

/// Whether two siblings of these lengths are merged.
fn should_merge(left: usize, right: usize) -> bool {
    left.min(right) < MIN_LEN && left + right <= MAX_MERGED_LEN || left.min(right) == 0
}

impl KeyTree {
    /// Removes the dead key found at `path`.
    pub(crate) fn remove(&mut self, path: &TreePath) {
        assert!(path.found, "the key to remove was found");
        self.note_leaf(self.slot_at(path), NO_LEAF);
        let leaf = self.leaves.get_mut(path.leaf);
        assert!(!leaf.is_live(path.at), "a live key is counted and cannot be removed");
        let before = leaf.heap_bytes();
        leaf.remove(path.at);
        self.key_heap_bytes = self.key_heap_bytes + leaf.heap_bytes() - before;
        self.keys -= 1;
        if leaf.len() >= MIN_LEN {
            return;
        }
        for level in (0..self.height).rev() {
            let step = path.steps[level];
            let lowest = level + 1 == self.height;
            if !self.merge_around(step.inner, step.child, lowest) {
                break;
            }
            if self.inners.get(step.inner).children.len() >= MIN_LEN {
                break;
            }
        }
        self.shrink();
    }

    /// Merges child `child` of `inner` with a sibling, if one is small enough. Returns whether it did.
    fn merge_around(&mut self, inner: u32, child: usize, lowest: bool) -> bool {
        let children = self.inners.get(inner).children.len();
        let lefts = [child.checked_sub(1), (child + 1 < children).then_some(child)];
        lefts.into_iter().flatten().any(|left| self.merge(inner, left, lowest))
    }

    /// Merges children `left` and `left + 1` of `inner`, if they are small enough.
    fn merge(&mut self, inner: u32, left: usize, lowest: bool) -> bool {
        let node = self.inners.get(inner);
        let (left_node, right_node) = (node.children[left], node.children[left + 1]);
        let merged =
            if lowest { self.merge_leaves(left_node, right_node) } else { self.merge_inners(inner, left) };
        if !merged {
            return false;
        }
        let node = self.inners.get_mut(inner);
        node.children.remove(left + 1);
        self.separator_heap_bytes -= node.separators.remove(left).heap_bytes();
        let count = node.counts.remove(left + 1);
        node.counts[left] += count;
        true
    }

    fn merge_leaves(&mut self, left: u32, right: u32) -> bool {
        if !should_merge(self.leaves.get(left).len(), self.leaves.get(right).len()) {
            return false;
        }
        let upper = self.leaves.remove(right);
        let lower = self.leaves.get_mut(left);
        let before = lower.heap_bytes() + upper.heap_bytes();
        lower.append(upper);
        self.key_heap_bytes = self.key_heap_bytes + lower.heap_bytes() - before;
        self.note_leaves(left);
        true
    }

    fn merge_inners(&mut self, parent: u32, left: usize) -> bool {
        let node = self.inners.get(parent);
        let (left_node, right_node) = (node.children[left], node.children[left + 1]);
        let separator = node.separators[left].clone();
        let sizes = [left_node, right_node].map(|node| self.inners.get(node).children.len());
        if !should_merge(sizes[0], sizes[1]) || sizes[0] + sizes[1] > FANOUT {
            return false;
        }
        let mut upper = self.inners.remove(right_node);
        let lower = self.inners.get_mut(left_node);
        lower.children.append(&mut upper.children);
        lower.counts.append(&mut upper.counts);
        self.separator_heap_bytes += separator.heap_bytes();
        lower.separators.push(separator);
        lower.separators.append(&mut upper.separators);
        true
    }

    /// Replaces a root with a single child by that child.
    fn shrink(&mut self) {
        while self.height > 0 && self.inners.get(self.root).children.len() == 1 {
            let old = self.inners.remove(self.root);
            self.root = old.children[0];
            self.height -= 1;
        }
    }
}
