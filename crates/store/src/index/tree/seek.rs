//! Going down: to a key, and counting on the way.

use super::{Bounds, Inner, Keys, MAX_HEIGHT, Path, Step, Tree};

impl Inner {
    /// The child under which `key` belongs.
    fn child_of(&self, key: &[u8]) -> usize {
        self.separators.partition_point(|separator| separator.as_slice() <= key)
    }
}

impl Tree {
    /// The place of `key`, or where it would be inserted.
    pub(crate) fn seek(&self, keys: &impl Keys, key: &[u8]) -> Path {
        let mut steps = [Step::default(); MAX_HEIGHT];
        let mut node = self.root;
        for step in &mut steps[..self.height] {
            let inner = self.inners.get(node);
            let child = inner.child_of(key);
            *step = Step { inner: node, child };
            node = inner.children[child];
        }
        let (at, found) = match self.leaves.get(node).search(keys, key) {
            Ok(at) => (at, true),
            Err(at) => (at, false),
        };
        Path { found, steps, leaf: node, at }
    }

    /// Live keys below `key`.
    pub(crate) fn rank(&self, keys: &impl Keys, key: &[u8]) -> u64 {
        let mut below = 0;
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = self.inners.get(node);
            let child = inner.child_of(key);
            below += inner.counts[..child].iter().sum::<u64>();
            node = inner.children[child];
        }
        let leaf = self.leaves.get(node);
        below + leaf.live_before(leaf.search(keys, key).unwrap_or_else(|at| at))
    }

    /// Live keys in `bounds`; none when they are inverted.
    pub(crate) fn count(&self, keys: &impl Keys, bounds: &Bounds<'_>) -> u64 {
        let end = bounds.end.map_or(self.live, |end| self.rank(keys, end));
        end.saturating_sub(self.rank(keys, bounds.start))
    }
}
