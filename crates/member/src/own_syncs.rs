//! When this member's own log wrote the entries that are about to be applied, and when it had them on disk.
//!
//! For metrics and traces alone: nothing is decided by it. No clock is read for it either. A step knows its time, plans
//! writes, and learns which writes are synced; this remembers both times for the entries of a write until they are
//! applied.
//!
//! ```text
//! time 100   write 7, entries 41..=43     written(7, (41, 43), 100)
//! time 180   the log is durable           synced(7, 180)
//! time 250   entry 42 is applied          applied(42, 250) = began 150 before, ended 70 before
//! ```
//!
//! Entries are applied in their order, and never before they are on this member's disk. On a follower a sync may lie
//! long before that: it ended when the leader was told, and the commit index comes later. What was written before the
//! process started is not known.

use std::collections::VecDeque;

use consensus::Entry;

/// Writes that are remembered. As many may be synced and not applied on a member that lags behind; of more, the oldest
/// are forgotten, and their entries have no times. 40 bytes each.
const MAX_WRITES: usize = 1_024;

/// When a member's own log had an entry on disk, in microseconds before the step that answered it.
///
/// Eight bytes, because each answer carries one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnSync {
    /// The step that gave the write to the log: so long before. 0 if it is not known.
    pub began_us: u32,
    /// The step that learned that it is on disk: so long before.
    pub ended_us: u32,
}

/// The entries of one write.
#[derive(Debug)]
struct WrittenEntries {
    /// The number of the write.
    number: u64,
    first: u64,
    last: u64,
    written_ns: u64,
    /// 0 until it is synced.
    synced_ns: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct OwnSyncs {
    /// By ascending number and index.
    writes: VecDeque<WrittenEntries>,
}

impl OwnSyncs {
    /// The write of this number gives entries to the log now. They replace those that had their indexes.
    pub(crate) fn written(&mut self, number: u64, entries: &[Entry], now_ns: u64) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let (first, last) = (first.index, last.index);
        while self.writes.pop_back_if(|write| write.first >= first).is_some() {}
        if let Some(cut) = self.writes.back_mut() {
            cut.last = cut.last.min(first - 1);
        }
        if self.writes.len() == MAX_WRITES {
            self.writes.pop_front();
        }
        self.writes.push_back(WrittenEntries { number, first, last, written_ns: now_ns, synced_ns: 0 });
    }

    /// The writes up to this number are known to be synced now.
    pub(crate) fn synced(&mut self, number: u64, now_ns: u64) {
        let end = self.writes.partition_point(|write| write.number <= number);
        let unsynced = self.writes.range_mut(..end).rev().take_while(|write| write.synced_ns == 0);
        unsynced.for_each(|write| write.synced_ns = now_ns);
    }

    /// The entry of this index is applied now; those before it are forgotten.
    pub(crate) fn applied(&mut self, index: u64, now_ns: u64) -> OwnSync {
        while self.writes.pop_front_if(|write| write.last < index).is_some() {}
        match self.writes.front() {
            Some(write) if write.first <= index && write.synced_ns > 0 => {
                let before_us =
                    |ns: u64| u32::try_from(now_ns.saturating_sub(ns).div_ceil(1_000)).unwrap_or(u32::MAX);
                OwnSync { began_us: before_us(write.written_ns), ended_us: before_us(write.synced_ns) }
            }
            _ => OwnSync::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Each entry has the times of the write that put it on disk, and of no other.
    use consensus::EntryKind;

    use super::*;

    const US: u64 = 1_000;

    fn entries(indexes: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
        let entry = |index| Entry { term: 1, index, kind: EntryKind::Batch, payload: "".into() };
        indexes.map(entry).collect()
    }

    fn times(began_us: u32, ended_us: u32) -> OwnSync {
        OwnSync { began_us, ended_us }
    }

    #[test]
    fn an_entry_has_the_times_of_its_write() {
        let mut syncs = OwnSyncs::default();
        syncs.written(7, &entries(41..=43), 100 * US);
        syncs.written(8, &[], 110 * US);
        syncs.written(9, &entries(44..=44), 120 * US);
        assert_eq!(syncs.applied(41, 150 * US), OwnSync::default(), "it is not on disk yet");
        syncs.synced(8, 180 * US);
        syncs.synced(9, 300 * US);
        assert_eq!(syncs.applied(42, 250 * US), times(150, 70));
        assert_eq!(syncs.applied(43, 300 * US), times(200, 120));
        assert_eq!(syncs.applied(44, 300 * US + 1), times(181, 1), "a part of a microsecond counts as one");
        assert_eq!(syncs.applied(45, 400 * US), OwnSync::default(), "it was there before the process");
        assert!(syncs.writes.is_empty());
    }

    #[test]
    fn what_another_leader_replaces_has_the_times_of_the_later_write() {
        let mut syncs = OwnSyncs::default();
        syncs.written(1, &entries(10..=12), 0);
        syncs.written(2, &entries(13..=15), 10 * US);
        syncs.synced(2, 20 * US);
        syncs.written(3, &entries(12..=14), 50 * US);
        syncs.synced(3, 90 * US);
        assert_eq!(syncs.applied(11, 100 * US), times(100, 80));
        assert_eq!(syncs.applied(12, 100 * US), times(50, 10));
        assert_eq!(syncs.applied(14, 100 * US), times(50, 10));
        assert_eq!(syncs.applied(15, 100 * US), OwnSync::default(), "it was cut off");
    }

    #[test]
    fn no_more_than_the_newest_writes_are_remembered() {
        let mut syncs = OwnSyncs::default();
        let last = MAX_WRITES as u64 + 5;
        (1..=last).for_each(|number| syncs.written(number, &entries(number..=number), 0));
        syncs.synced(last, US);
        assert_eq!(syncs.writes.len(), MAX_WRITES);
        assert_eq!(syncs.applied(5, 2 * US), OwnSync::default());
        assert_eq!(syncs.applied(6, 2 * US), times(2, 1));
        assert_eq!(syncs.applied(last, u64::MAX), times(u32::MAX, u32::MAX));
    }
}
