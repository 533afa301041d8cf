//! Inner nodes, and what every part of the tree knows: the fan-out, and ranges of keys.

use crate::index::key::IndexKey;

/// Slots of a leaf, and children of an inner node: the width of a leaf's bitmap of live keys.
pub(crate) const FANOUT: usize = 64;

/// A half-open range of keys, with the API's special ends resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyBounds<'a> {
    /// The first key of the range.
    pub start: &'a [u8],
    /// The first key after the range; `None` if it has no end.
    pub end: Option<&'a [u8]>,
}

impl KeyBounds<'_> {
    /// All keys.
    pub(crate) const ALL: KeyBounds<'static> = KeyBounds { start: &[], end: None };
}

/// A node above the leaves.
#[derive(Default)]
pub(super) struct InnerNode {
    /// Numbers of nodes of the level below; those of leaves at the lowest inner level.
    pub(super) children: Vec<u32>,
    /// Live keys under each child.
    pub(super) counts: Vec<u64>,
    /// Separator `i` is above every key under child `i`, and not above any key under child `i + 1`.
    pub(super) separators: Vec<IndexKey>,
}

/// Memory of an inner node with all its children, without the heap allocations of separators. A node counts as full:
/// its lists grow by doubling, and it stays this large when children leave.
pub(super) const MAX_INNER_BYTES: usize =
    size_of::<InnerNode>() + FANOUT * (size_of::<u32>() + size_of::<u64>() + size_of::<IndexKey>());

impl InnerNode {
    /// The child under which `key` belongs.
    pub(super) fn child_of(&self, key: &[u8]) -> usize {
        self.separators.partition_point(|separator| separator.as_slice() <= key)
    }

    /// Live keys under this node.
    pub(super) fn live_count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A short key above `left` and not above `right`, which must be above `left`. Separators stay short even if keys are
/// long: between `/registry/pods/a` and `/registry/services/b` it is `/registry/s`.
pub(super) fn shortest_between(left: &[u8], right: &[u8]) -> IndexKey {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    IndexKey::new(&right[..=common])
}
