//! Walking keys in order, from either end.

use super::{Bounds, Keys, Path, Tree};

/// Slots in key order, each with whether its key is live. From the back with `rev()`.
pub(crate) struct Walk<'a> {
    tree: &'a Tree,
    front: Path,
    /// Exclusive.
    back: Path,
    done: bool,
}

impl Tree {
    /// The keys of `bounds`, dead ones too.
    pub(crate) fn walk(&self, keys: &impl Keys, bounds: &Bounds<'_>) -> Walk<'_> {
        let inverted = bounds.end.is_some_and(|end| end <= bounds.start);
        let front = self.seek(keys, bounds.start);
        let back = match bounds.end {
            Some(end) => self.seek(keys, end),
            None => self.end(),
        };
        Walk { tree: self, front, back, done: inverted }
    }

    /// The place behind the last key.
    fn end(&self) -> Path {
        let mut path = Path { found: false, steps: Default::default(), leaf: self.root, at: 0 };
        self.descend(&mut path, 0, self.root, true);
        path
    }

    /// Goes from `node` on `level` down to its first place, or behind its last.
    fn descend(&self, path: &mut Path, level: usize, mut node: u32, to_end: bool) {
        for step in &mut path.steps[level..self.height] {
            let inner = self.inners.get(node);
            step.inner = node;
            step.child = if to_end { inner.children.len() - 1 } else { 0 };
            node = inner.children[step.child];
        }
        path.leaf = node;
        path.at = if to_end { self.leaves.get(node).len() } else { 0 };
    }

    /// Moves to the first place of the next leaf.
    fn next_leaf(&self, path: &mut Path) -> bool {
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

    /// Moves behind the last place of the leaf before.
    fn previous_leaf(&self, path: &mut Path) -> bool {
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

impl Walk<'_> {
    fn met(&self) -> bool {
        self.front.leaf == self.back.leaf && self.front.at >= self.back.at
    }
}

impl Iterator for Walk<'_> {
    type Item = (u32, bool);

    fn next(&mut self) -> Option<(u32, bool)> {
        loop {
            if self.done || self.met() {
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

impl DoubleEndedIterator for Walk<'_> {
    fn next_back(&mut self) -> Option<(u32, bool)> {
        loop {
            if self.done || self.met() {
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
