//! How much can be appended without another file: the room in the active segment and in those that are ready.
//!
//! A write job never makes a file and never lengthens one, so a full disk cannot fail it. The owner asks for room
//! before it appends, and what does not fit waits until another segment is ready:
//!
//! ```text
//!   records 30 KB, 30 KB     active: 40 KB left     ready: 2c (64 KB)     both fit: one here, one in 2c
//!   records 30 KB, 70 KB     active: 40 KB left     ready: 2c (64 KB)     a segment of more than 70 KB is missing
//! ```
//!
//! Some room can be kept for others, who find it when the rest is used up.

use crate::format::{END_BYTES, HARD_STATE_BYTES, HEADER_BYTES, SegmentOpening, entry_span, span};

/// Room kept at the end of a segment for a seal, which therefore never needs another segment and never reaches the end
/// of the file.
pub(crate) const SEAL_ROOM_BYTES: u64 = span(0) + END_BYTES;

/// Bytes of a segment that no record but its opening and its last seal can have.
pub(crate) const SEGMENT_OVERHEAD_BYTES: u64 = HEADER_BYTES + span(SegmentOpening::BYTES) + SEAL_ROOM_BYTES;

/// The sizes of records that are to be appended together, in order; see [`crate::Log::make_room`].
#[derive(Debug, Clone, Default)]
pub struct RecordSizes {
    spans: Vec<u64>,
}

impl RecordSizes {
    /// Adds a hard state.
    pub fn add_hard_state(&mut self) {
        self.spans.push(span(HARD_STATE_BYTES));
    }

    /// Adds an entry with a payload of so many bytes.
    pub fn add_entry(&mut self, payload_bytes: u64) {
        self.spans.push(entry_span(payload_bytes));
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.spans.clear();
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = u64> + '_ {
        self.spans.iter().copied()
    }
}

/// Segments that must be made ready before records fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissingSegments {
    /// How many.
    pub(crate) count: usize,
    /// Bytes of each.
    pub(crate) bytes: u64,
}

/// What is missing for records of these spans, and `kept` bytes after them. `active` are the bytes that records may
/// still have in the active segment, `ready` the lengths of the segments that can follow it, in order; `segment_bytes`
/// is the usual length.
pub(crate) fn missing(
    spans: impl IntoIterator<Item = u64>,
    kept: u64,
    active: u64,
    ready: impl IntoIterator<Item = u64>,
    segment_bytes: u64,
) -> Option<MissingSegments> {
    let mut ready = ready.into_iter();
    let mut missing = MissingSegments { count: 0, bytes: segment_bytes };
    let mut rest = active;
    for span in spans {
        if span > rest {
            // A segment that is too short for the record is skipped, as when it is written.
            let needed = SEGMENT_OVERHEAD_BYTES + span;
            let bytes = ready.find(|bytes| *bytes >= needed).unwrap_or_else(|| {
                missing.count += 1;
                missing.bytes = missing.bytes.max(needed);
                missing.bytes
            });
            rest = bytes - SEGMENT_OVERHEAD_BYTES;
        }
        rest -= span;
    }
    let mut left = rest + ready.map(record_bytes).sum::<u64>();
    while left < kept {
        missing.count += 1;
        left += record_bytes(missing.bytes).max(1);
    }
    (missing.count > 0).then_some(missing)
}

/// Bytes that records may have in an empty segment of this length.
pub(crate) fn record_bytes(segment_bytes: u64) -> u64 {
    segment_bytes.saturating_sub(SEGMENT_OVERHEAD_BYTES)
}

#[cfg(test)]
mod tests {
    //! Which records fit, and what is missing for the others.
    use super::*;

    const SEGMENT: u64 = 4096;
    const EMPTY: u64 = SEGMENT - SEGMENT_OVERHEAD_BYTES;

    fn count(spans: &[u64], kept: u64, active: u64, ready: &[u64]) -> Option<(usize, u64)> {
        let missing = missing(spans.iter().copied(), kept, active, ready.iter().copied(), SEGMENT);
        missing.map(|missing| (missing.count, missing.bytes))
    }

    #[test]
    fn records_fill_the_active_segment_and_then_those_that_are_ready() {
        assert_eq!(count(&[96, 104], 0, 200, &[]), None);
        assert_eq!(count(&[96, 112], 0, 200, &[]), Some((1, SEGMENT)));
        assert_eq!(count(&[96, 112], 0, 200, &[SEGMENT]), None);
        assert_eq!(count(&[EMPTY, EMPTY, 8], 0, 0, &[SEGMENT]), Some((2, SEGMENT)));
    }

    #[test]
    fn a_record_longer_than_a_segment_passes_over_those_that_are_too_short() {
        let long = 3 * SEGMENT;
        assert_eq!(count(&[long], 0, 200, &[SEGMENT]), Some((1, long + SEGMENT_OVERHEAD_BYTES)));
        assert_eq!(count(&[long], 0, 200, &[SEGMENT, 4 * SEGMENT]), None);
    }

    #[test]
    fn what_is_kept_for_others_must_be_left_after_the_records() {
        assert_eq!(count(&[96], EMPTY, 96, &[SEGMENT]), None);
        assert_eq!(count(&[104], EMPTY, 96, &[SEGMENT]), Some((1, SEGMENT)));
        assert_eq!(count(&[], 2 * EMPTY, 0, &[]), Some((2, SEGMENT)));
    }
}
