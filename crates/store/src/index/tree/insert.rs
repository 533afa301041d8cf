//! Insertion, and splitting what became too large.

use super::{FANOUT, Inner, Key, Keys, Path, Tree};

/// A node that a split made, to be linked beside the old one.
struct Sprout {
    separator: Key,
    node: u32,
    left_live: u64,
    right_live: u64,
}

impl Tree {
    /// Inserts a live key at `path`, where a search for it ended without finding it.
    pub(crate) fn insert(&mut self, keys: &impl Keys, path: &Path, slot: u32) {
        assert!(!path.found, "a key is in the tree once");
        self.adjust(path, 1);
        let leaf = self.leaves.get_mut(path.leaf);
        if leaf.len() < FANOUT {
            leaf.insert(keys, path.at, slot, true);
            return;
        }
        let mut sprout = self.split_leaf(keys, path, slot);
        for step in path.steps[..self.height].iter().rev() {
            match self.link(step.inner, step.child, sprout) {
                Some(next) => sprout = next,
                None => return,
            }
        }
        self.grow(sprout);
    }

    /// Splits a full leaf and inserts `slot`. At the right edge of the tree the old leaf stays full: keys
    /// that arrive in order then fill the tree instead of leaving it half empty.
    fn split_leaf(&mut self, keys: &impl Keys, path: &Path, slot: u32) -> Sprout {
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
        let last_left = *left.slots().last().expect("the left half has slots");
        let separator = shortest_between(keys.key(last_left), keys.key(right.slots()[0]));
        let (left_live, right_live) = (left.live_count(), right.live_count());
        Sprout { separator, node: self.leaves.insert(right), left_live, right_live }
    }

    /// Links `sprout` to the right of child `child` of `inner`; splits `inner` when it is full.
    fn link(&mut self, inner: u32, child: usize, sprout: Sprout) -> Option<Sprout> {
        let node = self.inners.get_mut(inner);
        node.counts[child] = sprout.left_live;
        node.children.insert(child + 1, sprout.node);
        node.counts.insert(child + 1, sprout.right_live);
        node.separators.insert(child, sprout.separator);
        if node.children.len() <= FANOUT {
            return None;
        }
        let at_right_edge = child + 2 == node.children.len();
        let cut = if at_right_edge { FANOUT - 1 } else { FANOUT / 2 };
        let right = Inner {
            children: node.children.split_off(cut),
            counts: node.counts.split_off(cut),
            separators: node.separators.split_off(cut),
        };
        let separator = node.separators.pop().expect("one separator stood between the halves");
        let (left_live, right_live) = (node.live_count(), right.live_count());
        Some(Sprout { separator, node: self.inners.insert(right), left_live, right_live })
    }

    /// Puts a new root above the old one and its sprout.
    fn grow(&mut self, sprout: Sprout) {
        let root = Inner {
            children: vec![self.root, sprout.node],
            counts: vec![sprout.left_live, sprout.right_live],
            separators: vec![sprout.separator],
        };
        self.root = self.inners.insert(root);
        self.height += 1;
        assert!(self.height < super::MAX_HEIGHT, "the height is bounded by the number of slots");
    }
}

/// The shortest key above `left` and not above `right`: separators stay short however long keys are.
pub(super) fn shortest_between(left: &[u8], right: &[u8]) -> Key {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    Key::new(&right[..=common])
}
