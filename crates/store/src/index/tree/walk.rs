//! Walking keys in order, from either end.

use super::key_tree::{KeyTree, TreePath};
use super::node::{KeyBounds, SlotKeys};

/// Slots in key order, each with whether its key is live; from the end with `rev()`.
pub(crate) struct TreeWalk<'a> {
    tree: &'a KeyTree,
    front: TreePath,
    /// Exclusive.
    back: TreePath,
    done: bool,
}

impl KeyTree {
    /// The keys of `bounds`, dead ones too.
    pub(crate) fn walk(&self, keys: &impl SlotKeys, bounds: &KeyBounds<'_>) -> TreeWalk<'_> {
        let inverted = bounds.end.is_some_and(|end| end <= bounds.start);
        let front = self.seek(keys, bounds.start);
        let back = match bounds.end {
            Some(end) => self.seek(keys, end),
            None => self.end(),
        };
        TreeWalk { tree: self, front, back, done: inverted }
    }

    /// The position after the last key.
    fn end(&self) -> TreePath {
        let mut path = TreePath { found: false, steps: Default::default(), leaf: self.root, at: 0 };
        self.descend(&mut path, 0, self.root, true);
        path
    }

    /// Descends from `node` on `level` to its first position, or after its last.
    fn descend(&self, path: &mut TreePath, level: usize, mut node: u32, to_end: bool) {
        for step in &mut path.steps[level..self.height] {
            let inner = self.inners.get(node);
            step.inner = node;
            step.child = if to_end { inner.children.len() - 1 } else { 0 };
            node = inner.children[step.child];
        }
        path.leaf = node;
        path.at = if to_end { self.leaves.get(node).len() } else { 0 };
    }

    /// Moves to the first position of the next leaf; returns whether there is one.
    fn next_leaf(&self, path: &mut TreePath) -> bool {
        for level in (0..self.height).rev() {
            let step = &mut path.steps[level];
            let children = &self.inners.get(step.inner).children;
            if step.child + 1 < children.len() {
                step.child += 1;
                let node = children[step.child];
                self.descend(path, level + 1, node, false);
                return true;
            }
        }
        false
    }

    /// Moves after the last position of the previous leaf; returns whether there is one.
    fn previous_leaf(&self, path: &mut TreePath) -> bool {
        for level in (0..self.height).rev() {
            let step = &mut path.steps[level];
            if step.child > 0 {
                step.child -= 1;
                let node = self.inners.get(step.inner).children[step.child];
                self.descend(path, level + 1, node, true);
                return true;
            }
        }
        false
    }
}

impl TreeWalk<'_> {
    fn is_exhausted(&self) -> bool {
        self.front.leaf == self.back.leaf && self.front.at >= self.back.at
    }
}

impl Iterator for TreeWalk<'_> {
    type Item = (u32, bool);

    fn next(&mut self) -> Option<(u32, bool)> {
        loop {
            if self.done || self.is_exhausted() {
                self.done = true;
                return None;
            }
            let leaf = self.tree.leaves.get(self.front.leaf);
            if let Some(slot) = leaf.slots().get(self.front.at) {
                let live = leaf.is_live(self.front.at);
                self.front.at += 1;
                return Some((*slot, live));
            }
            self.done = !self.tree.next_leaf(&mut self.front);
        }
    }
}

impl DoubleEndedIterator for TreeWalk<'_> {
    fn next_back(&mut self) -> Option<(u32, bool)> {
        loop {
            if self.done || self.is_exhausted() {
                self.done = true;
                return None;
            }
            if let Some(at) = self.back.at.checked_sub(1) {
                self.back.at = at;
                let leaf = self.tree.leaves.get(self.back.leaf);
                return Some((leaf.slots()[at], leaf.is_live(at)));
            }
            self.done = !self.tree.previous_leaf(&mut self.back);
        }
    }
}
