//! State hashes: each member tells its peers its newest one, and compares theirs with its own at the same index.
//!
//! ```text
//! member 1: applied 900, hash a1     -> StateHash { 900, a1 }
//! member 2: applied 905; remembers 900 -> a1: equal. A different hash at 900 means that the two states diverged.
//! ```

use std::collections::VecDeque;

/// Hashes remembered, to compare with peers that are a little behind.
const MAX_REMEMBERED: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct StateHashes {
    /// (applied index, hash), indexes ascending.
    remembered: VecDeque<(u64, u64)>,
    sent_index: u64,
}

impl StateHashes {
    /// The state at `index` has this hash.
    pub(crate) fn remember(&mut self, index: u64, hash: u64) {
        if self.remembered.len() == MAX_REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back((index, hash));
    }

    /// The newest hash, unless it was taken before.
    pub(crate) fn take_unsent(&mut self) -> Option<(u64, u64)> {
        let newest = self.remembered.back().copied().filter(|(index, _)| *index != self.sent_index)?;
        self.sent_index = newest.0;
        Some(newest)
    }

    /// Whether a peer's hash at `index` contradicts this member's. Unknown indexes contradict nothing.
    pub(crate) fn contradicts(&self, index: u64, hash: u64) -> bool {
        let at = self.remembered.binary_search_by_key(&index, |(index, _)| *index);
        at.is_ok_and(|at| self.remembered[at].1 != hash)
    }
}

#[cfg(test)]
mod tests {
    //! What is compared, and what is sent.
    use super::*;

    #[test]
    fn only_a_different_hash_at_a_known_index_contradicts() {
        let mut hashes = StateHashes::default();
        assert_eq!(hashes.take_unsent(), None);
        (1..=MAX_REMEMBERED as u64 + 1).for_each(|index| hashes.remember(index, 10 * index));
        assert!(hashes.contradicts(2, 21));
        assert!(!hashes.contradicts(2, 20));
        assert!(!hashes.contradicts(1, 11), "forgotten");
        assert!(!hashes.contradicts(5_000, 1), "not applied here yet");
        assert_eq!(hashes.take_unsent(), Some((1_001, 10_010)));
        assert_eq!(hashes.take_unsent(), None, "sent once");
    }
}
