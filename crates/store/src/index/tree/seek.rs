//! Descending to a key, and counting live keys on the way.

use super::key_tree::{KeyTree, MAX_HEIGHT, PathStep, TreePath};
use super::node::KeyBounds;

impl KeyTree {
    /// The position of `key`, or where it would be inserted.
    pub(crate) fn seek(&self, key: &[u8]) -> TreePath {
        let mut steps = [PathStep::default(); MAX_HEIGHT];
        let mut node = self.root;
        for step in &mut steps[..self.height] {
            let inner = self.inners.get(node);
            let child = inner.child_of(key);
            *step = PathStep { inner: node, child };
            node = inner.children[child];
        }
        let (at, found) = match self.leaves.get(node).search(key) {
            Ok(at) => (at, true),
            Err(at) => (at, false),
        };
        TreePath { found, steps, leaf: node, at }
    }

    /// The number of live keys below `key`.
    pub(crate) fn rank(&self, key: &[u8]) -> u64 {
        let mut below = 0;
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = self.inners.get(node);
            let child = inner.child_of(key);
            below += inner.counts[..child].iter().sum::<u64>();
            node = inner.children[child];
        }
        let leaf = self.leaves.get(node);
        below + leaf.live_before(leaf.search(key).unwrap_or_else(|at| at))
    }

    /// The number of live keys in `bounds`; 0 if they are inverted.
    pub(crate) fn count(&self, bounds: &KeyBounds<'_>) -> u64 {
        let end = bounds.end.map_or(self.live, |end| self.rank(end));
        end.saturating_sub(self.rank(bounds.start))
    }
}
