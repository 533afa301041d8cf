//! An interval tree of key ranges: finds the ranges that contain a key in O(log ranges + ranges found).
//!
//! It is a treap, ordered by (start, end), in which each node stores the greatest end of its subtree:
//!
//! ```text
//!               [f, k)  greatest end z           which ranges contain "h"?
//!              /      \                            left:  greatest end g <= h: skip the subtree
//!      [a, g) g        [h, m) z                  root:  f <= h < k: found
//!                            \                     right: h <= h < m: found; then [p, z): starts after h, stop
//!                             [p, z) z
//! ```
//!
//! The shape of the tree follows from the priorities alone: the tree is balanced with overwhelming probability if they
//! are independent of the ranges. Clients choose the ranges and the order of their requests, so a client that could
//! compute the priorities could make the tree a list, with quadratic cost and as deep a recursion. Therefore priorities
//! are drawn from a generator that begins at a seed of this process, which no answer shows. The module reads no
//! entropy: the caller passes the seed in.
//!
//! ```text
//!   priorities known: 9 7 4 2          the client asks for [d, ..) [c, ..) [b, ..) [a, ..):  d - c - b - a, a list
//!   with another seed: 3 8 1 6         the same requests                                     c - (a - (b), d)
//! ```

use std::cmp::Ordering;

use bytes::Bytes;

/// The end of a range. The order of the variants is the order of the ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IntervalEnd {
    /// The first key after the range.
    Before(Bytes),
    /// The range has no end.
    Unbounded,
}

impl IntervalEnd {
    fn is_past(&self, key: &[u8]) -> bool {
        match self {
            IntervalEnd::Before(end) => end.as_ref() > key,
            IntervalEnd::Unbounded => true,
        }
    }
}

/// A map from distinct ranges to values.
pub(super) struct IntervalTree<V> {
    root: IntervalLink<V>,
    priorities: SplitMix64,
}

type IntervalLink<V> = Option<Box<IntervalNode<V>>>;

struct IntervalNode<V> {
    start: Bytes,
    end: IntervalEnd,
    greatest_end: IntervalEnd,
    priority: u64,
    value: V,
    left: IntervalLink<V>,
    right: IntervalLink<V>,
}

impl<V> IntervalTree<V> {
    /// An empty tree. The clients who choose the ranges must not know the seed.
    pub(super) fn new(seed: u64) -> Self {
        Self { root: None, priorities: SplitMix64 { state: seed } }
    }

    /// The value of exactly this range.
    pub(super) fn get_mut(&mut self, start: &[u8], end: &IntervalEnd) -> Option<&mut V> {
        let mut link = &mut self.root;
        while let Some(node) = link {
            match node.compare(start, end) {
                Ordering::Equal => return Some(&mut node.value),
                Ordering::Less => link = &mut node.right,
                Ordering::Greater => link = &mut node.left,
            }
        }
        None
    }

    /// Adds a range, which must not be present.
    pub(super) fn insert(&mut self, start: Bytes, end: IntervalEnd, value: V) {
        let (left, right) = split(self.root.take(), &start, &end);
        let greatest_end = end.clone();
        let priority = self.priorities.next();
        let node =
            Box::new(IntervalNode { start, end, greatest_end, priority, value, left: None, right: None });
        self.root = merge(merge(left, Some(node)), right);
    }

    /// Removes a range.
    pub(super) fn remove(&mut self, start: &[u8], end: &IntervalEnd) -> Option<V> {
        remove(&mut self.root, start, end)
    }

    /// Calls `visit` with the value of each range that contains `key`, in order of (start, end).
    pub(super) fn stab(&self, key: &[u8], visit: &mut impl FnMut(&V)) {
        stab(&self.root, key, visit);
    }
}

impl<V> IntervalNode<V> {
    fn compare(&self, start: &[u8], end: &IntervalEnd) -> Ordering {
        self.start.as_ref().cmp(start).then_with(|| self.end.cmp(end))
    }

    /// Recomputes the greatest end from the children.
    fn refresh(&mut self) {
        let children = [&self.left, &self.right];
        let ends = children.into_iter().flatten().map(|child| &child.greatest_end);
        let greatest = ends.fold(&self.end, Ord::max).clone();
        self.greatest_end = greatest;
    }
}

