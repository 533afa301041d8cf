//! Key ranges that can be asked "who contains this key?" in O(log ranges + answers).
//!
//! A treap ordered by (start, end) in which each node knows the greatest end of its subtree. Priorities come
//! from a counter through a mixing function: no entropy, and no order of insertion by clients that could
//! unbalance it cheaply.
use std::cmp::Ordering;

use bytes::Bytes;

/// Where a range ends. The order of the variants is the order of the ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// The first key past the range.
    Before(Bytes),
    /// The range has all keys from its start.
    Unbounded,
}

impl End {
    fn is_past(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => end.as_ref() > key,
            End::Unbounded => true,
        }
    }
}

/// A map from distinct ranges to values.
pub(super) struct Intervals<V> {
    root: Link<V>,
    inserted: u64,
}

type Link<V> = Option<Box<Node<V>>>;

struct Node<V> {
    start: Bytes,
    end: End,
    greatest_end: End,
    priority: u64,
    value: V,
    left: Link<V>,
    right: Link<V>,
}

impl<V> Intervals<V> {
    pub(super) fn new() -> Self {
        Self { root: None, inserted: 0 }
    }

    /// The value of exactly this range.
    pub(super) fn get_mut(&mut self, start: &[u8], end: &End) -> Option<&mut V> {
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

    /// Adds a range that is not present yet.
    pub(super) fn insert(&mut self, start: Bytes, end: End, value: V) {
        self.inserted += 1;
        let (left, right) = split(self.root.take(), &start, &end);
        let greatest_end = end.clone();
        let priority = mix(self.inserted);
        let node = Box::new(Node { start, end, greatest_end, priority, value, left: None, right: None });
        self.root = merge(merge(left, Some(node)), right);
    }

    /// Takes a range out.
    pub(super) fn remove(&mut self, start: &[u8], end: &End) -> Option<V> {
        remove(&mut self.root, start, end)
    }

    /// Calls `visit` with the value of each range that contains `key`, in order of (start, end).
    pub(super) fn stab(&self, key: &[u8], visit: &mut impl FnMut(&V)) {
        stab(&self.root, key, visit);
    }
}

impl<V> Node<V> {
    fn compare(&self, start: &[u8], end: &End) -> Ordering {
        self.start.as_ref().cmp(start).then_with(|| self.end.cmp(end))
    }

    fn refresh(&mut self) {
        let children = [&self.left, &self.right];
        let ends = children.into_iter().flatten().map(|child| &child.greatest_end);
        let greatest = ends.fold(&self.end, Ord::max).clone();
        self.greatest_end = greatest;
    }
}

/// Splits into the ranges below (start, end) and the rest.
fn split<V>(link: Link<V>, start: &[u8], end: &End) -> (Link<V>, Link<V>) {
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

/// Joins two treaps of which all of `low` is below all of `high`.
fn merge<V>(low: Link<V>, high: Link<V>) -> Link<V> {
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

fn remove<V>(link: &mut Link<V>, start: &[u8], end: &End) -> Option<V> {
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

fn stab<V>(link: &Link<V>, key: &[u8], visit: &mut impl FnMut(&V)) {
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

/// The finalizer of SplitMix64: spreads a counter over all 64 bits.
fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
