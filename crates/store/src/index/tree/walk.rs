//! Walking keys in order, from either end.

use std::ops::ControlFlow;

use super::key_tree::{KeyTree, TreePath};
use super::leaf::LeafNode;
use super::node::KeyBounds;
use crate::index::key_bytes::KeyBytes;

/// Slots that a visit tells ahead: as many reads from memory as a processor core carries out at once.
const MAX_AHEAD: usize = 8;

/// A key of the tree.
#[derive(Clone, Copy)]
pub(crate) struct TreeEntry<'a> {
    /// Its slot.
    pub(crate) slot: u32,
    /// Whether it is live.
    pub(crate) is_live: bool,
    leaf: &'a LeafNode,
    at: usize,
}

impl<'a> TreeEntry<'a> {
    fn new(leaf: &'a LeafNode, at: usize) -> Option<TreeEntry<'a>> {
        let slot = *leaf.slots().get(at)?;
        Some(TreeEntry { slot, is_live: leaf.is_live(at), leaf, at })
    }

    /// The bytes of the key.
    #[inline]
    pub(crate) fn key(&self) -> KeyBytes<'a> {
        self.leaf.key(self.at)
    }

    /// Their number.
    pub(crate) fn key_len(&self) -> usize {
        self.leaf.key_len(self.at)
    }
}

/// Keys in order; from the end with `rev()`.
pub(crate) struct TreeWalk<'a> {
    tree: &'a KeyTree,
    front: TreePath,
    /// Exclusive.
    back: TreePath,
    done: bool,
}

/// Slots of live keys in key order. Dead keys cost nothing: nodes without live keys are not visited.
pub(crate) struct LiveTreeWalk<'a> {
    tree: &'a KeyTree,
    front: TreePath,
    /// Live keys that are still to come.
    left: u64,
}

impl KeyTree {
    /// The live keys of `bounds`.
    pub(crate) fn walk_live(&self, bounds: &KeyBounds<'_>) -> LiveTreeWalk<'_> {
        LiveTreeWalk { tree: self, front: self.seek(bounds.start), left: self.count(bounds) }
    }

    /// Moves to the next leaf with a live key, which must exist.
    fn next_live_leaf(&self, path: &mut TreePath) {
        for level in (0..self.height).rev() {
            let inner = self.inners.get(path.steps[level].inner);
            let first = path.steps[level].child + 1;
            let live = inner.counts[first..].iter().position(|count| *count > 0);
            if let Some(ahead) = live {
                path.steps[level].child = first + ahead;
                return self.descend_live(path, level + 1, inner.children[first + ahead]);
            }
        }
        unreachable!("the counts say that there is a live key");
    }

    /// Descends from `node` on `level`, which has a live key, to the first leaf that has one.
    fn descend_live(&self, path: &mut TreePath, level: usize, mut node: u32) {
        for step in &mut path.steps[level..self.height] {
            let inner = self.inners.get(node);
            step.inner = node;
            step.child = inner.counts.iter().position(|count| *count > 0).expect("the node has a live key");
            node = inner.children[step.child];
        }
        (path.leaf, path.at) = (node, 0);
    }

    /// The keys of `bounds`, dead ones too.
    pub(crate) fn walk(&self, bounds: &KeyBounds<'_>) -> TreeWalk<'_> {
        let inverted = bounds.end.is_some_and(|end| end <= bounds.start);
        let front = self.seek(bounds.start);
        let back = match bounds.end {
            Some(end) => self.seek(end),
            None => self.end(),
        };
        TreeWalk { tree: self, front, back, done: inverted }
    }

    /// Visits the keys of `bounds` in order, dead ones too, with slot, bytes, and whether they are live, until `visit`
    /// breaks. Calls `ahead` for a few slots that come next, from time to time.
    pub(crate) fn visit(
        &self,
        bounds: &KeyBounds<'_>,
        ahead: impl Fn(&[u32]),
        mut visit: impl FnMut(u32, &[u8], bool) -> ControlFlow<()>,
    ) {
        let TreeWalk { mut front, back, done, .. } = self.walk(bounds);
        if done {
            return;
        }
        loop {
            let leaf = self.leaves.get(front.leaf);
            let is_last = front.leaf == back.leaf;
            let end = if is_last { back.at } else { leaf.len() };
            let mut keys = leaf.cursor(front.at);
            for at in front.at..end {
                if (at - front.at) % MAX_AHEAD == 0 {
                    ahead(&leaf.slots()[at..end.min(at + MAX_AHEAD)]);
                }
                if visit(leaf.slots()[at], keys.next(), leaf.is_live(at)).is_break() {
                    return;
                }
            }
            if is_last || !self.next_leaf(&mut front) {
                return;
            }
        }
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

impl LiveTreeWalk<'_> {
    /// The number of live keys that are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}

impl Iterator for LiveTreeWalk<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let leaf = self.tree.leaves.get(self.front.leaf);
            if let Some(at) = leaf.first_live_from(self.front.at) {
                self.front.at = at + 1;
                return Some(leaf.slots()[at]);
            }
            self.tree.next_live_leaf(&mut self.front);
        }
    }
}

impl TreeWalk<'_> {
    fn is_exhausted(&self) -> bool {
        self.front.leaf == self.back.leaf && self.front.at >= self.back.at
    }
}

impl<'a> Iterator for TreeWalk<'a> {
    type Item = TreeEntry<'a>;

    fn next(&mut self) -> Option<TreeEntry<'a>> {
        loop {
            if self.done || self.is_exhausted() {
                self.done = true;
                return None;
            }
            let leaf = self.tree.leaves.get(self.front.leaf);
            if let Some(entry) = TreeEntry::new(leaf, self.front.at) {
                self.front.at += 1;
                return Some(entry);
            }
            self.done = !self.tree.next_leaf(&mut self.front);
        }
    }
}

impl<'a> DoubleEndedIterator for TreeWalk<'a> {
    fn next_back(&mut self) -> Option<TreeEntry<'a>> {
        loop {
            if self.done || self.is_exhausted() {
                self.done = true;
                return None;
            }
            if let Some(at) = self.back.at.checked_sub(1) {
                self.back.at = at;
                return TreeEntry::new(self.tree.leaves.get(self.back.leaf), at);
            }
            self.done = !self.tree.previous_leaf(&mut self.back);
        }
    }
}