/// Splits a treap into the ranges below (start, end) and the others.
fn split<V>(link: IntervalLink<V>, start: &[u8], end: &IntervalEnd) -> (IntervalLink<V>, IntervalLink<V>) {
    let Some(mut node) = link else { return (None, None) };
    if node.compare(start, end) == Ordering::Less {
        let (low, high) = split(node.right.take(), start, end);
        node.right = low;
        node.refresh();
        (Some(node), high)
    } else {
        let (low, high) = split(node.left.take(), start, end);
        node.left = high;
        node.refresh();
        (low, Some(node))
    }
}

/// Joins two treaps; every range of `low` is below every range of `high`.
fn merge<V>(low: IntervalLink<V>, high: IntervalLink<V>) -> IntervalLink<V> {
    match (low, high) {
        (None, link) | (link, None) => link,
        (Some(mut low), Some(high)) if low.priority >= high.priority => {
            low.right = merge(low.right.take(), Some(high));
            low.refresh();
            Some(low)
        }
        (Some(low), Some(mut high)) => {
            high.left = merge(Some(low), high.left.take());
            high.refresh();
            Some(high)
        }
    }
}

fn remove<V>(link: &mut IntervalLink<V>, start: &[u8], end: &IntervalEnd) -> Option<V> {
    let node = link.as_mut()?;
    let removed = match node.compare(start, end) {
        Ordering::Less => remove(&mut node.right, start, end),
        Ordering::Greater => remove(&mut node.left, start, end),
        Ordering::Equal => {
            let node = *link.take()?;
            *link = merge(node.left, node.right);
            return Some(node.value);
        }
    };
    node.refresh();
    removed
}

fn stab<V>(link: &IntervalLink<V>, key: &[u8], visit: &mut impl FnMut(&V)) {
    let Some(node) = link else { return };
    if !node.greatest_end.is_past(key) {
        return;
    }
    stab(&node.left, key, visit);
    if node.start.as_ref() > key {
        return;
    }
    if node.end.is_past(key) {
        visit(&node.value);
    }
    stab(&node.right, key, visit);
}

/// The generator SplitMix64: a counter in steps of an odd constant, spread over all 64 bits.
struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Starts of ranges that rise and fall with the priorities of a seed.
#[cfg(test)]
pub(super) fn starts_against(seed: u64) -> impl Iterator<Item = Bytes> {
    let mut known = SplitMix64 { state: seed };
    std::iter::repeat_with(move || Bytes::copy_from_slice(&known.next().to_be_bytes()))
}

#[cfg(test)]
impl<V> IntervalTree<V> {
    /// Nodes on the longest way down.
    pub(super) fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut to_visit: Vec<_> = self.root.iter().map(|root| (root, 1)).collect();
        while let Some((node, depth)) = to_visit.pop() {
            deepest = deepest.max(depth);
            to_visit.extend([&node.left, &node.right].into_iter().flatten().map(|child| (child, depth + 1)));
        }
        deepest
    }
}

#[cfg(test)]
mod tests {
    //! Ranges chosen against one seed make a list with that seed, and a shallow tree with every other.
    use super::*;

    /// A tree with `seed` of as many ranges, chosen against seed 0.
    fn chosen_against_seed_0(seed: u64, ranges: usize) -> IntervalTree<()> {
        let mut tree = IntervalTree::new(seed);
        starts_against(0).take(ranges).for_each(|start| tree.insert(start, IntervalEnd::Unbounded, ()));
        tree
    }

    #[test]
    fn chosen_ranges_make_a_list_only_where_the_seed_is_known() {
        assert_eq!(chosen_against_seed_0(0, 1_000).depth(), 1_000, "the choice is as bad as it can be");
        for seed in [1, 2, u64::MAX, 0xF00D] {
            let depth = chosen_against_seed_0(seed, 40_000).depth();
            assert!(depth <= 64, "four times the depth of a perfect tree, not {depth} for seed {seed}");
        }
    }
}
