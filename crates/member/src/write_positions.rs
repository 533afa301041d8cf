//! Where in the log the writes end that consensus asked for and that are not known to be synced.
//!
//! Consensus numbers its writes; the log reports positions. This maps one to the other:
//!
//! ```text
//! consensus: write 5 ----> log: append up to position 900
//! consensus: write 6 ----> log: append up to position 1400
//! log: durable up to 1400  ->  take_synced() = 6       (all writes up to 6 are synced)
//! ```
//!
//! A hard state of which only the commit index is new costs no write of its own: it goes with the next one. What may be
//! sent before a write is synced is not decided here but by the ordering rule, in
//! `crates/consensus/src/replication/unsynced_writes.rs`.

use std::collections::VecDeque;

use consensus::{HardState, Write};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WritePositions {
    /// (number of the write, log position at which it ends), both ascending.
    unsynced: VecDeque<(u64, u64)>,
    /// The log is durable up to this position.
    durable: u64,
    /// A hard state of which only the commit index is new.
    unwritten: Option<HardState>,
}

impl WritePositions {
    /// The write of this number is synced once the log is durable up to `position`.
    pub(crate) fn push(&mut self, number: u64, position: u64) {
        if let Some(&(last_number, last_position)) = self.unsynced.back() {
            assert!(last_number < number, "write {number} comes after write {last_number}");
            assert!(last_position <= position, "write {number} ends before write {last_number}");
        }
        self.unsynced.push_back((number, position));
    }

    /// The log is durable up to `position`.
    pub(crate) fn log_synced(&mut self, position: u64) {
        assert!(position >= self.durable, "durable log went back from {} to {position}", self.durable);
        self.durable = position;
    }

    /// The number of the newest write that was synced since the last call.
    pub(crate) fn take_synced(&mut self) -> Option<u64> {
        let durable = self.durable;
        let mut newest = None;
        while let Some((number, _)) = self.unsynced.pop_front_if(|(_, position)| *position <= durable) {
            newest = Some(number);
        }
        newest
    }

    /// The hard state to write with `write`, or later if `write` need not be synced: its own, or an earlier one that
    /// was not written.
    pub(crate) fn hard_state_for(&mut self, write: &Write) -> Option<HardState> {
        let hard_state = write.hard_state.or(self.unwritten);
        self.unwritten = if write.must_sync { None } else { hard_state };
        hard_state
    }

    /// A write will not be written, because a later one replaces its entries. Its hard state goes with a later one.
    pub(crate) fn superseded(&mut self, write: &Write) {
        self.unwritten = write.hard_state.or(self.unwritten);
    }

    /// The newest hard state that is not written, with that of `write`.
    pub(crate) fn take_hard_state(&mut self, write: &Write) -> Option<HardState> {
        write.hard_state.or(self.unwritten.take())
    }
}

#[cfg(test)]
mod tests {
    //! Numbers follow positions, and a commit index waits for the next write.
    use super::*;

    fn write(number: u64, commit: Option<u64>, must_sync: bool) -> Write {
        let hard_state = commit.map(|commit| HardState { commit, ..HardState::default() });
        Write { number, hard_state, snapshot: None, entries: Vec::new(), must_sync }
    }

    #[test]
    fn a_write_is_synced_with_its_position() {
        let mut writes = WritePositions::default();
        writes.push(5, 900);
        writes.push(6, 1400);
        writes.log_synced(1399);
        assert_eq!(writes.take_synced(), Some(5));
        assert_eq!(writes.take_synced(), None);
        writes.log_synced(1400);
        assert_eq!(writes.take_synced(), Some(6));
    }

    #[test]
    fn a_new_commit_index_goes_with_the_next_write() {
        let mut writes = WritePositions::default();
        let commit = |hard_state: Option<HardState>| hard_state.map(|state| state.commit);
        assert_eq!(commit(writes.hard_state_for(&write(1, Some(7), false))), Some(7));
        assert_eq!(commit(writes.hard_state_for(&write(2, None, true))), Some(7));
        assert_eq!(commit(writes.hard_state_for(&write(3, None, true))), None);
    }
}
