//! Removal of dead keys, and merging what became too small.

use super::{FANOUT, Keys, MAX_MERGED, MERGE_BELOW, Path, Tree};

/// Whether two neighbours with these sizes become one.
fn should_merge(left: usize, right: usize) -> bool {
    left.min(right) < MERGE_BELOW && left + right <= MAX_MERGED || left.min(right) == 0
}

impl Tree {
    /// Takes the dead key that was found at `path` out.
    pub(crate) fn remove(&mut self, keys: &impl Keys, path: &Path) {
        assert!(path.found, "only what is there is removed");
        let leaf = self.leaves.get_mut(path.leaf);
        assert!(!leaf.is_live(path.at), "a live key is counted and cannot be removed");
        leaf.remove(path.at);
        if leaf.len() >= MERGE_BELOW {
            return;
        }
        for level in (0..self.height).rev() {
            let step = path.steps[level];
            let lowest = level + 1 == self.height;
            if !self.merge_around(keys, step.inner, step.child, lowest) {
                break;
            }
            if self.inners.get(step.inner).children.len() >= MERGE_BELOW {
                break;
            }
        }
        self.shrink();
    }

    /// Merges child `child` of `inner` with a neighbour, if they are small enough. Returns whether it did.
    fn merge_around(&mut self, keys: &impl Keys, inner: u32, child: usize, lowest: bool) -> bool {
        let children = self.inners.get(inner).children.len();
        let lefts = [child.checked_sub(1), (child + 1 < children).then_some(child)];
        lefts.into_iter().flatten().any(|left| self.merge(keys, inner, left, lowest))
    }

    /// Merges children `left` and `left + 1` of `inner`, if they are small enough.
    fn merge(&mut self, keys: &impl Keys, inner: u32, left: usize, lowest: bool) -> bool {
        let node = self.inners.get(inner);
        let (left_node, right_node) = (node.children[left], node.children[left + 1]);
        let merged = if lowest {
            self.merge_leaves(keys, left_node, right_node)
        } else {
            self.merge_inners(inner, left)
        };
        if !merged {
            return false;
        }
        let node = self.inners.get_mut(inner);
        node.children.remove(left + 1);
        node.separators.remove(left);
        let count = node.counts.remove(left + 1);
        node.counts[left] += count;
        true
    }

    fn merge_leaves(&mut self, keys: &impl Keys, left: u32, right: u32) -> bool {
        if !should_merge(self.leaves.get(left).len(), self.leaves.get(right).len()) {
            return false;
        }
        let upper = self.leaves.remove(right);
        self.leaves.get_mut(left).append(keys, &upper);
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
        lower.separators.push(separator);
        lower.separators.append(&mut upper.separators);
        true
    }

    /// Takes roots with a single child away.
    fn shrink(&mut self) {
        while self.height > 0 && self.inners.get(self.root).children.len() == 1 {
            let old = self.inners.remove(self.root);
            self.root = old.children[0];
            self.height -= 1;
        }
    }
}
