//! Appending whole leaves: the keys of a restored state come in order, and are gathered until they fill one.

use super::gathered_keys::GatheredKeys;
use super::insert::SplitNode;
use super::key_tree::KeyTree;
use super::leaf::LeafNode;
use super::node::shortest_between;

impl KeyTree {
    /// Takes the gathered keys as a leaf at the end of the tree: all are above those that it has, and live. Their slots
    /// ascend from `slot` on.
    pub(crate) fn append(&mut self, keys: &mut GatheredKeys, slot: u32) {
        let Some(last) = keys.len().checked_sub(1) else { return };
        let (first, count) = (keys.get(0), last + 1);
        let leaf = LeafNode::of(keys, slot);
        let path = self.seek(first);
        assert!(!path.found && self.is_end(&path), "keys are appended in order");
        self.adjust(&path, count as i64);
        self.keys += count;
        self.key_heap_bytes += leaf.heap_bytes();
        let before = self.leaves.get_mut(path.leaf);
        if before.len() == 0 {
            // Only the root of an empty tree is an empty leaf.
            *before = leaf;
            self.note_leaves(path.leaf);
        } else {
            let separator = shortest_between(&before.key(before.len() - 1), first);
            let left_live = before.live_count();
            self.separator_heap_bytes += separator.heap_bytes();
            let right_live = leaf.live_count();
            let node = self.leaves.insert(leaf);
            self.note_leaves(node);
            self.link_up(&path, SplitNode { separator, node, left_live, right_live });
        }
        keys.clear();
    }
}
