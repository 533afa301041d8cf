//! Inserting a key, and splitting nodes that are full.

use super::key_tree::{KeyTree, MAX_HEIGHT, TreePath};
use super::node::{FANOUT, InnerNode, shortest_between};
use crate::index::key::IndexKey;

/// The right half of a node that was split, to be linked beside the left half.
pub(super) struct SplitNode {
    pub(super) separator: IndexKey,
    pub(super) node: u32,
    pub(super) left_live: u64,
    pub(super) right_live: u64,
}

impl KeyTree {
    /// Inserts a live key at `path`, where [`seek`](KeyTree::seek) did not find it. Returns whether a node was
    /// split, so that paths are no longer valid.
    pub(crate) fn insert(&mut self, path: &TreePath, key: &[u8], slot: u32) -> bool {
        assert!(!path.found, "a key is in the tree once");
        self.adjust(path, 1);
        self.keys += 1;
        let leaf = self.leaves.get_mut(path.leaf);
        if leaf.len() < FANOUT {
            let before = leaf.heap_bytes();
            leaf.insert(path.at, key, slot, true);
            self.key_heap_bytes = self.key_heap_bytes + leaf.heap_bytes() - before;
            self.note_leaf(slot, path.leaf);
            return false;
        }
        let split = self.split_leaf(path, key, slot);
        self.link_up(path, split);
        true
    }

    /// Links the right half of the leaf of `path`, and of each node above that it splits.
    pub(super) fn link_up(&mut self, path: &TreePath, mut split: SplitNode) {
        for step in path.steps[..self.height].iter().rev() {
            match self.link(step.inner, step.child, split) {
                Some(next) => split = next,
                None => return,
            }
        }
        self.grow(split);
    }

    /// Splits a full leaf and inserts `slot`. At the right edge of the tree the old leaf stays full, so that keys that
    /// arrive in ascending order fill the leaves instead of leaving them half empty.
    fn split_leaf(&mut self, path: &TreePath, key: &[u8], slot: u32) -> SplitNode {
        let at_right_edge = self.is_end(path);
        let left = self.leaves.get_mut(path.leaf);
        self.key_heap_bytes -= left.heap_bytes();
        let cut = if at_right_edge { FANOUT } else { FANOUT / 2 };
        let mut right = left.split_off(cut);
        let goes_left = path.at <= cut && !at_right_edge;
        if goes_left {
            left.insert(path.at, key, slot, true);
        } else {
            right.insert(path.at - cut, key, slot, true);
        }
        self.key_heap_bytes += left.heap_bytes() + right.heap_bytes();
        let separator = shortest_between(&left.key(left.len() - 1), &right.key(0));
        self.separator_heap_bytes += separator.heap_bytes();
        let (left_live, right_live) = (left.live_count(), right.live_count());
        let node = self.leaves.insert(right);
        if goes_left {
            self.note_leaf(slot, path.leaf);
        }
        self.note_leaves(node);
        SplitNode { separator, node, left_live, right_live }
    }

    /// Links `split` to the right of child `child` of `inner`. Splits `inner` if it is full, and returns its right
    /// half.
    fn link(&mut self, inner: u32, child: usize, split: SplitNode) -> Option<SplitNode> {
        let node = self.inners.get_mut(inner);
        node.counts[child] = split.left_live;
        node.children.insert(child + 1, split.node);
        node.counts.insert(child + 1, split.right_live);
        node.separators.insert(child, split.separator);
        if node.children.len() <= FANOUT {
            return None;
        }
        let at_right_edge = child + 2 == node.children.len();
        let cut = if at_right_edge { FANOUT - 1 } else { FANOUT / 2 };
        let right = InnerNode {
            children: node.children.split_off(cut),
            counts: node.counts.split_off(cut),
            separators: node.separators.split_off(cut),
        };
        let separator = node.separators.pop().expect("a separator stood between the halves");
        let (left_live, right_live) = (node.live_count(), right.live_count());
        Some(SplitNode { separator, node: self.inners.insert(right), left_live, right_live })
    }

    /// Adds a root above the old root and its right half.
    fn grow(&mut self, split: SplitNode) {
        let root = InnerNode {
            children: vec![self.root, split.node],
            counts: vec![split.left_live, split.right_live],
            separators: vec![split.separator],
        };
        self.root = self.inners.insert(root);
        self.height += 1;
        assert!(self.height < MAX_HEIGHT, "the height is bounded by the number of slots");
    }
}
