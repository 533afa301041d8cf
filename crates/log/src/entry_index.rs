//! The index of entries: raft index -> term, log address and length, for every entry that raft may still ask for.
//!
//! Twelve bytes of memory for an entry, and sixteen for a change of term:
//!
//! ```text
//!   base (index 10, term 2)
//!   entries     11    12    13    14
//!   addresses   a1    a2    a3    a4        lengths   n1  n2  n3  n4
//!   terms       (11, term 2)  (13, term 3)  entries 13 and 14 have term 3
//!
//!   cut_above(12)   replaces a conflicting suffix: 13 and 14 go
//!   cut_below(12)   truncates the log: 11 and 12 go, the base becomes (12, 2)
//! ```
//!
//! Replaced entries do not disappear from their segments. Recovery repeats the same cuts in the order of the records,
//! so it arrives at the same index.

use std::collections::VecDeque;

use crate::error::ReadError;
use crate::read::EntryRef;
use crate::types::{LogId, file_of};

/// The entries after `base`, without holes.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryIndex {
    /// The entry before the first one here.
    base: LogId,
    /// Log addresses of payloads.
    addresses: VecDeque<u64>,
    /// Lengths of payloads in bytes.
    lengths: VecDeque<u32>,
    /// Where each term begins, by ascending index; the first may begin below `base`.
    terms: VecDeque<LogId>,
}

impl EntryIndex {
    pub(crate) fn new(base: LogId) -> EntryIndex {
        EntryIndex { base, ..EntryIndex::default() }
    }

    pub(crate) fn base(&self) -> LogId {
        self.base
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    pub(crate) fn first(&self) -> u64 {
        self.base.index + 1
    }

    pub(crate) fn last(&self) -> LogId {
        let index = self.base.index + self.addresses.len() as u64;
        LogId { index, term: self.terms.back().map_or(self.base.term, |run| run.term) }
    }

    pub(crate) fn term(&self, index: u64) -> Option<u64> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        if index < self.base.index || index > self.last().index {
            return None;
        }
        let after = self.terms.partition_point(|run| run.index <= index);
        Some(self.terms[after - 1].term)
    }

    /// Log address and length of the payload.
    pub(crate) fn address(&self, index: u64) -> Option<(u64, u32)> {
        let at = index.checked_sub(self.first())? as usize;
        Some((*self.addresses.get(at)?, self.lengths[at]))
    }

    fn entry_ref(&self, index: u64) -> Option<EntryRef> {
        let (address, len) = self.address(index)?;
        Some(EntryRef { id: LogId { index, term: self.term(index)? }, address, len })
    }

