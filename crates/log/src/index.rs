//! Index -> term and place, for every entry raft may still ask for. Twelve bytes an entry and sixteen a
//! change of term, in memory.

use std::collections::VecDeque;

use crate::types::LogId;

#[cfg(test)]
mod tests;

/// The entries after `base`, without holes.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryIndex {
    /// The entry before the first one here.
    base: LogId,
    /// Payload places.
    addresses: VecDeque<u64>,
    /// Payload lengths.
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

    /// Payload place and length.
    pub(crate) fn address(&self, index: u64) -> Option<(u64, u32)> {
        let at = index.checked_sub(self.first())? as usize;
        Some((*self.addresses.get(at)?, self.lengths[at]))
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

    /// Forgets the entries above `index`, which must not be below the base.
    pub(crate) fn cut_above(&mut self, index: u64) {
        assert!(index >= self.base.index, "entries up to {} are settled", self.base.index);
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
