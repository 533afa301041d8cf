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
//! Priorities come from a counter through a mixing function. They need no entropy, and clients cannot easily unbalance
//! the tree by the order of their requests.

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
    inserted: u64,
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
    pub(super) fn new() -> Self {
        Self { root: None, inserted: 0 }
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
        self.inserted += 1;
        let (left, right) = split(self.root.take(), &start, &end);
        let greatest_end = end.clone();
        let priority = mix(self.inserted);
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

/// The finalizer of SplitMix64, which spreads a counter over all 64 bits.
fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