    /// The entries `from..to`, as many as have at most `max_bytes` of payload, but at least one.
    pub(crate) fn entries(&self, from: u64, to: u64, max_bytes: u64) -> Result<Vec<EntryRef>, ReadError> {
        let (first, last) = (self.first(), self.last().index);
        if from < first || from > last {
            return Err(ReadError::NoEntry { index: from, first, last });
        }
        let mut bytes = 0;
        let mut entries = Vec::new();
        for entry in (from..to.min(last + 1)).map_while(|index| self.entry_ref(index)) {
            bytes += u64::from(entry.len);
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// The entry before the last ones: at most `count` of them, with at most `max_bytes` of payload together.
    pub(crate) fn index_before_last(&self, count: u64, max_bytes: u64) -> u64 {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let kept = self.lengths.iter().rev().take(count).take_while(|length| {
            bytes += u64::from(**length);
            bytes <= max_bytes
        });
        self.last().index - kept.count() as u64
    }

    /// All entries from an index on.
    pub(crate) fn entries_from(&self, from: u64) -> Vec<EntryRef> {
        (from.max(self.first())..=self.last().index).map_while(|index| self.entry_ref(index)).collect()
    }

    /// Adds the entry after the last one.
    pub(crate) fn push(&mut self, id: LogId, address: u64, length: u32) {
        let last = self.last();
        assert!(id.index == last.index + 1, "entry {} does not follow {}", id.index, last.index);
        if self.terms.back().is_none_or(|run| run.term != id.term) {
            self.terms.push_back(id);
        }
        self.addresses.push_back(address);
        self.lengths.push_back(length);
    }

    /// Cheap invariants: one address and one length for each entry, all of them before the end of the log.
    pub(crate) fn check(&self, position: u64) {
        assert!(self.addresses.len() == self.lengths.len(), "each entry has an address and a length");
        assert!(self.addresses.is_empty() || !self.terms.is_empty(), "each entry has a term");
        assert!(self.addresses.back().is_none_or(|last| *last <= position), "the last entry is planned");
    }

    /// Walks the index: addresses ascend, terms begin in order, and `holds` is true for the file of each address.
    pub(crate) fn check_all(&self, holds: impl Fn(u32) -> bool) {
        assert!(self.addresses.iter().is_sorted_by(|one, next| one < next), "log addresses ascend");
        assert!(self.terms.iter().is_sorted_by(|one, next| one.index < next.index), "terms begin in order");
        let missing = self.addresses.iter().find(|address| !holds(file_of(**address)));
        assert!(missing.is_none(), "an entry is at {missing:016x?}, in no segment of the log");
    }

    /// Forgets the entries above `index`, which must not be below the base.
    pub(crate) fn cut_above(&mut self, index: u64) {
        assert!(index >= self.base.index, "entries up to {} are truncated or in a snapshot", self.base.index);
        let kept = (index - self.base.index) as usize;
        self.addresses.truncate(kept);
        self.lengths.truncate(kept);
        while self.terms.back().is_some_and(|run| run.index > index) {
            self.terms.pop_back();
        }
    }

    /// Forgets the entries up to `index`; those above stay.
    pub(crate) fn cut_below(&mut self, index: u64) {
        let index = index.min(self.last().index);
        let Some(term) = self.term(index) else { return };
        let gone = (index - self.base.index) as usize;
        self.addresses.drain(..gone);
        self.lengths.drain(..gone);
        self.base = LogId { index, term };
        while self.terms.len() > 1 && self.terms[1].index <= index + 1 {
            self.terms.pop_front();
        }
        if self.addresses.is_empty() {
            self.terms.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    //! The index against a plain list.
    use proptest::prelude::*;

    use super::EntryIndex;
    use crate::types::LogId;

    #[derive(Debug, Clone)]
    enum Step {
        Push { new_term: bool },
        CutAbove(usize),
        CutBelow(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any::<bool>().prop_map(|new_term| Step::Push { new_term }),
            1 => (0..8_usize).prop_map(Step::CutAbove),
            1 => (0..8_usize).prop_map(Step::CutBelow),
        ]
    }

    #[test]
    fn the_last_entries_are_limited_by_their_number_and_by_their_bytes() {
        let mut index = EntryIndex::new(LogId { index: 10, term: 2 });
        assert_eq!(index.index_before_last(5, 100), 10, "there is none");
        for (at, length) in (0..).zip([30, 20, 10, 40]) {
            index.push(LogId { index: 11 + at, term: 2 }, at * 64, length);
        }
        for (count, max_bytes, before) in [
            (0, 1_000, 14),
            (2, 1_000, 12),
            (2, 70, 12),
            (9, 39, 14),
            (9, 40, 13),
            (9, 49, 13),
            (9, 50, 12),
            (9, 70, 11),
            (9, 99, 11),
            (4, 100, 10),
            (u64::MAX, u64::MAX, 10),
        ] {
            assert_eq!(index.index_before_last(count, max_bytes), before, "{count} of {max_bytes} bytes");
        }
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_a_plain_list(steps in prop::collection::vec(step(), 0..60)) {
            let mut index = EntryIndex::new(LogId { index: 10, term: 2 });
            // The base and all entries after it: term, address, length.
            let mut list = vec![(2_u64, 0_u64, 0_u32)];
            let mut base = 10_u64;
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push { new_term } => {
                        let last = list.last().expect("there is a base").0;
                        let (term, address) = (last + u64::from(new_term), at as u64 * 8);
                        index.push(LogId { index: base + list.len() as u64, term }, address, at as u32);
                        list.push((term, address, at as u32));
                    }
                    Step::CutAbove(kept) => {
                        let kept = kept.min(list.len() - 1);
                        index.cut_above(base + kept as u64);
                        list.truncate(kept + 1);
                    }
                    Step::CutBelow(gone) => {
                        index.cut_below(base + gone as u64);
                        let gone = gone.min(list.len() - 1);
                        list.drain(..gone);
                        base += gone as u64;
                    }
                }
                let last = base + list.len() as u64 - 1;
                let term = list.last().expect("there is a base").0;
                prop_assert_eq!(index.base(), LogId { index: base, term: list[0].0 });
                prop_assert_eq!(index.last(), LogId { index: last, term });
                for asked in base.saturating_sub(2)..last + 3 {
                    let known = asked.checked_sub(base).and_then(|at| list.get(at as usize));
                    prop_assert_eq!(index.term(asked), known.map(|entry| entry.0));
                    let address = known.filter(|_| asked > base).map(|entry| (entry.1, entry.2));
                    prop_assert_eq!(index.address(asked), address);
                }
            }
        }
    }
}
