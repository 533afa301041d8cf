//! The term of every entry of the log, as runs of equal terms. Terms change with leaders, not with entries, so a log of
//! millions of entries needs a handful of numbers.
//!
//! ```text
//! index  3 | 4 5 6 7 8 9        previous (3, 2), runs [(4, 2), (6, 4)], last 9
//! term   2 | 2 2 4 4 4 4        at(3) = 2, at(5) = 2, at(8) = 4, at(10) = none
//! ```

use std::collections::VecDeque;

/// The terms of the log's entries, and of the entry just before the first of them.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// (index, term) of the entry before the first; (0, 0) at the very beginning.
    previous: (u64, u64),
    /// (first index, term) of each run, ascending; the last run ends at `last`.
    runs: VecDeque<(u64, u64)>,
    last: u64,
}

impl Terms {
    /// A log with nothing after `previous`, an (index, term).
    pub(crate) fn starting_after(previous: (u64, u64)) -> Terms {
        Terms { previous, runs: VecDeque::new(), last: previous.0 }
    }

    pub(crate) fn first(&self) -> u64 {
        self.previous.0 + 1
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The term at `index`, which may be the one just before the first; `None` outside the log.
    pub(crate) fn at(&self, index: u64) -> Option<u64> {
        if index == self.previous.0 {
            return Some(self.previous.1);
        }
        if index < self.previous.0 || index > self.last {
            return None;
        }
        let after = self.runs.partition_point(|&(first, _)| first <= index);
        Some(self.runs[after - 1].1)
    }

    /// Extends the last run, or begins one, up to `last`.
    pub(crate) fn extend_to(&mut self, last: u64, term: u64) {
        assert!(last > self.last, "terms are extended forwards");
        if self.runs.back().is_none_or(|run| run.1 != term) {
            self.runs.push_back((self.last + 1, term));
        }
        self.last = last;
    }

    /// Forgets `index` and all after it: entries of another leader replace them.
    pub(crate) fn cut_from(&mut self, index: u64) {
        assert!(index > self.previous.0, "only what the log holds is replaced");
        while self.runs.back().is_some_and(|run| run.0 >= index) {
            self.runs.pop_back();
        }
        self.last = self.last.min(index - 1);
    }

    /// Forgets all up to and including `index`, except the term there.
    pub(crate) fn truncate_to(&mut self, index: u64) {
        let Some(term) = self.at(index) else { return };
        self.previous = (index, term);
        while self.runs.len() > 1 && self.runs[1].0 <= index + 1 {
            self.runs.pop_front();
        }
        if index == self.last {
            self.runs.clear();
        } else if let Some(run) = self.runs.front_mut() {
            run.0 = run.0.max(index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_term_through_cuts_and_truncation() {
        let mut terms = Terms::starting_after((3, 2));
        terms.extend_to(5, 2);
        terms.extend_to(6, 4);
        terms.extend_to(9, 4);
        assert_eq!(
            (2..=10).map(|i| terms.at(i)).collect::<Vec<_>>(),
            [None, Some(2), Some(2), Some(2), Some(4), Some(4), Some(4), Some(4), None]
        );
        terms.cut_from(7);
        terms.extend_to(7, 5);
        assert_eq!((terms.last(), terms.at(6), terms.at(7)), (7, Some(4), Some(5)));
        terms.truncate_to(6);
        assert_eq!((terms.first(), terms.at(5), terms.at(6), terms.at(7)), (7, None, Some(4), Some(5)));
        terms.truncate_to(7);
        assert_eq!((terms.first(), terms.last(), terms.at(7)), (8, 7, Some(5)));
        terms.extend_to(8, 5);
        assert_eq!(terms.at(8), Some(5));
    }
}
