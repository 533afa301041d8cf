//! Building a whole tree from keys that come in order.

use super::insert::shortest_between;
use super::{FANOUT, Inner, Key, Keys, Leaf, Slab, Tree};

/// How full built nodes are: nearly, with room for the first insertions.
const BUILT_LEN: usize = FANOUT * 15 / 16;

/// A finished node on its way to its parent.
struct Built {
    /// Separates it from what is before it; unused for the first of a level.
    separator: Key,
    node: u32,
    live: u64,
}

impl Tree {
    /// A tree of `slots`, which must be in strictly ascending order of their keys; `live` says which are.
    pub(crate) fn from_sorted(keys: &impl Keys, slots: &[u32], live: impl Fn(u32) -> bool) -> Tree {
        if slots.is_empty() {
            return Tree::default();
        }
        let mut tree = Tree { leaves: Slab::default(), inners: Slab::default(), root: 0, height: 0, live: 0 };
        let mut level = tree.build_leaves(keys, slots, live);
        tree.live = level.iter().map(|built| built.live).sum();
        while level.len() > 1 {
            level = tree.build_level(level);
            tree.height += 1;
        }
        tree.root = level[0].node;
        tree
    }

    fn build_leaves(&mut self, keys: &impl Keys, slots: &[u32], live: impl Fn(u32) -> bool) -> Vec<Built> {
        let mut last: Option<u32> = None;
        let mut level = Vec::with_capacity(slots.len() / BUILT_LEN + 1);
        for group in slots.chunks(BUILT_LEN) {
            let leaf = Leaf::built(keys, group, &live);
            let separator = match last {
                Some(last) => shortest_between(keys.key(last), keys.key(group[0])),
                None => Key::default(),
            };
            last = group.last().copied();
            let live = leaf.live_count();
            level.push(Built { separator, node: self.leaves.insert(leaf), live });
        }
        level
    }

    fn build_level(&mut self, below: Vec<Built>) -> Vec<Built> {
        let mut level = Vec::with_capacity(below.len() / BUILT_LEN + 1);
        let mut below = below.into_iter();
        while let Some(first) = below.next() {
            let mut inner = Inner::default();
            inner.children.push(first.node);
            inner.counts.push(first.live);
            for built in below.by_ref().take(BUILT_LEN - 1) {
                inner.children.push(built.node);
                inner.counts.push(built.live);
                inner.separators.push(built.separator);
            }
            let live = inner.live_count();
            level.push(Built { separator: first.separator, node: self.inners.insert(inner), live });
        }
        level
    }
}
