//! Building a whole tree from keys in ascending order, level by level.

use super::key_tree::KeyTree;
use super::leaf::LeafNode;
use super::node::{FANOUT, InnerNode, SlotKeys, shortest_between};
use crate::index::key::IndexKey;
use crate::index::slab::Slab;

/// Entries of a built node: nearly full, with room for a few insertions.
const BUILT_LEN: usize = FANOUT * 15 / 16;

/// A finished node, to be added to its parent.
struct BuiltNode {
    /// Separates it from the node before it; unused for the first of a level.
    separator: IndexKey,
    node: u32,
    live: u64,
}

impl KeyTree {
    /// A tree of `slots`, which must be in strictly ascending order of their keys; `live` tells which keys are live.
    pub(crate) fn from_sorted(keys: &impl SlotKeys, slots: &[u32], live: impl Fn(u32) -> bool) -> KeyTree {
        if slots.is_empty() {
            return KeyTree::default();
        }
        let mut tree = KeyTree {
            inners: Slab::default(),
            leaves: Slab::default(),
            root: 0,
            height: 0,
            live: 0,
            separator_heap_bytes: 0,
        };
        let mut level = tree.build_leaves(keys, slots, live);
        tree.live = level.iter().map(|built| built.live).sum();
        while level.len() > 1 {
            level = tree.build_level(level);
            tree.height += 1;
        }
        tree.root = level[0].node;
        tree
    }

    fn build_leaves(
        &mut self,
        keys: &impl SlotKeys,
        slots: &[u32],
        live: impl Fn(u32) -> bool,
    ) -> Vec<BuiltNode> {
        let mut last: Option<u32> = None;
        let mut level = Vec::with_capacity(slots.len() / BUILT_LEN + 1);
        for group in slots.chunks(BUILT_LEN) {
            let leaf = LeafNode::built(keys, group, &live);
            let separator = match last {
                Some(last) => shortest_between(keys.key(last), keys.key(group[0])),
                None => IndexKey::default(),
            };
            last = group.last().copied();
            let live = leaf.live_count();
            level.push(BuiltNode { separator, node: self.leaves.insert(leaf), live });
        }
        level
    }

    fn build_level(&mut self, below: Vec<BuiltNode>) -> Vec<BuiltNode> {
        let mut level = Vec::with_capacity(below.len() / BUILT_LEN + 1);
        let mut below = below.into_iter();
        while let Some(first) = below.next() {
            let mut inner = InnerNode::default();
            inner.children.push(first.node);
            inner.counts.push(first.live);
            for built in below.by_ref().take(BUILT_LEN - 1) {
                inner.children.push(built.node);
                inner.counts.push(built.live);
                self.separator_heap_bytes += built.separator.heap_bytes();
                inner.separators.push(built.separator);
            }
            let live = inner.live_count();
            level.push(BuiltNode { separator: first.separator, node: self.inners.insert(inner), live });
        }
        level
    }
}
