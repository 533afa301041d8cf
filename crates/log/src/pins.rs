//! Pins: which readers may still hold references that the index no longer has.
//!
//! Time is cut into *eras*. A reader pins the current era before it looks at the index. When a file has lost
//! its last reference it is retired and the era ends; whoever pinned later cannot have seen a reference to
//! it. The file may go once no pin of that era or an earlier one is left.

use std::collections::VecDeque;

use parking_lot::Mutex;

#[cfg(test)]
mod tests;

#[derive(Debug, Default)]
pub(crate) struct Pins {
    eras: Mutex<Eras>,
}

#[derive(Debug, Default)]
struct Eras {
    /// Number of the first era in `pinned`.
    first: u64,
    /// Pins held, by era; the last is the current one.
    pinned: VecDeque<u64>,
}

impl Eras {
    fn current(&mut self) -> u64 {
        if self.pinned.is_empty() {
            self.pinned.push_back(0);
        }
        self.first + self.pinned.len() as u64 - 1
    }
}

impl Pins {
    /// Pins the current era and returns its number.
    pub(crate) fn pin(&self) -> u64 {
        let mut eras = self.eras.lock();
        let current = eras.current();
        *eras.pinned.back_mut().expect("there is a current era") += 1;
        current
    }

    pub(crate) fn unpin(&self, era: u64) {
        let mut eras = self.eras.lock();
        let at = (era - eras.first) as usize;
        eras.pinned[at] -= 1;
        while eras.pinned.len() > 1 && eras.pinned[0] == 0 {
            eras.pinned.pop_front();
            eras.first += 1;
        }
    }

    /// Ends the current era and returns its number.
    pub(crate) fn end_era(&self) -> u64 {
        let mut eras = self.eras.lock();
        let ended = eras.current();
        eras.pinned.push_back(0);
        while eras.pinned.len() > 1 && eras.pinned[0] == 0 {
            eras.pinned.pop_front();
            eras.first += 1;
        }
        ended
    }

    /// Whether no pin of this (ended) era or an earlier one is left.
    pub(crate) fn is_over(&self, era: u64) -> bool {
        self.eras.lock().first > era
    }
}
