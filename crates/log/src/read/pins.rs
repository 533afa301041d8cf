//! Pins and epochs: when a file that lost its last reference may be freed.
//!
//! A reader looks up a log address in the store's index, and reads the file later. In between, the value may be deleted
//! or relocated, and the file retired. The file must stay until such readers are done. As in epoch-based reclamation of
//! memory, time is divided into *epochs*:
//!
//! - A reader pins the current epoch **before** it looks at the index.
//! - When a file has lost its last reference, it is retired and the current epoch ends. A reader that pins later
//!   cannot find an address into that file any more.
//! - The file is freed when no pin of that epoch, or of an earlier one, is left.
//!
//! ```text
//!   epoch 0                | epoch 1               | epoch 2
//!   reader A pins ------------------------> unpins
//!            file X retired|   reader B pins --------------->
//!                          |            file Y retired
//!
//!   X (ended epoch 0) is freed when A unpins: B pinned later and cannot know X.
//!   Y (ended epoch 1) is freed when A and B have unpinned.
//! ```

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Counts the pins of all epochs that still have any.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    epochs: Mutex<Epochs>,
}

#[derive(Debug, Default)]
struct Epochs {
    /// Number of the first epoch in `pinned`.
    first: u64,
    /// Pins held, by epoch; the last is the current one.
    pinned: VecDeque<u64>,
}

impl Epochs {
    fn current(&mut self) -> u64 {
        if self.pinned.is_empty() {
            self.pinned.push_back(0);
        }
        self.first + self.pinned.len() as u64 - 1
    }

    /// Forgets the oldest epochs without pins, except the current one.
    fn forget_unpinned(&mut self) {
        while self.pinned.len() > 1 && self.pinned[0] == 0 {
            self.pinned.pop_front();
            self.first += 1;
        }
    }
}

impl Pins {
    /// Pins the current epoch and returns its number.
    pub(crate) fn pin(&self) -> u64 {
        let mut epochs = self.epochs.lock();
        let current = epochs.current();
        *epochs.pinned.back_mut().expect("there is a current epoch") += 1;
        current
    }

    pub(crate) fn unpin(&self, epoch: u64) {
        let mut epochs = self.epochs.lock();
        assert!(epoch >= epochs.first, "epoch {epoch} is over, so it has no pin to release");
        let at = (epoch - epochs.first) as usize;
        assert!(epochs.pinned[at] > 0, "epoch {epoch} is unpinned more often than pinned");
        epochs.pinned[at] -= 1;
        epochs.forget_unpinned();
    }

    /// Ends the current epoch and returns its number.
    pub(crate) fn end_epoch(&self) -> u64 {
        let mut epochs = self.epochs.lock();
        let ended = epochs.current();
        epochs.pinned.push_back(0);
        epochs.forget_unpinned();
        ended
    }

    /// The number of pins that are held.
    pub(crate) fn held(&self) -> u64 {
        self.epochs.lock().pinned.iter().sum()
    }

    /// Whether no pin of this (ended) epoch or an earlier one is left.
    pub(crate) fn is_over(&self, epoch: u64) -> bool {
        self.epochs.lock().first > epoch
    }
}

#[cfg(test)]
mod tests {
    //! Epochs end when their pins are released.
    use super::Pins;

    #[test]
    fn an_epoch_is_over_when_it_and_all_before_it_are_unpinned() {
        let pins = Pins::default();
        assert!(!pins.is_over(0), "the current epoch has not ended");
        let first = pins.pin();
        let ended = pins.end_epoch();
        assert_eq!(first, ended);
        let second = pins.pin();
        let also_ended = pins.end_epoch();
        assert!(!pins.is_over(ended) && !pins.is_over(also_ended));
        assert_eq!(pins.held(), 2);
        pins.unpin(second);
        assert!(!pins.is_over(also_ended), "an earlier pin may hold the same reference");
        pins.unpin(first);
        assert!(pins.is_over(ended) && pins.is_over(also_ended));
    }

    #[test]
    fn an_epoch_without_pins_is_over_at_once() {
        let pins = Pins::default();
        let ended = pins.end_epoch();
        assert!(pins.is_over(ended));
        let later = pins.pin();
        assert!(later > ended && pins.is_over(ended));
    }
}
