//! The segments of the log, in order, and which of them are still needed.
//!
//! Recovery starts at the last segment whose opening is at or before the checkpoint, and replays from there:
//!
//! ```text
//!   checkpoint at entry 120
//!
//!   segment           2a          2b          2c          2d
//!   previous index    40          90          118         160
//!                                             ^ recovery starts here; 2a and 2b may be freed
//! ```
//!
//! A segment also serves raft (its entries above the base of the index) and carries the hard state in its opening.
//! Older segments are needless only if the opening of the segment that recovery would start at is durable.

use std::collections::{BTreeSet, VecDeque};

/// A segment of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSegment {
    pub(crate) number: u32,
    /// Index of the last entry before it.
    pub(crate) previous_index: u64,
    /// Position after its opening record. When this is durable, the segment carries the hard state.
    pub(crate) opened_at: u64,
}

/// All segments of the log by number, which is their order. The last one is being written, or was when the log ended.
pub(crate) struct SegmentChain {
    segments: VecDeque<LogSegment>,
}

impl SegmentChain {
    pub(crate) fn new(segments: impl Iterator<Item = LogSegment>) -> SegmentChain {
        SegmentChain { segments: segments.collect() }
    }

    pub(crate) fn newest(&self) -> Option<LogSegment> {
        self.segments.back().copied()
    }

    pub(crate) fn newest_number(&self) -> Option<u32> {
        self.segments.back().map(|segment| segment.number)
    }

    pub(crate) fn push(&mut self, segment: LogSegment) {
        assert!(self.newest_number().is_none_or(|newest| newest < segment.number), "segment numbers ascend");
        self.segments.push_back(segment);
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.segments.retain(|segment| segment.number != number);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LogSegment> {
        self.segments.iter()
    }

    /// The segment that holds the entries after `index`, and all later ones.
    pub(crate) fn replayed_after(&self, index: u64) -> BTreeSet<u32> {
        self.starting_at(|segment| segment.previous_index <= index)
    }

    /// The segments that are needed when entries up to `settled` are neither replayed nor asked for by raft: from the
    /// last one that begins at or before `settled` and durably carries the hard state.
    pub(crate) fn needed_after(&self, settled: u64, durable: u64) -> BTreeSet<u32> {
        self.starting_at(|segment| segment.previous_index <= settled && segment.opened_at <= durable)
    }

    /// The last segment for which `is_start` holds, and all later ones; all segments if it holds for none.
    fn starting_at(&self, is_start: impl Fn(&LogSegment) -> bool) -> BTreeSet<u32> {
        let start = self.segments.iter().rposition(is_start).unwrap_or(0);
        self.segments.iter().skip(start).map(|segment| segment.number).collect()
    }

    /// Walks the chain: numbers ascend, and each opening is in its own segment.
    pub(crate) fn check_all(&self) {
        assert!(self.segments.iter().is_sorted_by(|one, next| one.number < next.number), "numbers ascend");
        let strays =
            self.segments.iter().filter(|segment| segment.opened_at >> 32 != u64::from(segment.number));
        assert!(strays.count() == 0, "each segment has its own opening");
    }
}

#[cfg(test)]
mod tests {
    //! Which segments are needed.
    use super::*;
    use crate::types::address_at;

    fn chain() -> SegmentChain {
        let segment = |(number, previous_index)| LogSegment {
            number,
            previous_index,
            opened_at: address_at(number, 152),
        };
        SegmentChain::new([(0x2a, 40), (0x2b, 90), (0x2c, 118), (0x2d, 160)].into_iter().map(segment))
    }

    #[test]
    fn recovery_starts_at_the_last_opening_at_or_before_the_checkpoint() {
        assert_eq!(chain().replayed_after(120), BTreeSet::from([0x2c, 0x2d]));
        assert_eq!(chain().replayed_after(118), BTreeSet::from([0x2c, 0x2d]));
        assert_eq!(chain().replayed_after(117), BTreeSet::from([0x2b, 0x2c, 0x2d]));
        assert_eq!(chain().replayed_after(7).len(), 4, "all, if none begins early enough");
    }

    #[test]
    fn an_opening_that_is_not_durable_frees_nothing() {
        let durable = address_at(0x2c, 100);
        assert_eq!(chain().needed_after(120, durable), BTreeSet::from([0x2b, 0x2c, 0x2d]));
        assert_eq!(chain().needed_after(120, address_at(0x2c, 152)), BTreeSet::from([0x2c, 0x2d]));
    }
}
