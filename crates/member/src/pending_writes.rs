//! Writes that consensus asked for and the log has not yet reported durable.
//!
//! Consensus numbers its writes; the log reports positions. This maps one to the other:
//!
//! ```text
//! consensus: write 5 ----> log: append up to position 900
//! consensus: write 6 ----> log: append up to position 1400
//! log: durable up to 1400  ->  take_durable() = 6      (all writes up to 6 are synced)
//! ```
//!
//! A hard state of which only the commit index is new costs no write of its own: it goes with the next one. What may be
//! sent before a write is durable is not decided here but by the ordering rule, in
//! `crates/consensus/src/replication/unsynced_writes.rs`.

use std::collections::VecDeque;

use consensus::{HardState, Write};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PendingWrites {
    /// (number of the write, log position that makes it durable), both ascending.
    in_flight: VecDeque<(u64, u64)>,
    durable: u64,
    /// A hard state of which only the commit index is new.
    unwritten: Option<HardState>,
}

impl PendingWrites {
    /// The write of this number is durable once the log is durable up to `position`.
    pub(crate) fn push(&mut self, number: u64, position: u64) {
        if let Some(&(last_number, last_position)) = self.in_flight.back() {
            assert!(last_number < number, "write {number} comes after write {last_number}");
            assert!(last_position <= position, "write {number} ends before write {last_number}");
        }
        self.in_flight.push_back((number, position));
    }

    /// The log is durable up to `position`.
    pub(crate) fn synced(&mut self, position: u64) {
        assert!(position >= self.durable, "durable log went back from {} to {position}", self.durable);
        self.durable = position;
    }

    /// The newest write that has become durable since the last call.
    pub(crate) fn take_durable(&mut self) -> Option<u64> {
        let durable = self.durable;
        let mut newest = None;
        while let Some((number, _)) = self.in_flight.pop_front_if(|(_, position)| *position <= durable) {
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
    fn a_write_is_durable_with_its_position() {
        let mut writes = PendingWrites::default();
        writes.push(5, 900);
        writes.push(6, 1400);
        writes.synced(1399);
        assert_eq!(writes.take_durable(), Some(5));
        assert_eq!(writes.take_durable(), None);
        writes.synced(1400);
        assert_eq!(writes.take_durable(), Some(6));
    }

    #[test]
    fn a_new_commit_index_goes_with_the_next_write() {
        let mut writes = PendingWrites::default();
        let commit = |hard_state: Option<HardState>| hard_state.map(|state| state.commit);
        assert_eq!(commit(writes.hard_state_for(&write(1, Some(7), false))), Some(7));
        assert_eq!(commit(writes.hard_state_for(&write(2, None, true))), Some(7));
        assert_eq!(commit(writes.hard_state_for(&write(3, None, true))), None);
    }
}
