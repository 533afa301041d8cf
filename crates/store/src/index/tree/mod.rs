//! A counted B+ tree of slots, in the order of the keys that the slots stand for.
//!
//! A [leaf] stores up to 64 slots (4 bytes each), [their keys](leaf_keys) without the beginning that all of them
//! share, and a bit that tells whether a key is live. An [inner node](node) stores for each child the number of live
//! keys under it. The number of live keys below a key K then takes one descent: the counts of the children to the left
//! on the way down, plus one population count.
//!
//! ```text
//!                inner   children  [ leaf 0 | leaf 1 | leaf 2 ]    separators  [ "f", "m" ]
//!                        counts    [   3    |   1    |   2    ]
//!
//! leaf 0: a b c d, live 1 1 0 1      leaf 1: f g, live 0 1      leaf 2: m p, live 1 1
//!
//! live keys below "g": descend to leaf 1 -> 3 + (live bits before g: 0) = 3
//! live keys in [b, p): (3 + 1 + 1) - 1 = 4
//! ```
//!
//! Nodes are in slabs and refer to each other by number, so the tree is safe Rust without reference counting. Nothing
//! else has the keys: for the way back from a slot to its key the tree notes in which leaf each slot is, and looks the
//! slot up there. Inner nodes have shortened separators.
//!
//! Invariants, checked by the tests and in part by `KeyIndex::check_all`:
//! - keys in a leaf ascend; separator `i` is above all keys under child `i`, and not above any under child `i + 1`;
//! - the count of a child is the number of live bits under it;
//! - each slot is in the leaf that is noted for it;
//! - all leaves have the same depth; a leaf is empty only if it has no sibling to merge with.

mod append;
mod gathered_keys;
mod insert;
mod key_tree;
mod leaf;
mod leaf_keys;
mod node;
mod remove;
mod seek;
mod walk;

#[cfg(test)]
mod tests;

pub(crate) use gathered_keys::GatheredKeys;
pub(crate) use key_tree::{KeyTree, TreePath};
pub(crate) use node::KeyBounds;
pub(crate) use walk::TreeEntry;
