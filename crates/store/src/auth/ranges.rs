//! A set of key ranges, merged and sorted, so that one binary search says whether it covers another range.
//!
//! ```text
//! [a, c) [b, f) key k [k\0, m)      merged: [a, f) [k, m)
//! covers [b, e)? the last range that begins at b or before is [a, f), and it ends at e or after: yes
//! covers [e, l)? [a, f) ends before l: no, although both ends are in the set
//! ```
//!
//! Ranges that touch are one, as in etcd: who may read [a, c) and [c, e) may read [b, d).
//!
//! The bounds of a set lie one after the other in one allocation, so that a search among the ranges of one user of many
//! waits for memory once or twice, not at each comparison.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::types::RangePermission;

/// Where a range of the set ends: before a key, or never.
type RangeEnd = Option<Bytes>;

/// Ranges in order, none touching another. Only the last one may have no end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RangeSet {
    /// How many bounds there are: the start of the first range, its end, the start of the second, and so on.
    count: usize,
    /// Where each bound ends behind this table, u32 LE; then the bounds.
    packed: Box<[u8]>,
}

/// Bytes of an item of the table.
const OFFSET_BYTES: usize = size_of::<u32>();

/// What the users of some roles may read and write.
#[derive(Debug, Default)]
pub(crate) struct UserRanges {
    pub(super) read: RangeSet,
    pub(super) write: RangeSet,
    held: HeldBytes,
}

/// Accounted bytes of a set, for as long as it is there.
#[derive(Debug, Default)]
pub(super) struct HeldBytes {
    bytes: u64,
    total: Arc<AtomicU64>,
}

impl HeldBytes {
    /// Adds `bytes` to `total` until it is dropped.
    pub(super) fn new(bytes: u64, total: Arc<AtomicU64>) -> HeldBytes {
        total.fetch_add(bytes, Ordering::Relaxed);
        HeldBytes { bytes, total }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl UserRanges {
    /// Merges the permissions of all roles of a user.
    pub(super) fn of<'p>(permissions: impl Iterator<Item = &'p RangePermission> + Clone) -> UserRanges {
        let set = |admits: fn(&RangePermission) -> bool| {
            RangeSet::of(permissions.clone().filter(|permission| admits(permission)))
        };
        let (read, write) = (set(RangePermission::may_read), set(RangePermission::may_write));
        UserRanges { read, write, held: HeldBytes::default() }
    }

    /// Accounts the set for as long as it is there.
    pub(super) fn hold(&mut self, held: HeldBytes) {
        self.held = held;
    }

    /// Bytes in memory.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<UserRanges>() + self.read.packed.len() + self.write.packed.len()
    }

    /// Whether a key may be written.
    pub(crate) fn may_write(&self, key: &[u8]) -> bool {
        self.write.covers(key, &[])
    }
}

impl RangeSet {
    fn of<'p>(permissions: impl Iterator<Item = &'p RangePermission>) -> RangeSet {
        let mut ranges: Vec<(Bytes, RangeEnd)> = permissions.map(bounds).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(Bytes, RangeEnd)> = Vec::new();
        for (start, end) in ranges {
            match merged.last_mut() {
                Some((_, last)) if last.as_ref().is_none_or(|last| start <= *last) => {
                    if last.is_some() && ends_later(&end, last) {
                        *last = end;
                    }
                }
                _ => merged.push((start, end)),
            }
        }
        RangeSet::packed(&merged)
    }

    /// Whether the set covers a key, if `end` is empty, or a range in etcd's notation: an `end` of one zero byte is
    /// unbounded. A range without any key is covered if a range of the set has its start and begins before its end.
    pub(super) fn covers(&self, start: &[u8], end: &[u8]) -> bool {
        let Some(at) = self.search(|first| first <= start).checked_sub(1) else { return false };
        let first = self.bound(2 * at);
        let Some(last) = self.end(at) else { return end.is_empty() || end == [0] || first < end };
        match end {
            _ if start >= last => false,
            [] => true,
            [0] => false,
            end => first < end && end <= last,
        }
    }

    fn packed(ranges: &[(Bytes, RangeEnd)]) -> RangeSet {
        let bounds: Vec<&Bytes> =
            ranges.iter().flat_map(|(start, end)| std::iter::once(start).chain(end)).collect();
        let (mut packed, mut end) = (Vec::new(), 0);
        for bound in &bounds {
            end += bound.len();
            // More than 4 GiB of permissions of one user fit into no log entry and no checkpoint frame.
            let end = u32::try_from(end).expect("the permissions of a user are small");
            packed.extend_from_slice(&end.to_le_bytes());
        }
        bounds.iter().for_each(|bound| packed.extend_from_slice(bound));
        RangeSet { count: bounds.len(), packed: packed.into() }
    }

    /// How many ranges there are of whose first keys `is_before` says yes: those at the beginning.
    pub(super) fn search(&self, mut is_before: impl FnMut(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.count.div_ceil(2));
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.bound(2 * middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The end of the range number `at`; `None` if it has none.
    fn end(&self, at: usize) -> Option<&[u8]> {
        (2 * at + 1 < self.count).then(|| self.bound(2 * at + 1))
    }

    fn bound(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.offset(before));
        &self.packed[self.count * OFFSET_BYTES..][start..self.offset(number)]
    }

    /// Where a bound ends.
    fn offset(&self, number: usize) -> usize {
        let bytes =
            self.packed[number * OFFSET_BYTES..].first_chunk().expect("the table has an item for each bound");
        u32::from_le_bytes(*bytes) as usize
    }
}

/// The bounds of a permission: those of a single key if it has no end.
fn bounds(permission: &RangePermission) -> (Bytes, RangeEnd) {
    let start = permission.start.clone();
    match &permission.end[..] {
        [] => {
            let end = [&start[..], &[0]].concat();
            (start, Some(end.into()))
        }
        [0] => (start, None),
        _ => (start, Some(permission.end.clone())),
    }
}

fn ends_later(end: &RangeEnd, other: &RangeEnd) -> bool {
    match (end, other) {
        (None, other) => other.is_some(),
        (Some(_), None) => false,
        (Some(end), Some(other)) => end > other,
    }
}
