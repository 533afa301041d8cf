//! Inserting a key, and splitting nodes that are full.

use super::key_tree::{KeyTree, MAX_HEIGHT, TreePath};
use super::node::{FANOUT, InnerNode, SlotKeys, shortest_between};
use crate::index::key::IndexKey;

/// The right half of a node that was split, to be linked beside the left half.
struct SplitNode {
    separator: IndexKey,
    node: u32,
    left_live: u64,
    right_live: u64,
}

impl KeyTree {
    /// Inserts a live key at `path`, where [`seek`](KeyTree::seek) did not find it.
    pub(crate) fn insert(&mut self, keys: &impl SlotKeys, path: &TreePath, slot: u32) {
        assert!(!path.found, "a key is in the tree once");
        self.adjust(path, 1);
        let leaf = self.leaves.get_mut(path.leaf);
        if leaf.len() < FANOUT {
            leaf.insert(keys, path.at, slot, true);
            return;
        }
        let mut split = self.split_leaf(keys, path, slot);
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
    fn split_leaf(&mut self, keys: &impl SlotKeys, path: &TreePath, slot: u32) -> SplitNode {
        let at_right_edge = path.at == FANOUT
            && path.steps[..self.height]
                .iter()
                .all(|step| step.child + 1 == self.inners.get(step.inner).children.len());
        let left = self.leaves.get_mut(path.leaf);
        let cut = if at_right_edge { FANOUT } else { FANOUT / 2 };
        let mut right = left.split_off(keys, cut);
        if path.at <= cut && !at_right_edge {
            left.insert(keys, path.at, slot, true);
        } else {
            right.insert(keys, path.at - cut, slot, true);
        }
        let last_left = *left.slots().last().expect("the left half is not empty");
        let separator = shortest_between(keys.key(last_left), keys.key(right.slots()[0]));
        self.separator_heap_bytes += separator.heap_bytes();
        let (left_live, right_live) = (left.live_count(), right.live_count());
        SplitNode { separator, node: self.leaves.insert(right), left_live, right_live }
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
